"""What is kept is for the user alone, is compared with its checksums, and is done without where it cannot be kept."""

from __future__ import annotations

import errno
import os
import random
import stat
import warnings
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.store import CachedStore, LocalStore

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (0, 1, 1000, 65535, 65536, 65537, 200_000)


def make(folder: Path, size: int) -> tuple[CachedStore, bytes]:
    """Return a cache before a store of one object, and the object."""
    content = random.Random(size).randbytes(size)  # noqa: S311 - no secret.
    (folder / "root").mkdir()
    (folder / "root" / "a").write_bytes(content)
    return CachedStore(LocalStore(folder / "root"), folder / "cache", 10**9), content


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_nobody_else_may_read_what_is_kept(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        store, _ = make(tmp_path, 1000)
        store.get("a")
        store.get_ranges("a", [5], [10])
    finally:
        os.umask(before)
    paths = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in paths}
    assert modes == {(True, 0o700), (False, 0o600)}


@given(st.sampled_from(SIZES), st.data())
def test_what_was_damaged_is_read_anew(
    tmp_path_factory: pytest.TempPathFactory, size: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    store, content = make(folder, size)
    assert bytes(store.get("a")) == content
    (file,) = (folder / "cache" / "files").iterdir()
    kept = bytearray(file.read_bytes())
    if kept:
        kept[data.draw(st.integers(0, len(kept) - 1))] ^= data.draw(st.integers(1, 255))
        file.write_bytes(kept)
    start = data.draw(st.integers(0, size))
    length = data.draw(st.integers(0, size - start))
    (part,) = store.get_ranges("a", [start], [length])
    assert bytes(part) == content[start : start + length]
    assert bytes(store.get("a")) == content
    # What was damaged has been found out, at the latest by the second call. Nothing is kept of no bytes.
    assert store.statistics().misses >= 1 + bool(kept)
    misses = store.statistics().misses
    assert bytes(store.get("a")) == content
    assert store.statistics().misses == misses


def test_a_process_that_begins_compares_again(tmp_path: Path) -> None:
    store, content = make(tmp_path, 200_000)
    for _ in range(3):
        store.get("a")
    (file,) = (tmp_path / "cache" / "files").iterdir()
    with file.open("r+b") as kept:
        kept.write(b"damage")
    again = CachedStore(LocalStore(tmp_path / "root"), tmp_path / "cache", 10**9)
    assert bytes(again.get("a")) == content
    assert again.statistics()[:3] == (0, 0, 1)


@given(st.sampled_from(SIZES), st.data())
def test_parts_of_what_is_kept_are_slices(
    tmp_path_factory: pytest.TempPathFactory, size: int, data: st.DataObject
) -> None:
    store, content = make(tmp_path_factory.mktemp("slices"), size)
    store.get("a")
    for _ in range(10):
        start = data.draw(st.integers(0, size))
        length = data.draw(st.integers(0, size - start))
        assert bytes(store.get_ranges("a", [start], [length])[0]) == content[start : start + length]
    assert store.statistics().misses == 1


def test_a_file_in_the_place_of_another_is_not_taken(tmp_path: Path) -> None:
    store, content = make(tmp_path, 1000)
    (tmp_path / "root" / "b").write_bytes(bytes(1000))
    store.get("a")
    (kept,) = (tmp_path / "cache" / "files").iterdir()
    store.get("b")
    (other,) = {*(tmp_path / "cache" / "files").iterdir()} - {kept}
    other.replace(kept)
    assert bytes(store.get("a")) == content


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.ENOLCK])
def test_a_folder_that_cannot_be_written_to_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store, content = make(tmp_path, 1000)
    (tmp_path / "root" / "b").write_bytes(b"b")
    (tmp_path / "root" / "c").write_bytes(b"c")
    store.get("a")
    system_open = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise OSError(number, os.strerror(number))
        return system_open(path, flags, mode)

    # The tests may run as root, to whom no permission is denied.
    monkeypatch.setattr(os, "open", refuse)
    again = CachedStore(LocalStore(tmp_path / "root"), tmp_path / "cache", 10**9)
    assert bytes(again.get("a")) == content
    with pytest.warns(RuntimeWarning, match=f"cannot be written to .{os.strerror(number)}.: what is read is not kept"):
        assert bytes(again.get("b")) == b"b"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bytes(again.get("c")) == b"c"
        assert bytes(again.get_ranges("b", [0], [1])[0]) == b"b"
    assert again.statistics()[:4] == (0, 1, 3, 3)


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, mode: int = 0o777, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "makedirs", refuse)
    with pytest.warns(RuntimeWarning, match=r"cache' cannot be written to \(Permission denied\)"):
        store, content = make(tmp_path, 1000)
    assert bytes(store.get("a")) == content
    monkeypatch.undo()
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        CachedStore(LocalStore(tmp_path), tmp_path / "file", 10)
