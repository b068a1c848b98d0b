"""The targets that arrays and archives are written to."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.io import load_npy, save_npy, save_npz

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ARRAY = np.arange(100_000)

SAVES: list[Callable[[Any], None]] = [
    lambda dst: save_npy(dst, ARRAY),
    lambda dst: save_npz(dst, {"a": ARRAY, "b": ARRAY}),
]


def test_an_array_may_be_written_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    save_npy(path, ARRAY)
    array = load_npy(path)
    save_npy(path, array[::-1])
    assert (array == ARRAY).all()
    assert (load_npy(path) == ARRAY[::-1]).all()


def test_a_file_stays_where_the_new_one_fails(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    save_npy(path, ARRAY)
    # Writing fails beyond this size, in a process of its own.
    script = """
import resource, signal, sys
import numpy as np
from spdl.io import save_npy
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
    save_npy(sys.argv[1], np.zeros(100_000))
except OSError as error:
    print(error.strerror)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "File too large\n"
    assert (load_npy(path) == ARRAY).all()
    assert [it.name for it in tmp_path.iterdir()] == ["array.npy"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_a_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "array.npy"
    path.touch()
    path.chmod(mode)
    save_npy(path, ARRAY)
    assert path.stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    save_npy(tmp_path / "ours.npy", ARRAY)
    np.save(tmp_path / "theirs.npy", ARRAY)
    assert (tmp_path / "ours.npy").stat().st_mode == (tmp_path / "theirs.npy").stat().st_mode


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not stop root")
def test_a_file_that_is_not_writable_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    save_npy(path, ARRAY)
    path.chmod(0o400)
    with pytest.raises(PermissionError, match=r"array\.npy"):
        save_npy(path, [1])
    assert (load_npy(path) == ARRAY).all()


def test_links_are_followed(tmp_path: Path) -> None:
    path, link = tmp_path / "array.npy", tmp_path / "link.npy"
    link.symlink_to(path)
    for array in ARRAY, ARRAY[1:]:
        save_npy(link, array)
        assert link.is_symlink()
        assert (load_npy(path) == array).all()


def test_what_is_no_regular_file_is_written_to() -> None:
    source, target = os.pipe()
    save_npy(f"/proc/self/fd/{target}", ARRAY[:100])
    os.close(target)
    with os.fdopen(source, "rb") as file:
        assert (np.load(io.BytesIO(file.read())) == ARRAY[:100]).all()


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        save_npy(tmp_path, ARRAY)
    with pytest.raises(FileNotFoundError) as raised:
        save_npy(tmp_path / "none" / "array.npy", ARRAY)
    assert raised.value.filename == str(tmp_path / "none" / "array.npy")


@pytest.mark.parametrize("save", SAVES)
def test_files_without_a_buffer_get_all(save: Callable[[Any], None]) -> None:
    class Raw(io.RawIOBase):
        """Takes a few bytes at a time, as the system may."""

        written = b""

        def write(self, data: Any) -> int:
            self.written += bytes(data[:999])
            return len(data[:999])

    raw, whole = Raw(), io.BytesIO()
    save(raw)
    save(whole)
    assert raw.written == whole.getvalue()


def test_files_without_a_buffer_that_would_block() -> None:
    source, target = os.pipe()
    os.set_blocking(target, False)
    with (
        os.fdopen(source, "rb"),
        os.fdopen(target, "wb", buffering=0) as file,
        pytest.raises(BlockingIOError, match="has to block"),
    ):
        save_npy(file, np.zeros(1 << 20))


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("dst", [None, 3, b"array.npy", bytearray(9)])
def test_what_is_no_target(save: Callable[[Any], None], dst: Any) -> None:
    with pytest.raises(TypeError, match=rf"`dst` must be a path .* got {re.escape(repr(dst))} \(.*test_array_target"):
        save(dst)
