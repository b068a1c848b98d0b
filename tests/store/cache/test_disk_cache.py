"""The folder never has more than it may, whoever is killed, and what is in it is whole."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import signal
import time
from collections import namedtuple
from typing import TYPE_CHECKING, Any

import pytest

from spdl.store import CachedStore, LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


LIMIT = 1000
SIZE = 96  # With its checksum, each takes 100 bytes.


class Cached:
    """A cache of at most 1000 bytes before a folder of objects of 96 bytes each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir()
        self.store = CachedStore(LocalStore(self.root), folder / "cache", LIMIT)

    def read(self, number: int, size: int = SIZE) -> bool:
        """Read an object, check its content, and return whether it came from the disk."""
        path, expected = self.root / f"{number}", random.Random(number).randbytes(size)  # noqa: S311 - no secret.
        if not path.exists():
            path.write_bytes(expected)
        hits = self.store.statistics().disk_hits
        assert bytes(self.store.get(f"{number}")) == expected
        return self.store.statistics().disk_hits > hits

    def file_of(self, number: int) -> Path:
        """Read an object that is new, and return the file that it is kept in."""
        before = files(self.folder / "cache")
        assert not self.read(number)
        (name,) = files(self.folder / "cache").keys() - before.keys()
        return self.folder / "cache" / "files" / name

    @property
    def files(self) -> dict[str, int]:
        return files(self.folder / "cache")

    @property
    def uncached(self) -> int:
        return self.store.statistics().uncached


@pytest.fixture
def cached(tmp_path: Path) -> Cached:
    return Cached(tmp_path)


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (folder / "files").iterdir()}


def test_cached_store_removes_what_was_not_used_for_longest(cached: Cached) -> None:
    written = [cached.file_of(number) for number in range(10)]
    for age, path in enumerate(written):
        os.utime(path, (1000 + age, 1000 + age))
    assert cached.read(0)  # Now it is the one used last.
    cached.read(10)
    left = cached.files
    assert written[0].name in left
    assert written[1].name not in left
    assert sum(left.values()) <= LIMIT


def test_cached_store_does_not_keep_what_is_too_large(cached: Cached) -> None:
    assert not cached.read(0, LIMIT + 1)
    assert cached.files == {}
    assert cached.uncached == 1


def test_cached_store_leaves_the_rest_of_the_disk_to_others(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 10 << 30
    system = namedtuple("system", "f_bavail f_frsize")  # noqa: PYI024
    monkeypatch.setattr(os, "statvfs", lambda _: system(free, 1))
    cached.read(0)
    assert cached.read(0)
    free = (1 << 30) + 50
    cached.read(1)
    assert cached.uncached == 1
    assert cached.files == {}, "what is there makes room for others, too"


@pytest.mark.parametrize(("start", "length"), [(0, 96), (91, 5), (10, 7), (0, 0), (32, 64)])
def test_cached_store_reads_a_file_in_as_many_pieces_as_the_system_gives(
    cached: Cached, monkeypatch: pytest.MonkeyPatch, start: int, length: int
) -> None:
    cached.read(0)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, count, at: pread(file, min(count, 7), at))
    assert cached.read(0)
    whole = (cached.root / "0").read_bytes()
    (part,) = cached.store.get_ranges("0", [start], [length])
    assert bytes(part) == whole[start : start + length]
    assert cached.store.statistics().misses == 1


def test_cached_store_takes_no_damaged_file(cached: Cached) -> None:
    path = cached.file_of(0)
    os.truncate(path, 50)
    assert not cached.read(0)
    assert path.stat().st_size == SIZE + 4
    assert cached.read(0)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff"])
def test_cached_store_puts_a_damaged_counter_right(cached: Cached, content: bytes) -> None:
    for number in range(5):
        cached.read(number)
    (cached.folder / "cache" / "bytes").write_bytes(content)
    for number in range(5, 25):
        cached.read(number)
        assert sum(cached.files.values()) <= LIMIT
    assert cached.uncached == 0


def test_cached_store_does_without_a_disk_that_fails(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.warns(RuntimeWarning, match="cannot be written to .No space left on device.: what is read is not kept"):
        cached.read(0)
    monkeypatch.undo()
    assert cached.uncached == 1
    assert cached.files == {}


def test_cached_store_removes_what_a_killed_writer_left(cached: Cached) -> None:
    cached.read(0)
    (cached.folder / "cache" / "files" / "new-600-dead").write_bytes(bytes(300))
    (cached.folder / "cache" / "bytes").write_bytes(b"%20d" % 700)
    for number in range(1, 9):
        cached.read(number)
    assert cached.uncached == 0
    assert "new-600-dead" not in cached.files
    assert sum(cached.files.values()) <= LIMIT


def killed_at(call: int, cached: Cached) -> bool:
    """Return whether a process is killed in the middle of filling the cache, at one of its calls of the system."""
    child = os.fork()
    if not child:
        left = call

        def before(real: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments)

            return counted

        for module, names in ((os, ("write", "pwrite", "rename", "unlink", "open", "close")), (fcntl, ("flock",))):
            for name in names:
                setattr(module, name, before(getattr(module, name)))
        try:
            for number in range(3):
                cached.read(100 + number, 400)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_writer_that_is_killed_at_any_call_leaves_nothing_wrong(cached: Cached) -> None:
    for number in range(3):  # Those that the process reads, which needs them.
        (cached.root / f"{100 + number}").write_bytes(random.Random(100 + number).randbytes(400))  # noqa: S311
    for call in itertools.count():
        if not killed_at(call, cached):
            break
        assert sum(size for name, size in cached.files.items() if not name.startswith("new-")) <= LIMIT
        # Others do not wait for the dead one, read what is right, and keep within the limit.
        store = CachedStore(LocalStore(cached.root), cached.folder / "cache", LIMIT)
        for number in (100, 101, 102, 100):
            assert bytes(store.get(f"{number}")) == (cached.root / f"{number}").read_bytes()
        assert store.statistics().uncached == 0
        left = cached.files
        assert not [name for name in left if name.startswith("new-")]
        assert sum(left.values()) <= LIMIT
        for name in left:
            (cached.folder / "cache" / "files" / name).unlink()
    assert call > 20


# `SPDL_TEST_KILLS=1600` kills each of the eight processes about 200 times.
KILLS = int(os.environ.get("SPDL_TEST_KILLS", "100"))
OBJECTS = 60
SOAK_LIMIT = 400_000


def content(number: int) -> bytes:
    return random.Random(number).randbytes(5_000 + 500 * number)  # noqa: S311 - content, no secret.


def work(root: Path, folder: Path, seed: int) -> None:
    """Read objects and parts of them, and exit with an error if one is not what it should be."""
    generator = random.Random(seed)  # noqa: S311 - a script.
    store = CachedStore(LocalStore(root), folder, SOAK_LIMIT)
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


@pytest.mark.long
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
            assert total <= SOAK_LIMIT + largest
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    left = files(folder)
    assert len(left) > 5
    # Each file is an object or a part of one, whole.
    whole = [content(number) for number in range(OBJECTS)]
    for name in left:
        if not name.startswith("new-"):
            kept = (folder / "files" / name).read_bytes()[:-4]  # Of a block, the checksum.
            assert kept in whole or (len(kept) == 1_000 and any(kept in each[:5_000] for each in whole))
    store = CachedStore(LocalStore(root), folder, SOAK_LIMIT)
    # And nobody's death keeps others waiting.
    for number in range(OBJECTS):
        assert bytes(store.get(f"{number}")) == content(number)
