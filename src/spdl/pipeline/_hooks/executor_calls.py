"""Calls that the event loop makes in a user's executor."""

from __future__ import annotations

import asyncio
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.deferred_drops import drop_all
from spdl.pipeline._engine.own_calls import called_elsewhere
from spdl.pipeline._nodes.executors.base import await_calls
from spdl.pipeline._nodes.executors.local_call import LocalCall

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable
    from concurrent.futures import Executor, Future

    from spdl.pipeline._nodes.asynchronous import AsyncNode

__all__ = ["ExecutorCalls", "ProcessCalls", "Whole"]


class ExecutorCalls:
    """Makes one call in the executor for each task of a stage with hooks."""

    def __init__(self, stage: AsyncNode, op: Callable[[Any], Any], executor: Executor) -> None:
        self.stage = stage
        self.engine = stage.engine
        self.op = op
        self.executor = executor
        # Calls that were submitted and have not ended.
        self.futures: set[Future[Any]] = set()

    def warm(self) -> None:
        """Prepare the executor. Called before the engine has threads."""

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call ``function(argument)`` in the executor, and return the result."""
        return await self.submit(LocalCall(self.engine, function), argument)

    async def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a call and wait for its result. If the executor is broken or closed, the pipeline fails."""
        try:
            future = self.executor.submit(function, *arguments)
        except BaseException as error:
            self._fail(error)
            raise
        self.futures.add(future)
        future.add_done_callback(self._ended)
        try:
            return await asyncio.wrap_future(future)
        except BrokenExecutor as error:
            self._fail(error)
            raise
        except asyncio.CancelledError:
            future.add_done_callback(_drop_result)
            raise
        finally:
            # The exception's frames hold the future, and the future holds the exception.
            del future

    @called_elsewhere
    def _ended(self, future: Future[Any]) -> None:
        self.futures.discard(future)
        engine = self.engine
        # Before the end there are threads, and the last of them looks at what is still under way.
        if engine.is_over():
            with engine.lock:
                dropped = engine.letting_go.call_ends()
            drop_all(dropped)

    def _fail(self, error: BaseException) -> None:
        engine = self.engine
        with engine.lock:
            engine.fail(self.stage, None, error)

    def await_calls(self, seconds: float) -> int:
        """Withdraw calls that have not begun and wait for the others. Return how many still run after ``seconds``."""
        return await_calls(list(self.futures), seconds)


def _drop_result(future: Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        drop_all([future.result()])


class ProcessCalls(ExecutorCalls):
    """Makes calls in a process pool. Items are pickled one by one, and a generator's results come back all at once."""

    def warm(self) -> None:
        from spdl.pipeline._nodes.executors.process_pool import warm  # noqa: PLC0415 - it imports multiprocessing.

        warm(self.stage.name, self.op, self.executor)

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        from spdl.pipeline._nodes.executors.process_work import Done, work, wrap  # noqa: PLC0415 - see `warm`.

        (outcome,), _, cpu, num_bytes = await self.submit(work, function, [wrap(argument)])
        self.stage.counters.add_foreign(cpu, num_bytes)
        if not isinstance(outcome, Done):
            raise outcome.unpack()
        value = outcome.unpack()
        return Whole(value) if outcome.several else value


class Whole:
    """A generator's results, which came back all at once. The call that made them was the generator's only task."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values

    async def each(self) -> AsyncGenerator[Any, None]:
        """Yield the results one by one."""
        for value in self._values:
            yield value
