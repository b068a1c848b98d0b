"""What was read is not read again: by no thread, no process, and not in part."""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import shutil
import signal
import threading
import urllib.request
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.range_server import content, running

from spdl.store import CachedStore, Entry, HTTPStore, LocalStore, Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def inner(url: str) -> Iterator[HTTPStore]:
    store = HTTPStore(url)
    yield store
    store.close()


def test_an_object_is_read_once(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path, 10**7)
    assert isinstance(store, Store)
    for _ in range(3):
        assert bytes(store.get("1000/a")) == content("1000/a")
        assert store.size("1000/a") == 1000
    assert inner.statistics().requests == 2
    again = CachedStore(inner, tmp_path, 10**7)
    assert bytes(again.get("1000/a")) == content("1000/a")
    assert inner.statistics().requests == 3, "its version is looked up again"
    assert (again.statistics().disk_hits, again.statistics().misses) == (1, 0)


def test_memory_comes_first(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path, 10**7, memory_bytes=5000)
    for path in ("1000/a", "1000/a", "4500/b", "1000/a", "1000/a"):
        assert bytes(store.get(path)) == content(path)
    found = store.statistics()
    assert (found.memory_hits, found.disk_hits, found.misses) == (2, 1, 2)
    assert found.memory_bytes <= 5000


class Counting:
    """A store of four methods, which counts their calls."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.calls: list[str] = []

    def __repr__(self) -> str:
        return "Counting()"

    def size(self, path: str) -> int:
        self.calls.append("size")
        return self.inner.size(path)

    def list(self, prefix: str) -> Any:
        self.calls.append("list")
        return self.inner.list(prefix)

    def get(self, path: str) -> Any:
        self.calls.append("get")
        return self.inner.get(path)

    def get_ranges(self, path: str, starts: Any, lengths: Any) -> Any:
        self.calls.append("get_ranges")
        return self.inner.get_ranges(path, starts, lengths)


class Versioned(Counting):
    def read_version(self, path: str, ranges: Any = None) -> Any:
        self.calls.append("read_version")
        assert isinstance(self.inner, LocalStore)
        return self.inner.read_version(path, ranges)


@pytest.mark.parametrize(("kind", "each"), [(Counting, ["get", "list"]), (Versioned, ["read_version"])])
def test_a_listing_saves_requests(tmp_path: Path, kind: type[Counting], each: list[str]) -> None:
    (tmp_path / "root").mkdir()
    for number in range(5):
        (tmp_path / "root" / f"{number}").write_bytes(b"x" * number)
    inner = kind(LocalStore(tmp_path / "root"))
    store = CachedStore(inner, tmp_path / "cache", 10**6)
    assert len(list(store.list(""))) == 5
    for _ in range(2):
        for number in range(5):
            assert bytes(store.get(f"{number}")) == b"x" * number
            assert store.size(f"{number}") == number
    assert inner.calls == ["list", *each * 5]


class Many(Counting):
    """A store that lists as many objects as it is told, named by numbers; each has the content of its name."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.calls: list[str] = []

    def __repr__(self) -> str:
        return "Many()"

    def size(self, path: str) -> int:
        return len(path)

    def list(self, prefix: str) -> Iterator[Entry]:
        self.calls.append(f"list {prefix}".strip())
        return (Entry(path, len(path), "1") for path in ([prefix] if prefix else map(str, range(self.count))))

    def get(self, path: str) -> bytes:
        return path.encode()


def test_cached_store_remembers_so_many_versions(tmp_path: Path) -> None:
    most = 262_144
    inner = Many(most + 2)
    store = CachedStore(inner, tmp_path / "cache", 10**6)
    assert sum(1 for _ in store.list("")) == most + 2
    assert inner.calls == ["list"]
    assert store.size("2") == 1  # It is the oldest that is remembered, and now the one used last.
    assert inner.calls == ["list"]
    assert store.size("0") == 1  # It is looked up again, and takes the place of that used longest ago.
    assert store.size("2") == store.size("4") == 1
    assert inner.calls == ["list", "list 0"]
    assert store.size("3") == 1
    assert inner.calls == ["list", "list 0", "list 3"]


KEYS = "abcdef"


