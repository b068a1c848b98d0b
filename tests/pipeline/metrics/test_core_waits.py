"""Threads that wait for a core are seen to wait."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline._metrics.core_waits import CoreWaits

linux = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs a kernel that counts it")


class Threads:
    """Threads that do the same until they are told to stop."""

    def __init__(self, count: int, *, busy: bool) -> None:
        self._stopped = threading.Event()
        body = self._compute if busy else self._stopped.wait
        self.threads = [threading.Thread(target=body) for _ in range(count)]

    def _compute(self) -> None:
        data = bytes(1 << 20)
        while not self._stopped.is_set():
            # Without the GIL, for some milliseconds.
            hashlib.sha256(data).digest()

    def __enter__(self) -> list[threading.Thread]:
        for thread in self.threads:
            thread.start()
        return self.threads

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self.threads:
            thread.join()


@linux
def test_too_many_threads_for_the_cores_wait() -> None:
    cores = len(os.sched_getaffinity(0))
    with Threads(2 * cores + 2, busy=True) as threads:
        waits = CoreWaits()
        waits.read(threads)
        begin = time.perf_counter()
        time.sleep(1.0)
        seconds = time.perf_counter() - begin
        assert waits.read(threads) > 0.3 * seconds


@linux
def test_threads_that_sleep_wait_for_no_core() -> None:
    with Threads(4, busy=False) as threads:
        waits = CoreWaits()

        def waited() -> float:
            first = waits.read(threads)
            time.sleep(0.3)
            return waits.read(threads) - first

        # On a busy machine they wait for a core until they sleep.
        assert wait_until(lambda: waited() < 0.05)


def test_threads_that_have_not_begun_are_skipped() -> None:
    assert CoreWaits().read([threading.Thread(target=sys.exit)]) == 0.0
    assert CoreWaits().read([]) == 0.0


@linux
def test_of_many_threads_some_are_read() -> None:
    with Threads(50, busy=False) as threads:
        waits = CoreWaits()
        waits.read(threads)
        assert 0 < len(waits._seen) <= 16
