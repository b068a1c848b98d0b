"""Calls that the event loop has done in an executor of the user's."""

from __future__ import annotations

import asyncio
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, Any

from spdl.pipeline._nodes.executors.base import await_calls
from spdl.pipeline._nodes.executors.local_call import LocalCall

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable
    from concurrent.futures import Executor, Future

    from spdl.pipeline._nodes.asynchronous import AsyncNode

__all__ = ["ExecutorCalls", "ProcessCalls", "Whole"]


class ExecutorCalls:
    """One call per task of a stage with hooks."""

    def __init__(self, stage: AsyncNode, op: Callable[[Any], Any], executor: Executor) -> None:
        self.stage = stage
        self.op = op
        self.executor = executor
        # What was submitted and has not come back.
        self.futures: set[Future[Any]] = set()

    def warm(self) -> None:
        """Do what must be done before the engine has threads."""

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Have the executor call ``function(argument)``."""
        return await self.submit(LocalCall(self.stage.engine, function), argument)

    async def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a call and wait for it. An executor that is broken or closed fails the pipeline."""
        try:
            future = self.executor.submit(function, *arguments)
        except BaseException as error:
            self._fail(error)
            raise
        self.futures.add(future)
        future.add_done_callback(self.futures.discard)
        try:
            return await asyncio.wrap_future(future)
        except BrokenExecutor as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        engine = self.stage.engine
        with engine.lock:
            engine.fail(self.stage, None, error)

    def await_calls(self, seconds: float) -> int:
        """Withdraw what has not begun, wait for what has, and return how many calls still run after so many seconds."""
        return await_calls(list(self.futures), seconds)


class ProcessCalls(ExecutorCalls):
    """The same for a pool of processes: what crosses is pickled one by one, and generators come back whole."""

    def warm(self) -> None:
        from spdl.pipeline._nodes.executors.process_pool import warm  # noqa: PLC0415 - it imports multiprocessing.

        warm(self.stage.name, self.op, self.executor)

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        from spdl.pipeline._nodes.executors.process_work import Done, work, wrap  # noqa: PLC0415 - as above.

        (outcome,), _, cpu = await self.submit(work, function, [wrap(argument)])
        self.stage.counters.add_foreign_cpu(cpu)
        if not isinstance(outcome, Done):
            raise outcome.unpack()
        value = outcome.unpack()
        return Whole(value) if outcome.several else value


class Whole:
    """A generator's results, which came back all at once. Its only task was the call that made them."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values

    async def each(self) -> AsyncGenerator[Any, None]:
        """Give them out one by one."""
        for value in self._values:
            yield value
