"""Calls that the event loop has done by workers, since they would block it."""

from __future__ import annotations

import asyncio
from collections import deque
from threading import get_ident
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.node import Node
from spdl.pipeline._failures.timeouts import WrittenOff, stack_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine.engine import Engine

__all__ = ["Errands"]


class _Errand:
    """One call, and what came of it."""

    __slots__ = ("abandoned", "argument", "ended", "error", "function", "future", "thread", "value")

    def __init__(self, function: Callable[[Any], Any], argument: Any, future: asyncio.Future[None]) -> None:
        self.function = function
        self.argument = argument
        self.future = future
        # The worker that does it, once one has begun.
        self.thread: int | None = None
        # The worker is done with it.
        self.ended = False
        # Nobody waits for it any more, and its worker was replaced.
        self.abandoned = False
        self.value: Any = None
        self.error: BaseException | None = None


class Errands(Node):
    """The workers' side of a stage whose tasks the event loop looks after.

    It is no stage of the graph: workers find it where they look for ready stages. What they have done is handed to
    the loop all at once, so that the loop is woken once for several calls.
    """

    __slots__ = ("calls", "done", "posted", "stage")

    def __init__(self, engine: Engine, stage: Node) -> None:
        super().__init__(engine, stage.name, None, stage.limit)
        self.stage = stage
        self.calls: deque[_Errand] = deque()
        self.done: list[_Errand] = []
        # The loop was told and has not looked yet.
        self.posted = False

    def ready(self) -> bool:
        return bool(self.calls)

    def turn(self) -> None:
        engine = self.engine
        engine.waiting -= 1
        errand = self.calls.popleft()
        errand.thread = get_ident()
        engine.release_to_user()
        cpu, begin = thread_time(), perf_counter()
        try:
            errand.value = errand.function(errand.argument)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the result is waited for.
            errand.error = error
        seconds, cpu = perf_counter() - begin, thread_time() - cpu
        engine.lock.acquire()
        self.stage.cpu_seconds += min(cpu, seconds)
        if errand.abandoned:
            engine.rubbish.append(errand)
            del errand
            raise WrittenOff
        errand.ended = True
        self.done.append(errand)
        if not self.posted and engine.lane is not None:
            self.posted = True
            engine.lane.post(self._deliver)

    def _deliver(self) -> None:
        with self.engine.lock:
            self.posted = False
            done, self.done = self.done, []
        for errand in done:
            if not errand.future.done():
                errand.future.set_result(None)

    def _post(self, function: Callable[[Any], Any], argument: Any) -> _Errand:
        engine = self.engine
        errand = _Errand(function, argument, asyncio.get_running_loop().create_future())
        with engine.lock:
            self.calls.append(errand)
            engine.waiting += 1
            engine.progressed()
        return errand

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Have a worker call ``function(argument)``. Called on the loop.

        Raises:
            BaseException: What the function raises.
        """
        errand = self._post(function, argument)
        try:
            await errand.future
        except asyncio.CancelledError:
            self._abandon(errand)
            raise
        return _outcome(errand)

    async def call_to_the_end(self, function: Callable[[Any], Any], argument: Any, made: list[Any]) -> Any:
        """The same, but a call that was begun is waited for even if the task is cancelled, unless the pipeline stops.

        Args:
            function: What is called.
            argument: With what.
            made: Where to leave what it returned if the task was cancelled.

        Raises:
            BaseException: What the function raises.
            asyncio.CancelledError: If it raises nothing and the task was cancelled.
        """
        errand = self._post(function, argument)
        cancellation: asyncio.CancelledError | None = None
        while not errand.future.done():
            try:
                await asyncio.shield(errand.future)
            except asyncio.CancelledError as error:
                if self._withdraw(errand) or self.engine.is_over():
                    raise
                cancellation = error
        value = _outcome(errand)
        if cancellation is None:
            return value
        made.append(value)
        try:
            raise cancellation
        finally:
            # Its frames hold what was made.
            del cancellation

    def _withdraw(self, errand: _Errand) -> bool:
        """Take back a call that no worker has begun; return whether it is one."""
        engine = self.engine
        with engine.lock:
            if errand not in self.calls:
                return False
            self.calls.remove(errand)
            engine.waiting -= 1
            return True

    def _abandon(self, errand: _Errand) -> None:
        """Give up a call whose task was cancelled: because it took too long, or because the pipeline stops."""
        engine = self.engine
        if self._withdraw(errand):
            return
        with engine.lock:
            if not errand.ended and not engine.is_over():
                errand.abandoned = True
                engine.replace_worker(self.stage, None, stack_of(errand.thread))


def _outcome(errand: _Errand) -> Any:
    if errand.error is not None:
        try:
            raise errand.error
        finally:
            # The exception's frames hold the errand, and the errand must not hold the exception.
            errand.error = None
    return errand.value
