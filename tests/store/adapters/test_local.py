"""A folder as a store: the oracle is Python's own reading of files."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hammer import assert_agree, hammer

from spdl.store import LocalStore, Store, StoreError

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = bytes(i * i % 251 for i in range(100_000))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    for path, content in {
        "a/b": b"ab",
        "a.b": b"",
        "a/c/d": CONTENT,
        "a/\u00e9 \U0001f600": b"x",
        "a0": b"0",
        "z": b"last",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


def test_it_is_a_store(root: Path) -> None:
    assert isinstance(LocalStore(root), Store)


def test_content_and_sizes(root: Path) -> None:
    store = LocalStore(str(root))
    for path in ("a/b", "a.b", "a/c/d", "a/\u00e9 \U0001f600"):
        assert bytes(store.get(path)) == (root / path).read_bytes()
        assert store.size(path) == (root / path).stat().st_size


def test_listing_is_sorted_by_path(root: Path) -> None:
    found = [entry.path for entry in LocalStore(root).list("")]
    assert found == sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_prefix_is_a_folder_or_an_object(root: Path) -> None:
    store = LocalStore(root)
    assert [entry.path for entry in store.list("a")] == ["a/b", "a/c/d", "a/\u00e9 \U0001f600"]
    assert list(store.list("a/")) == list(store.list("a"))
    assert [(entry.path, entry.size) for entry in store.list("a/c/d")] == [("a/c/d", len(CONTENT))]
    assert list(store.list("nothing")) == []
    assert list(store.list("z/below")) == []


@given(ranges=st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 70_000)), max_size=20))
def test_ranges_are_slices(root: Path, ranges: list[tuple[int, int]]) -> None:
    ranges = [(start, min(length, len(CONTENT) - start)) for start, length in ranges]
    parts = LocalStore(root).get_ranges("a/c/d", [s for s, _ in ranges], [n for _, n in ranges])
    assert [bytes(part) for part in parts] == [CONTENT[start : start + length] for start, length in ranges]
    assert all(memoryview(part).readonly for part in parts)


def test_a_small_part_does_not_keep_its_neighbours_in_memory(root: Path) -> None:
    small, large = LocalStore(root).get_ranges("a/c/d", [0, 200], [100, 60_000])
    assert memoryview(small).obj != memoryview(large).obj
    assert len(memoryview(memoryview(small).obj)) == 100


def test_ranges_beyond_the_end_are_errors(root: Path) -> None:
    with pytest.raises(StoreError, match=r"a/b in LocalStore\(.*: it has 2 bytes, but bytes 1 to 3 were asked for"):
        LocalStore(root).get_ranges("a/b", [0, 1], [1, 2])


@pytest.mark.parametrize("path", ["missing", "a", "a/b/c", "missing/too"])
def test_what_is_missing(root: Path, path: str) -> None:
    store = LocalStore(root)
    for call in (store.size, store.get, lambda path: store.get_ranges(path, [0], [0])):
        with pytest.raises(FileNotFoundError, match=r"No such object in LocalStore\('"):
            call(path)


def test_a_missing_root(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such folder"):
        LocalStore(tmp_path / "missing")
    with pytest.raises(TypeError, match="`root` must be a path"):
        LocalStore(3)  # type: ignore[arg-type]


def test_pipes_are_no_objects_and_nobody_waits_for_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    store = LocalStore(tmp_path)
    assert list(store.list("")) == []
    for call in (store.get, store.size):
        with pytest.raises(FileNotFoundError):
            call("pipe")


def test_links_are_followed_and_circles_end(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").write_bytes(b"x")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "folder").symlink_to(tmp_path / "there")
    (tmp_path / "root" / "file").symlink_to(tmp_path / "there" / "x")
    (tmp_path / "root" / "nothing").symlink_to(tmp_path / "nowhere")
    (tmp_path / "root" / "itself").symlink_to(tmp_path / "root" / "itself")
    (tmp_path / "there" / "up").symlink_to(tmp_path / "root")
    store = LocalStore(tmp_path / "root")
    assert [entry.path for entry in store.list("")] == ["file", "folder/x"]
    assert bytes(store.get("folder/x")) == b"x"


def test_the_etag_changes_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"1")
    store = LocalStore(tmp_path)
    first = next(store.list("x")).etag
    assert next(store.list("x")).etag == first
    os.utime(path, ns=(1, 2))
    assert next(store.list("x")).etag != first


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_forbidden_files(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1")
    (tmp_path / "x").chmod(0)
    with pytest.raises(StoreError, match=r"x in LocalStore.*: Permission denied"):
        LocalStore(tmp_path).get("x")


def test_a_name_that_is_too_long(root: Path) -> None:
    with pytest.raises(StoreError, match="File name too long"):
        LocalStore(root).get("x" * 1000)


def test_a_relative_root_stays_where_it_was(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    store = LocalStore("a")
    monkeypatch.chdir(tmp_path)
    assert bytes(store.get("b")) == b"ab"
    assert bytes(pickle.loads(pickle.dumps(store)).get("b")) == b"ab"  # noqa: S301 - our own.


@pytest.mark.parametrize("size", [len(CONTENT), 3 << 20])
def test_local_store_goes_on_where_one_call_of_the_system_reads_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Linux reads less than 2 GiB in one call, and a file system may always give less."""
    whole = CONTENT * (1 + size // len(CONTENT))
    (tmp_path / "x").write_bytes(whole)
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda file, count, at: pread(file, min(count, 70_000), at))
    monkeypatch.setattr(os, "preadv", lambda file, parts, at: preadv(file, [parts[0][:70_000]], at))
    store = LocalStore(tmp_path)
    assert bytes(store.get("x")) == whole
    (part,) = store.get_ranges("x", [10], [80_000])
    assert memoryview(part).readonly
    assert bytes(part) == whole[10:80_010]


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(CONTENT)
    pread = os.pread

    def cut_first(*arguments: int) -> bytes:
        os.truncate(tmp_path / "x", 100)
        return pread(*arguments)

    monkeypatch.setattr(os, "pread", cut_first)
    with pytest.raises(StoreError, match=r"x in LocalStore.*: it was cut to 100 bytes while it was read"):
        LocalStore(tmp_path).get("x")


def test_many_threads(root: Path) -> None:
    store = LocalStore(root)
    whole, parts, listed = hammer(
        lambda: store.get("a/c/d"), lambda: store.get_ranges("a/c/d", [5, 90], [3, 4]), lambda: list(store.list(""))
    )
    assert_agree([whole, [[bytes(part) for part in found] for found in parts], listed])  # type: ignore[attr-defined]
    assert whole[0] == CONTENT
