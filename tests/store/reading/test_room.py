"""Memory for what is read: of its length, and given back when it is let go."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from spdl.store import LocalStore

MIB = 1 << 20


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


# Around 2 MiB, the size of large pages, from where on memory comes from the system.
@pytest.mark.parametrize("length", [0, 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 4 * MIB - 5000, 5 * MIB])
def test_local_store_gives_a_content_of_any_length(tmp_path: Path, length: int) -> None:
    content = os.urandom(length)
    (tmp_path / "a").write_bytes(content)
    found = memoryview(LocalStore(tmp_path).get("a"))
    assert found.nbytes == length
    assert bytes(found) == content


def test_local_store_has_no_memory_for_too_much(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        try:
            file.truncate(1 << 62)
        except OSError:
            try:
                file.truncate(15 << 40)
            except OSError:
                pytest.skip("the file system has no files that large")
    with pytest.raises(MemoryError):
        LocalStore(tmp_path).get("a")


@pytest.mark.skipif(sys.platform != "linux", reason="as /proc and large pages are Linux's")
def test_what_is_let_go_goes_back_to_the_system(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(8 * MIB))
    store = LocalStore(tmp_path)
    held = [store.get("a") for _ in range(16)]
    before = resident()
    del held
    assert before - resident() >= 15 * 8 * MIB