@given(
    sizes=st.lists(st.integers(1, 40), min_size=len(KEYS), max_size=len(KEYS)),
    steps=st.lists(st.sampled_from(KEYS), max_size=60),
    most=st.integers(1, 100),
)
def test_cached_store_has_in_memory_what_was_used_last(
    sizes: list[int], steps: list[str], most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("memory")
    (folder / "root").mkdir()
    for key, size in zip(KEYS, sizes, strict=True):
        (folder / "root" / key).write_bytes(key.encode() * size)
    store = CachedStore(LocalStore(folder / "root"), folder / "cache", 10**6, memory_bytes=most)
    model = OrderedDict[str, bytes]()
    hits = 0
    for key in steps:
        expected = key.encode() * sizes[KEYS.index(key)]
        assert bytes(store.get(key)) == expected
        if key in model:
            hits += 1
            model.move_to_end(key)
        elif len(expected) <= most:
            model[key] = expected
            while sum(map(len, model.values())) > most:
                model.popitem(last=False)
        found = store.statistics()
        assert (found.memory_hits, found.memory_bytes) == (hits, sum(map(len, model.values())))


def test_the_version_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a").write_bytes(b"0123")
    inner = Versioned(LocalStore(tmp_path / "root"))
    store = CachedStore(inner, tmp_path / "cache", 10**6)
    (entry,) = inner.inner.list("a")
    assert store.read_version("a", ([], [])) == (entry, [])
    for _ in range(2):
        assert store.read_version("a") == (entry, [b"0123"])
        assert store.read_version("a", ([2, 0], [1, 2])) == (entry, [b"2", b"01"])
    assert inner.calls == ["list", "read_version"]
    with pytest.raises(FileNotFoundError, match="'b'"):
        store.read_version("b")
    with pytest.raises(StoreError, match="it has 4 bytes, but"):
        store.read_version("a", ([3], [2]))


@pytest.mark.parametrize("kind", [Counting, Versioned])
def test_what_changed_after_it_was_looked_up_is_not_kept_as_the_old(tmp_path: Path, kind: type[Counting]) -> None:
    (tmp_path / "root").mkdir()
    file = tmp_path / "root" / "x"
    file.write_bytes(b"first version, of 26 bytes")
    inner = LocalStore(tmp_path / "root")
    store = CachedStore(kind(inner), tmp_path / "cache", 10**6)
    others = CachedStore(kind(inner), tmp_path / "cache", 10**6)
    assert bytes(store.get_ranges("x", [0], [5])[0]) == b"first"
    assert others.size("x") == 26
    file.write_bytes(b"other version, of 26 bytes")
    # A part of it is kept, and of the version that was looked up; the rest is not there anymore.
    assert bytes(store.get_ranges("x", [0], [5])[0]) == b"first"
    for call in (lambda: store.get_ranges("x", [0, 6], [5, 7]), lambda: others.get("x")):
        with pytest.raises(
            StoreError, match=r"x in CachedStore.*: it has changed since it was looked up, .*: its etag was"
        ):
            call()
    assert [bytes(part) for part in store.get_ranges("x", [0, 6], [5, 7])] == [b"other", b"version"]
    assert bytes(others.get("x")) == b"other version, of 26 bytes"
    assert bytes(CachedStore(kind(inner), tmp_path / "cache", 10**6).get("x")) == b"other version, of 26 bytes"


def test_a_server_whose_object_changes(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path, 10**7)
    path = "@change*2/1000/cached"
    assert store.size(path) == 1000  # It changes before each of the first two requests.
    with pytest.raises(StoreError, match=r"it has changed since it was looked up, .*: its etag was"):
        store.get(path)
    assert bytes(store.get(path)) == content(path, 2)
    assert bytes(store.get(path)) == content(path, 2)


def test_a_folder_that_is_removed_is_made_anew(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path / "cache", 10**7)
    for _ in range(3):
        assert bytes(store.get("1000/a")) == content("1000/a")
        shutil.rmtree(tmp_path / "cache")
    assert store.statistics().misses == 3


def test_many_parts_need_few_descriptors(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path, 10**7)
    starts = list(range(0, 50_000, 25))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(64, len(os.listdir("/proc/self/fd")) + 30), hard))  # noqa: PTH208
    try:
        parts = store.get_ranges("50000/parts", starts, [20] * len(starts))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    whole = content("50000/parts")
    assert [bytes(part) for part in parts] == [whole[start : start + 20] for start in starts]
    assert store.statistics().uncached == 0


def test_a_forked_process_goes_on(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path, 10**8, memory_bytes=10**6)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            store.get(f"3000/{random.randrange(200)}")  # noqa: S311 - no secret.

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(30):  # Each time, threads hold locks, or are about to.
            child = os.fork()
            if not child:
                signal.alarm(50)
                paths = [f"3000/{each}" for each in range(number * 5, number * 5 + 20)]
                os._exit(0 if all(bytes(store.get(path)) == content(path) for path in paths) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@given(calls=st.lists(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 2000)), max_size=5), max_size=6))
