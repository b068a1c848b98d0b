"""A forked process waits for no thread of its parent."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from typing import TYPE_CHECKING

from spdl._forks import RenewedLock

if TYPE_CHECKING:
    from collections.abc import Callable


def in_child(check: Callable[[], bool]) -> int:
    """Return the status with which a forked process ends that checks something, within 10 seconds."""
    child = os.fork()
    if not child:
        signal.alarm(10)
        os._exit(0 if check() else 1)
    return os.waitpid(child, 0)[1]


def test_a_lock_that_a_thread_of_the_parent_holds_is_free() -> None:
    lock = RenewedLock()

    def take() -> bool:
        with lock:
            return True

    held, end = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_child(take) == 0
        with pickle.loads(pickle.dumps(lock)):  # noqa: S301 - our own.
            pass
    finally:
        end.set()
        thread.join()
    assert take()


def test_a_lock_locks() -> None:
    lock, inside, most = RenewedLock(), [0], [0]

    def count() -> None:
        for _ in range(2000):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
