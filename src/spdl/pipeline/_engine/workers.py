"""The worker threads of an engine: how many there are, which of them are idle, and how they are woken."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

from spdl.pipeline._world import Lock, Thread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Workers"]


class Workers:
    """The threads that serve the stages. Guarded by the engine's lock, except where a method says otherwise.

    Each worker has a gate, a lock that it waits at while it is idle. Whoever leaves ready work behind opens the gate of
    one idle worker, unless one is on its way already.

    Attributes:
        num_threads: How many synchronous ops may run at once.
        permits: How many more may run now; negative after the number of threads was lowered.
        idle: The gates of idle workers; the last one became idle last.
        waking: A gate was opened whose worker has not arrived yet.
        threads: All threads that were made here, and those of sources that have their own, except for some that ended.
        abandoned: How many threads are still in ops whose items were given up.
    """

    __slots__ = (
        "_count",
        "_gates",
        "_name",
        "_numbers",
        "_serve",
        "abandoned",
        "idle",
        "num_threads",
        "permits",
        "threads",
        "waking",
    )

    def __init__(self, name: str, num_threads: int, serve: Callable[[], None]) -> None:
        self._name = name
        self._serve = serve
        self._numbers = itertools.count()
        # The number of workers started, except those that replace others; 0 before the start.
        self._count = 0
        self._gates: list[Lock] = []
        self.num_threads = self.permits = num_threads
        self.idle: list[Lock] = []
        self.waking = False
        self.threads: list[Thread] = []
        self.abandoned = 0

    # ---- threads ----

    def started(self) -> bool:
        """Return whether workers were started."""
        return self._count > 0

    def add_up_to(self, wanted: int) -> list[Thread]:
        """Make as many workers as are missing, and return their threads, which the caller starts."""
        missing = max(0, wanted - self._count)
        self._count += missing
        return self.adopt([self._make() for _ in range(missing)])

    def adopt(self, threads: list[Thread]) -> list[Thread]:
        """Note threads that end with the engine, and return them."""
        # For each op that is abandoned one is made, and those that ended would be kept for ever. A thread that was not
        # started has no identity yet.
        self.threads = [thread for thread in self.threads if thread.ident is None or thread.is_alive()] + threads
        return threads

    def _make(self) -> Thread:
        return Thread(target=self._serve, name=f"{self._name}_{next(self._numbers)}", daemon=True)

    def replace(self) -> None:
        """Leave a worker to an op that takes too long, and start another."""
        self.abandoned += 1
        # Also for the last one: what is downstream of a failure still has work to do.
        self.permits += 1
        self.adopt([self._make()])[0].start()

    def abandoned_ended(self) -> None:
        """Note that an abandoned op has returned, and its thread ends."""
        self.abandoned -= 1

    def set_num_threads(self, num_threads: int) -> None:
        """Let more ops run at once, or fewer as soon as some have ended."""
        self.permits += num_threads - self.num_threads
        self.num_threads = num_threads

    # ---- gates ----

    def enter(self) -> Lock:
        """Return the gate of a worker that begins."""
        gate = Lock()
        gate.acquire()
        self._gates.append(gate)
        return gate

    def leave(self, gate: Lock) -> bool:
        """Note that a worker ends; return whether it was the last one."""
        self._gates.remove(gate)
        return not self._gates

    def any_awake(self) -> bool:
        """Return whether a worker is not idle, whatever it does."""
        return len(self.idle) < len(self._gates)

    def wake_one(self) -> None:
        """Open the gate of the worker that became idle last."""
        # A request to stop may have taken or opened it meanwhile.
        with contextlib.suppress(IndexError, RuntimeError):
            self.idle.pop().release()
        # The worker takes the lock before it clears this. A Ctrl-C in between costs no more than a worker too many.
        self.waking = True

    def wake(self, gate: Lock) -> None:
        """Open this gate, if its worker is idle."""
        with contextlib.suppress(ValueError, RuntimeError):
            self.idle.remove(gate)
            gate.release()
        self.waking = True

    def arrived(self) -> None:
        """Note that the woken worker is at work."""
        self.waking = False

    def stay_awake(self, gate: Lock) -> None:
        """Take back that a worker is idle, since there is work after all."""
        try:
            self.idle.remove(gate)
        except ValueError:
            # Somebody has opened it meanwhile.
            gate.acquire()

    def wake_all(self) -> None:
        """Open all gates. Needs no lock.

        Each step is atomic and may run in a signal handler or a finalizer, inside a critical section of anyone's.
        """
        self.idle.clear()
        # Also the gates of workers that are not idle: an exception raised by a signal handler may have come between
        # taking a gate from that list and opening it.
        for gate in list(self._gates):
            with contextlib.suppress(RuntimeError):
                gate.release()
