"""The folder never has more than it may, whoever is killed, and what is in it is whole."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import namedtuple
from typing import TYPE_CHECKING

import pytest

from spdl.store import CachedStore, LocalStore
from spdl.store._cache import disk_cache
from spdl.store._cache.disk_cache import DiskCache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def keys() -> Iterator[str]:
    number = 0
    while True:
        yield f"{number:064x}"
        number += 1


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (folder / "files").iterdir()}


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    cache, names = DiskCache(str(tmp_path), 1000), keys()
    written = [next(names) for _ in range(10)]
    for age, name in enumerate(written):
        assert cache.write(name, memoryview(bytes(100)))
        os.utime(tmp_path / "files" / name, (1000 + age, 1000 + age))
    assert cache.read(written[0], 0, 100, 100) == bytes(100)  # Now it is the one used last.
    assert cache.write(next(names), memoryview(bytes(100)))
    left = files(tmp_path)
    assert written[0] in left
    assert written[1] not in left
    assert sum(left.values()) <= 1000


def test_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), 1000)
    assert not cache.write("0" * 64, memoryview(bytes(1001)))
    assert files(tmp_path) == {}


def test_the_rest_of_the_disk_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 10 << 30
    system = namedtuple("system", "f_bavail f_frsize")  # noqa: PYI024
    cache, names = DiskCache(str(tmp_path), 10_000), keys()
    monkeypatch.setattr(os, "statvfs", lambda _: system(free, 1))
    assert cache.write(next(names), memoryview(bytes(100)))
    free = (1 << 30) + 50
    assert not cache.write(next(names), memoryview(bytes(100)))
    assert files(tmp_path) == {}, "what is there makes room for others, too"


@pytest.mark.parametrize(("start", "length"), [(0, 100), (95, 5), (10, 7), (0, 0), (33, 64)])
def test_a_file_that_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int, length: int
) -> None:
    monkeypatch.setattr(disk_cache, "_AT_ONCE", 7)
    cache, content = DiskCache(str(tmp_path), 1000), bytes(range(100))
    cache.write("0" * 64, memoryview(content))
    assert cache.read("0" * 64, start, length, 100) == content[start : start + length]


def test_a_damaged_file_is_no_hit(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), 1000)
    cache.write("0" * 64, memoryview(bytes(100)))
    os.truncate(tmp_path / "files" / ("0" * 64), 50)
    assert cache.read("0" * 64, 0, 10, 100) is None
    assert files(tmp_path) == {}


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff"])
def test_a_damaged_counter_is_put_right(tmp_path: Path, content: bytes) -> None:
    cache, names = DiskCache(str(tmp_path), 1000), keys()
    for _ in range(5):
        cache.write(next(names), memoryview(bytes(100)))
    (tmp_path / "bytes").write_bytes(content)
    for _ in range(20):
        assert cache.write(next(names), memoryview(bytes(100)))
        assert sum(files(tmp_path).values()) <= 1000


def test_a_disk_that_fails_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(str(tmp_path), 1000)

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    assert not cache.write("0" * 64, memoryview(bytes(100)))
    assert files(tmp_path) == {}


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    cache, names = DiskCache(str(tmp_path), 1000), keys()
    cache.write(next(names), memoryview(bytes(100)))
    (tmp_path / "files" / "new-600-dead").write_bytes(bytes(300))
    (tmp_path / "bytes").write_bytes(b"%20d" % 700)
    for _ in range(8):
        assert cache.write(next(names), memoryview(bytes(100)))
    assert "new-600-dead" not in files(tmp_path)
    assert sum(files(tmp_path).values()) <= 1000


# `SPDL_TEST_KILLS=1600` kills each of the eight processes about 200 times.
KILLS = int(os.environ.get("SPDL_TEST_KILLS", "100"))
OBJECTS = 60
LIMIT = 400_000


def content(number: int) -> bytes:
    return random.Random(number).randbytes(5_000 + 500 * number)  # noqa: S311 - content, no secret.


def work(root: Path, folder: Path, seed: int) -> None:
    """Read objects and parts of them, and exit with an error if one is not what it should be."""
    generator = random.Random(seed)  # noqa: S311 - a script.
    store = CachedStore(LocalStore(root), folder, LIMIT)
    while True:
        number = generator.randrange(OBJECTS)
        expected = content(number)
        if generator.random() < 0.5:
            good = bytes(store.get(f"{number}")) == expected
        else:
            start = generator.randrange(4_000)
            good = bytes(store.get_ranges(f"{number}", [start], [1_000])[0]) == expected[start : start + 1_000]
        if not good:
            os._exit(1)


def start_child(root: Path, folder: Path, seed: int) -> int:
    child = os.fork()
    if not child:
        try:
            work(root, folder, seed)
        finally:
            os._exit(2)
    return child


@pytest.mark.timeout(60 + KILLS)
def test_processes_that_are_killed_leave_nothing_wrong(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "cache"
    root.mkdir()
    for number in range(OBJECTS):
        (root / f"{number}").write_bytes(content(number))
    largest = 5_000 + 500 * OBJECTS
    generator = random.Random(26)  # noqa: S311 - a script.
    children = [start_child(root, folder, seed) for seed in range(8)]
    try:
        for kill in range(KILLS):
            time.sleep(generator.random() * 0.03)
            victim = generator.randrange(8)
            os.kill(children[victim], signal.SIGKILL)
            _, status = os.waitpid(children[victim], 0)
            assert os.WIFSIGNALED(status), f"a child ended by itself: {status}"
            children[victim] = start_child(root, folder, 100 + kill)
            total = 0
            for path in (folder / "files").iterdir():
                try:
                    total += path.stat().st_size
                except FileNotFoundError:
                    continue
            assert total <= LIMIT + largest
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    left = files(folder)
    assert len(left) > 5
    # Each file is what its key says, whole.
    store = CachedStore(LocalStore(root), folder, LIMIT)
    expected = {}
    for entry in list(store.list("")):
        whole = content(int(entry.path))
        expected[store._key(entry)] = whole
        expected |= {store._key(entry, start, 1_000): whole[start : start + 1_000] for start in range(4_000)}
    for name in left:
        if not name.startswith("new-"):
            assert (folder / "files" / name).read_bytes() == expected[name]
    # And nobody's death keeps others waiting.
    for number in range(OBJECTS):
        assert bytes(store.get(f"{number}")) == content(number)
