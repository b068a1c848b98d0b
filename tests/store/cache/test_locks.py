"""What one caller reads, others wait for: as long as it lives, whatever else lives on, and not for what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from spdl.store import CachedStore, LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Gated:
    """A store of the files of a folder that calls a function before each read, and notes what is read."""

    def __init__(self, root: Path, before: Callable[[str], object]) -> None:
        self.inner = LocalStore(root)
        self.before = before
        self.read: list[str] = []

    def __repr__(self) -> str:
        return repr(self.inner)

    def size(self, path: str) -> int:
        return self.inner.size(path)

    def list(self, prefix: str) -> Any:
        return self.inner.list(prefix)

    def get(self, path: str) -> Any:
        self.read.append(path)
        self.before(path)
        return self.inner.get(path)

    def get_ranges(self, path: str, starts: Any, lengths: Any) -> Any:
        return self.inner.get_ranges(path, starts, lengths)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    for name in ("a", "b"):
        (tmp_path / "root" / name).write_bytes(name.encode())
    return tmp_path / "root"


def test_cached_store_holds_off_those_that_want_the_same_and_no_others(root: Path, tmp_path: Path) -> None:
    entered, may_go_on = threading.Event(), threading.Event()

    def before(path: str) -> None:
        if path == "a":
            entered.set()
            assert may_go_on.wait(60)

    inner = Gated(root, before)
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(bytes(CachedStore(inner, tmp_path / "cache", 10**6).get("a"))))
        for _ in range(2)
    ]
    threads[0].start()
    assert entered.wait(60)
    threads[1].start()
    # Nobody who wants another object waits for this one.
    assert bytes(CachedStore(inner, tmp_path / "cache", 10**6).get("b")) == b"b"
    threads[1].join(0.1)
    assert threads[1].is_alive()
    may_go_on.set()
    for thread in threads:
        thread.join()
    assert found == [b"a", b"a"]
    assert inner.read == ["a", "b"]


WITHOUT_LOCKS_OF_RANGES = """
import fcntl, sys, threading
del fcntl.F_OFD_SETLKW
from spdl.store import CachedStore, LocalStore

inner = LocalStore(sys.argv[1])
stores = [CachedStore(inner, sys.argv[2], 10**6) for _ in range(4)]
threads = [threading.Thread(target=lambda store=store: [store.get(name) for name in "ab"]) for store in stores]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sum(store.statistics().misses for store in stores), bytes(stores[0].get("a")))
"""


def test_cached_store_reads_each_object_once_where_the_system_locks_whole_files_only(
    root: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WITHOUT_LOCKS_OF_RANGES, str(root), str(tmp_path / "cache")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "2 b'a'\n"


@pytest.mark.parametrize("while_it", ["reads", "writes"])
def test_a_lock_ends_with_its_holder_though_a_child_lives_on(root: Path, tmp_path: Path, while_it: str) -> None:
    reader, writer = os.pipe()

    def fork_and_sleep() -> None:
        child = os.fork()
        if child:
            os.write(writer, b"%d" % child)
        time.sleep(600)
        os._exit(0)

    holder = os.fork()
    if not holder:
        try:
            system_open = os.open

            def open_and_sleep(path: str, *arguments: Any) -> int:
                if "/files/new-" in path:  # Here the folder is locked.
                    fork_and_sleep()
                return system_open(path, *arguments)

            if while_it == "writes":
                os.open = open_and_sleep  # type: ignore[assignment]
            inner = Gated(root, lambda _: fork_and_sleep() if while_it == "reads" else None)
            CachedStore(inner, tmp_path / "cache", 10**6).get("a")
        finally:
            os._exit(0)
    child = int(os.read(reader, 100))
    try:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        store = CachedStore(LocalStore(root), tmp_path / "cache", 10**6)
        thread = threading.Thread(target=store.get, args=("a",), daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert store.statistics().misses == 1
        os.kill(child, 0)  # It is still there.
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(reader)
        os.close(writer)
