"""An event loop that waits in simulated time, and runs its tasks in an order that depends on nothing but the seed."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from tests.simulation import scheduler
from tests.simulation.scheduler import Fiber, step

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["EventLoop"]


class _Task(asyncio.Task[Any]):
    """A task whose hash is a number: sets of tasks have the same order in each run."""

    _numbers = itertools.count(1)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class _Selector:
    """Waits for other threads to wake the loop, and for the time of the next call."""

    def __init__(self) -> None:
        self._woken = False
        self._fiber: Fiber | None = None

    def wake(self) -> None:
        self._woken = True
        if self._fiber is not None:
            scheduler.active.wake(self._fiber)

    def select(self, timeout: float | None) -> list[object]:
        step()
        if not self._woken and (timeout is None or timeout > 0):
            world = scheduler.active
            self._fiber = world.current
            try:
                world.block("the event loop", timeout)
            finally:
                self._fiber = None
        self._woken = False
        return []

    def close(self) -> None:
        pass


class EventLoop(asyncio.BaseEventLoop):
    """The loop of one simulated thread. It has no sockets."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Selector()
        self._clock_resolution = 1e-9
        self.set_task_factory(_make_task)  # type: ignore[arg-type] # The protocol names each option.

    def time(self) -> float:
        return scheduler.active.now

    def _process_events(self, _events: object) -> None:
        pass

    def _write_to_self(self) -> None:
        self._selector.wake()


def _make_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    return _Task(work, loop=loop, **options)
