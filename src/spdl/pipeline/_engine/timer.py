"""Things to do later: retries that wait, and ops that take too long."""

from __future__ import annotations

import heapq
import itertools
from threading import TIMEOUT_MAX, Condition, Thread
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .engine import Engine

__all__ = ["Timer"]


class Timer:
    """One thread that runs actions at their time, started when the first is set.

    So an item that waits for its retry occupies no worker.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = Condition(engine.lock)
        self.thread = Thread(target=self._run, name=f"spdl_timer_thread_{engine.pipeline_id}", daemon=True)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Have ``action`` called with the engine's lock held. Called with the lock held."""
        heapq.heappush(self._heap, (monotonic() + seconds, next(self._numbers), action))
        if self.thread.ident is None:
            self.thread.start()
        self._changed.notify()

    def end(self) -> None:
        """Have the thread look at whether it is still wanted. Called with the lock held."""
        self._changed.notify()

    def _run(self) -> None:
        engine = self._engine
        try:
            with engine.lock:
                while not (engine.stopping or engine.done):
                    self._take_turn()
                # What it holds is dropped without the lock.
                actions, self._heap = self._heap, []
            del actions
        except BaseException as error:  # noqa: BLE001 - such as of a log handler, or where no thread can be started.
            engine.crash(error)
            engine.lock.release()

    def _take_turn(self) -> None:
        engine = self._engine
        now = monotonic()
        if not self._heap:
            self._changed.wait()
        elif self._heap[0][0] > now:
            self._changed.wait(min(TIMEOUT_MAX, self._heap[0][0] - now))
        else:
            action = heapq.heappop(self._heap)[2]
            action()
            # It may be the last to hold an item, which is dropped without the lock.
            engine.rubbish.append(action)
            del action
            engine.concluded()
            engine.drop_rubbish()
