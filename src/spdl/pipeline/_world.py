"""The outside world of a pipeline: its clocks, locks, threads and event loop.

The engine's modules take these from here and nowhere else. So the tests can put a simulated world in this module's
place, in which a seeded generator decides who runs next and time passes only when all threads wait
(``tests/simulation``). The names are the standard library's own objects, so they cost nothing more.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Collection
from math import inf
from threading import TIMEOUT_MAX, Condition, Lock, RLock, Thread, current_thread, get_ident, get_native_id
from time import monotonic, perf_counter, sleep, thread_time
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

__all__ = [
    "OBSERVABLE",
    "TIMEOUT_MAX",
    "Condition",
    "Lock",
    "RLock",
    "Thread",
    "count_unfinished",
    "current_thread",
    "get_ident",
    "get_native_id",
    "monotonic",
    "new_event_loop",
    "perf_counter",
    "thread_time",
]

# Other processes may watch: what happens here happens in this process, at the time that its clock says, and the system
# has files in memory.
OBSERVABLE = sys.platform == "linux"


class _KnownThread(threading.Thread):
    """A thread that tells whether it runs.

    Python before 3.13 takes a thread for ended if a signal handler raises while another thread waits for it, as a
    Ctrl-C has it do.
    """

    def is_alive(self) -> bool:
        # It is enumerated until the last of its code has run.
        return super().is_alive() or (self.ident is not None and self in threading.enumerate())

    def join(self, timeout: float | None = None) -> None:
        end = inf if timeout is None else monotonic() + timeout
        super().join(timeout)
        while self.is_alive() and (left := end - monotonic()) > 0:
            sleep(min(left, 0.001))


class _LastingThread(_KnownThread):
    """A thread of a sub-interpreter, which has no daemons: it waits for its threads before it ends."""

    def __init__(self, *, daemon: bool, **arguments: Any) -> None:  # noqa: ARG002 - as the others take it.
        super().__init__(**arguments)


if not TYPE_CHECKING:
    Thread = threading.Thread if sys.version_info >= (3, 13) else _KnownThread
    # Python 3.11 does not ask.
    if not getattr(_thread, "daemon_threads_allowed", lambda: True)():
        Thread = _LastingThread


def new_event_loop() -> AbstractEventLoop:
    import asyncio  # noqa: PLC0415 - half of what importing the package would cost.

    return asyncio.new_event_loop()


def count_unfinished(futures: Collection[Future[Any]], seconds: float) -> int:
    """Wait for futures, for that many seconds at most, and return how many are not done."""
    from concurrent.futures import wait  # noqa: PLC0415 - most pipelines use no executor.

    return len(wait(futures, seconds).not_done)