def test_ranges_are_slices(calls: list[list[tuple[int, int]]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ranges")
    (folder / "root").mkdir()
    whole = content("7000/x")
    (folder / "root" / "x").write_bytes(whole)
    store = CachedStore(LocalStore(folder / "root"), folder / "cache", 10**6)
    for ranges in calls:
        parts = store.get_ranges("x", [s for s, _ in ranges], [n for _, n in ranges])
        assert [bytes(part) for part in parts] == [whole[start : start + length] for start, length in ranges]
        assert all(memoryview(part).readonly for part in parts)
    distinct = {each for ranges in calls for each in ranges if each[1]}
    assert store.statistics().misses == len(distinct)


def test_parts_of_a_whole_object_are_there(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path, 10**7)
    store.get("5000/whole")
    before = inner.statistics().requests
    assert bytes(store.get_ranges("5000/whole", [10], [20])[0]) == content("5000/whole")[10:30]
    assert inner.statistics().requests == before


def test_errors_are_those_of_the_store(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path, 10**7)
    for call in (store.get, store.size, lambda path: store.get_ranges(path, [0], [1])):
        with pytest.raises(FileNotFoundError, match="No such object in CachedStore"):
            call("missing")
    with pytest.raises(StoreError, match="it has 10 bytes, but bytes 5 to 15 were asked for"):
        store.get_ranges("10/x", [5], [10])
    with pytest.raises(StoreError, match="web servers list no folders"):
        list(store.list(""))


def test_another_version_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "x").write_bytes(b"first")
    first = CachedStore(LocalStore(tmp_path / "root"), tmp_path / "cache", 10**6)
    assert bytes(first.get("x")) == b"first"
    (tmp_path / "root" / "x").write_bytes(b"second")
    assert bytes(first.get("x")) == b"first", "its version is looked up once"
    assert bytes(CachedStore(LocalStore(tmp_path / "root"), tmp_path / "cache", 10**6).get("x")) == b"second"


def test_an_object_that_changed_before_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "x").write_bytes(b"first")
    store = CachedStore(LocalStore(tmp_path / "root"), tmp_path / "cache", 10**6)
    list(store.list(""))
    (tmp_path / "root" / "x").write_bytes(b"second")
    with pytest.raises(StoreError, match=r"it has changed since it was looked up, .*: it had 5 bytes, and has 6"):
        store.get("x")
    assert bytes(store.get("x")) == b"second"


def test_what_has_no_version_is_not_kept(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path, 10**7)
    for _ in range(2):
        assert bytes(store.get("@noetag/100/x")) == content("@noetag/100/x")
        assert bytes(store.get_ranges("@noetag/100/x", [5], [5])[0]) == content("@noetag/100/x")[5:10]
    assert (store.statistics().misses, store.statistics().uncached) == (4, 4)


def test_threads_and_processes_read_each_object_once(tmp_path: Path) -> None:
    paths = [f"20000/{number}" for number in range(40)]

    def read_all(store: CachedStore) -> bool:
        with ThreadPoolExecutor(4) as pool:
            return [bytes(each) for each in pool.map(store.get, paths * 2)] == [content(path) for path in paths * 2]

    with running() as url:
        children = []
        for _ in range(8):
            child = os.fork()
            if not child:
                try:
                    os._exit(0 if read_all(CachedStore(HTTPStore(url), tmp_path, 10**8)) else 1)
                finally:
                    os._exit(2)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
        with urllib.request.urlopen(f"{url}/_statistics") as answer:  # noqa: S310 - our own server.
            assert json.load(answer)["bytes"] == 40 * 20_000
    assert len(list((tmp_path / "files").iterdir())) == 40


def test_a_copy_uses_the_same_folder(inner: HTTPStore, tmp_path: Path) -> None:
    store = CachedStore(inner, tmp_path, 10**7)
    store.get("300/a")
    copy = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own.
    assert bytes(copy.get("300/a")) == content("300/a")
    assert copy.statistics().disk_hits == 1
    copy._store.close()


def test_arguments(tmp_path: Path) -> None:
    inner = LocalStore(tmp_path)
    with pytest.raises(TypeError, match="`store` must be a store"):
        CachedStore(3, tmp_path, 10)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`max_bytes` must be"):
        CachedStore(inner, tmp_path, 0)
    with pytest.raises(ValueError, match="`memory_bytes` must be"):
        CachedStore(inner, tmp_path, 10, memory_bytes=-1)

    class Nameless:
        size = list = get = get_ranges = print

    with pytest.raises(
        ValueError, match=r"`store` must be a store whose repr names its place.*Give its class a __repr__"
    ):
        CachedStore(Nameless(), tmp_path, 10)  # type: ignore[arg-type]
