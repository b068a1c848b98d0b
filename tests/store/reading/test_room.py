"""Memory for what is read: of its length, private, and given back when it is let go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spdl.store import LocalStore
from spdl.store._reading.room import make_room

MIB = 1 << 20


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("length", [0, 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 4 * MIB - 5000, 5 * MIB])
def test_all_of_it_can_be_written(length: int) -> None:
    room = make_room(length)
    assert room.nbytes == length
    assert bytes(room) == bytes(length)
    room[:] = b"x" * length
    assert bytes(room) == b"x" * length


def test_too_much() -> None:
    with pytest.raises(MemoryError):
        make_room(1 << 62)


@pytest.mark.skipif(sys.platform != "linux", reason="as /proc and large pages are Linux's")
def test_what_is_let_go_goes_back_to_the_system(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(8 * MIB))
    store = LocalStore(tmp_path)
    held = [store.get("a") for _ in range(16)]
    before = resident()
    del held
    assert before - resident() >= 15 * 8 * MIB


FORKS = """
import os
from spdl.store._reading.room import make_room

room = make_room(4 << 20)
room[0] = 1
told, tell = os.pipe()
if (child := os.fork()) == 0:
    os.read(told, 1)
    os._exit(room[0])
room[0] = 2
os.write(tell, b"!")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_does_not_see_what_comes_later() -> None:
    found = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    assert found.stdout == "1\n"
