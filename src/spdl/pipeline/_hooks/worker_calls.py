"""Calls that workers make for the event loop, because the calls would block it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.deferred_drops import drop_all
from spdl.pipeline._engine.forked_child import end_forked_child
from spdl.pipeline._engine.node import Node
from spdl.pipeline._failures.abandoned import Abandoned
from spdl.pipeline._failures.stacks import stack_of
from spdl.pipeline._world import get_ident, perf_counter, thread_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine.engine import Engine

__all__ = ["WorkerCalls"]


class _WorkerCall:
    """One call and its outcome."""

    __slots__ = ("abandoned", "argument", "ended", "error", "function", "future", "thread", "unwanted", "value")

    def __init__(self, function: Callable[[Any], Any], argument: Any, future: asyncio.Future[None]) -> None:
        self.function = function
        self.argument = argument
        self.future = future
        # The worker that makes the call, once it has begun.
        self.thread: int | None = None
        # True once the worker has finished the call.
        self.ended = False
        # True once nobody waits for the call any more and its worker was replaced.
        self.abandoned = False
        # True once nobody waits for the call any more.
        self.unwanted = False
        self.value: Any = None
        self.error: BaseException | None = None


class WorkerCalls(Node):
    """The workers' side of a stage whose tasks the event loop manages.

    It is not a stage of the graph, but workers find it where they look for ready stages. Finished calls are handed to
    the event loop together, so that the loop is woken once for several calls.
    """

    __slots__ = ("calls", "done", "posted", "stage")

    def __init__(self, engine: Engine, stage: Node) -> None:
        super().__init__(engine, stage.name, None, stage.concurrency)
        self.stage = stage
        self.calls: deque[_WorkerCall] = deque()
        self.done: list[_WorkerCall] = []
        # True while the event loop was woken and has not fetched the finished calls yet.
        self.posted = False

    def ready(self) -> bool:
        return bool(self.calls)

    def turn(self) -> None:
        engine = self.engine
        engine.remove_turns()
        call = self.calls.popleft()
        call.thread = get_ident()
        engine.release_to_user()
        if engine.stopping:
            # The task that waits for it is cancelled.
            engine.lock.acquire()
            engine.drops.append(call)
            return
        cpu, begin = thread_time(), perf_counter()
        try:
            call.value = call.function(call.argument)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the task that waits for the result.
            call.error = error
        if engine.forked:
            end_forked_child(engine, call.error)
        seconds, cpu = perf_counter() - begin, thread_time() - cpu
        engine.lock.acquire()
        self.stage.counters.add_cpu(seconds, cpu)
        self.counters.add_worker_time(seconds)
        if call.unwanted:
            abandoned = call.abandoned
            engine.drops.extend((call.value, call))
            del call
            if abandoned:
                raise Abandoned
            return
        call.ended = True
        self.done.append(call)
        if not self.posted and engine.event_loop is not None:
            self.posted = True
            engine.event_loop.post(self._deliver)

    def _deliver(self) -> None:
        with self.engine.lock:
            self.posted = False
            done, self.done = self.done, []
        for call in done:
            if not call.future.done():
                call.future.set_result(None)

    def _post(self, function: Callable[[Any], Any], argument: Any) -> _WorkerCall:
        engine = self.engine
        call = _WorkerCall(function, argument, asyncio.get_running_loop().create_future())
        with engine.lock:
            self.calls.append(call)
            engine.add_turns()
            engine.progressed()
        return call

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call ``function(argument)`` in a worker, and return the result. Called on the event loop.

        Raises:
            BaseException: Any exception of the function.
        """
        call = self._post(function, argument)
        try:
            await call.future
        except asyncio.CancelledError:
            self._abandon(call)
            raise
        return _outcome(call)

    async def call_to_the_end(self, function: Callable[[Any], Any], argument: Any, made: list[Any]) -> Any:
        """Call ``function(argument)`` in a worker, and wait for it even if the task is cancelled.

        A call that has not begun is withdrawn at a cancellation. If the pipeline stops, it does not wait either.

        Args:
            function: The function to call.
            argument: Its argument.
            made: A list that the result is appended to if the task was cancelled.

        Raises:
            BaseException: Any exception of the function.
            asyncio.CancelledError: If the function raised nothing and the task was cancelled.
        """
        call = self._post(function, argument)
        cancellation: asyncio.CancelledError | None = None
        while not call.future.done():
            try:
                await asyncio.shield(call.future)
            except asyncio.CancelledError as error:
                if self._withdraw(call) or self.engine.is_over():
                    raise
                cancellation = error
        value = _outcome(call)
        if cancellation is None:
            return value
        made.append(value)
        try:
            raise cancellation
        finally:
            # The exception's frames hold the result.
            del cancellation

    def _withdraw(self, call: _WorkerCall) -> bool:
        """Withdraw a call if no worker has begun it. Return whether it was withdrawn."""
        engine = self.engine
        with engine.lock:
            if call not in self.calls:
                return False
            self.calls.remove(call)
            engine.remove_turns()
            return True

    def _abandon(self, call: _WorkerCall) -> None:
        """Abandon a call whose task was cancelled, because of a timeout or because the pipeline stops."""
        engine = self.engine
        if self._withdraw(call):
            return
        # Without the lock: looking at a frame may make this thread the last one that holds it.
        stack = stack_of(call.thread)
        with engine.lock:
            call.unwanted = True
            if not call.ended and not engine.is_over():
                call.abandoned = True
                engine.replace_worker(self.stage, None, stack)
        if call.ended:
            drop_all([call.value])


def _outcome(call: _WorkerCall) -> Any:
    if call.error is not None:
        try:
            raise call.error
        finally:
            # The exception's frames hold the call, and the call must not hold the exception.
            call.error = None
    return call.value
