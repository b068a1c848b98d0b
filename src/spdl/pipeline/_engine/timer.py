"""Things to do later: retries that wait, and ops that take too long."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl.pipeline._world import TIMEOUT_MAX, Condition, RLock, Thread, monotonic

if TYPE_CHECKING:
    from collections.abc import Callable

    Action: TypeAlias = Callable[[], None]

__all__ = ["Timer"]


class Timer:
    """One thread that runs actions at their time, started when the first is set.

    So an item that waits for its retry occupies no worker.

    Args:
        lock: The engine's lock, which is held when actions are called.
        name: The thread's name.
        drops: Where to leave actions that were called: they may be the last to hold an item.
        is_over: Returns whether the thread is no longer wanted.
        acted: Called with the lock held after each action.
        crashed: Called with what an action raised; returns with the lock held.
        entered: Called with the lock held when the thread is started.
        left: Called with the lock held when the thread ends, and releases it.
    """

    def __init__(
        self,
        lock: RLock,
        name: str,
        *,
        drops: list[Any],
        is_over: Callable[[], bool],
        acted: Callable[[], None],
        crashed: Callable[[BaseException], None],
        entered: Callable[[], None],
        left: Callable[[], None],
    ) -> None:
        self._lock = lock
        self._drops = drops
        self._is_over = is_over
        self._acted = acted
        self._crashed = crashed
        self._entered = entered
        self._left = left
        self._heap: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._changed = Condition(lock)
        self.thread = Thread(target=self._run, name=name, daemon=True)

    def after(self, seconds: float, action: Action) -> None:
        """Have ``action`` called with the engine's lock held. Called with the lock held.

        Nothing is called, and no thread started, once the pipeline has ended or was asked to stop.
        """
        if self._is_over():
            self._drops.append(action)
            return
        heapq.heappush(self._heap, (monotonic() + seconds, next(self._numbers), action))
        if self.thread.ident is None:
            self.thread.start()
            self._entered()
        self._changed.notify()

    def end(self) -> None:
        """Have the thread look at whether it is still wanted. Called with the lock held."""
        self._changed.notify()

    def _run(self) -> None:
        try:
            with self._lock:
                while not self._is_over():
                    self._take_turn()
                # The remaining actions are dropped without the lock.
                actions, self._heap = self._heap, []
            del actions
        except BaseException as error:  # noqa: BLE001 - such as of a log handler, or where no thread can be started.
            self._crashed(error)
            self._lock.release()
        self._lock.acquire()
        self._left()

    def _take_turn(self) -> None:
        now = monotonic()
        if not self._heap:
            self._changed.wait()
        elif self._heap[0][0] > now:
            self._changed.wait(min(TIMEOUT_MAX, self._heap[0][0] - now))
        else:
            action = heapq.heappop(self._heap)[2]
            action()
            self._drops.append(action)
            del action
            self._acted()
