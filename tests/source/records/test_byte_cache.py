"""What is kept in so many bytes, and made once at a time."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from spdl.source import ParquetFiles
from spdl.source._records.byte_cache import ByteCache

if TYPE_CHECKING:
    from pathlib import Path


def test_what_fits_is_kept_and_the_last_one_always() -> None:
    made: list[int] = []

    def get(key: int, size: int) -> int:
        def make() -> tuple[int, int]:
            made.append(key)
            return key, size

        found: int = cache.get(key, make)
        return found

    cache = ByteCache(10)
    assert [get(key, 4) for key in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert made == [1, 2, 3, 2], "3 is the third, and 2 was not used for longest"
    assert [get(4, 100), get(4, 100)] == [4, 4]
    assert made == [1, 2, 3, 2, 4]
    assert pickle.loads(pickle.dumps(cache)).most == 10  # noqa: S301 - our own.


def test_a_forked_process_does_not_wait_for_what_its_parent_makes() -> None:
    cache, begun, end = ByteCache(10), threading.Event(), threading.Event()

    def make() -> tuple[str, int]:
        begun.set()
        end.wait()
        return "the parent's", 1

    thread = threading.Thread(target=cache.get, args=("key", make))
    thread.start()
    begun.wait()
    try:
        child = os.fork()
        if not child:
            signal.alarm(10)
            os._exit(0 if cache.get("key", lambda: ("the child's", 1)) == "the child's" else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        end.set()
        thread.join()
    assert cache.get("key", lambda: ("another", 1)) == "the parent's"


def test_a_process_that_is_forked_while_threads_read_rows(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"a": range(5000)}), tmp_path / "a.parquet", row_group_size=100)
    rows = ParquetFiles(tmp_path / "a.parquet", prefetch_bytes=0)
    assert rows[0] == {"a": 0}
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for position in range(0, 5000, 100):
                rows[position]

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if not child:
                signal.alarm(20)
                os._exit(0 if all(rows[position] == {"a": position} for position in range(50, 5000, 100)) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
