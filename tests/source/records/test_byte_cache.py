"""What is kept in so many bytes, and made once at a time."""

from __future__ import annotations

import os
import pickle
import signal
import threading

from spdl.source._records.byte_cache import ByteCache


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
