"""The threads of a store: one that looks at what is late, and those that help."""

from __future__ import annotations

import threading
import time
from concurrent.futures import InvalidStateError
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

from spdl.store._reading.attempts import FailedAttemptError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

T = TypeVar("T")

__all__ = ["Crew", "Watched"]

_MOST_HELPERS = 256
_IDLE_SECONDS = 1.0
_LONGEST_PAUSE = 3600.0
"""Systems wait for no more than some weeks at once."""


class Watched(Protocol):
    """What has to be looked at, at a time.

    Attributes:
        at: When, by the monotonic clock.
    """

    at: float

    def look(self, now: float) -> None:
        """Do what is due, without waiting, and set `at` to when something is due again."""


class Crew:
    """Threads that are started as they are needed, and end after `close` or with the process. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closing = False
        self._watched: set[Watched] = set()
        self._watching = False
        self._watcher: threading.Thread | None = None
        self._wakes_at = 0.0
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._helpers = 0
        self._idle = 0

    def watch(self, watched: Watched) -> None:
        """Look at something when it is time, until `forget`."""
        with self._lock:
            self._watched.add(watched)
            if not self._watching:
                # It notes itself that it runs: whoever is interrupted here may have started it, or not.
                watcher = threading.Thread(target=self._watch, name="spdl-store", daemon=True)
                watcher.start()
                self._watcher = watcher
            elif watched.at < self._wakes_at:
                self._wakes_at = watched.at
                self._wake.put(None)

    def forget(self, watched: Watched) -> None:
        """Look at something no more."""
        with self._lock:
            self._watched.discard(watched)
            if self._closing:
                self._wake.put(None)

    def _watch(self) -> None:
        with self._lock:
            if self._watching:
                return
            self._watching = True
        while True:
            now = time.monotonic()
            with self._lock:
                if self._closing and not self._watched:
                    self._watching = False
                    return
                due = [each for each in self._watched if each.at <= now]
            for each in due:
                each.look(now)
            due.clear()  # What they have is large.
            with self._lock:
                self._wakes_at = min((each.at for each in self._watched), default=now + _LONGEST_PAUSE)
            with suppress(Empty):
                self._wake.get(timeout=min(max(0.0, self._wakes_at - time.monotonic()), _LONGEST_PAUSE))

    def help(self, task: Callable[[], None]) -> bool:
        """Return whether another thread calls a function at once; there may be too many."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._tasks.put(task)
                return True
            if self._helpers >= _MOST_HELPERS:
                return False
            self._helpers += 1
        try:
            threading.Thread(target=self._help, args=([task],), name="spdl-store", daemon=True).start()
        except RuntimeError:  # The system has no more of them, or the interpreter ends.
            with self._lock:
                self._helpers -= 1
            return False
        return True

    def fulfil(self, future: Future[T], function: Callable[[], T]) -> None:
        """Have another thread call a function that nobody can end, for a future. Whoever waits for that may cancel it.

        Raises:
            FailedAttemptError: If there are too many threads.
        """

        def call() -> None:
            with suppress(InvalidStateError):  # It was cancelled meanwhile.
                try:
                    future.set_result(function())
                except BaseException as error:  # noqa: BLE001 - raised where it is waited for.
                    future.set_exception(error)

        if not self.help(call):
            raise FailedAttemptError("late", "too many threads wait for answers that have not come")

    def _help(self, first: list[Callable[[], None]]) -> None:
        # A thread keeps its arguments, and what a task has is large.
        task: Callable[[], None] | None = first.pop()
        while task is not None:
            task()
            task = None
            with self._lock:
                self._idle += 1
            with suppress(Empty):
                task = self._tasks.get(timeout=0.0 if self._closing else _IDLE_SECONDS)
            if task is None:
                with self._lock:
                    # Without waiting: another thread may have taken what was there.
                    with suppress(Empty):
                        while task is None:
                            task = self._tasks.get_nowait()
                    self._idle -= task is None
        with self._lock:
            self._helpers -= 1
        if self._closing:
            self._tasks.put(None)  # For the next one that is idle.

    def close_soon(self) -> None:
        """End the threads when they have nothing to do. Takes no lock, and waits for nothing.

        The collector may call it in the middle of anything, such as the beginning or the end of a thread.
        """
        self._closing = True
        self._tasks.put(None)
        self._wake.put(None)

    def close(self) -> None:
        """End the threads as `close_soon` does, and wait for that if they have nothing to do."""
        self.close_soon()
        with self._lock:
            watcher = None if self._watched else self._watcher
        if watcher is not None:
            watcher.join()
