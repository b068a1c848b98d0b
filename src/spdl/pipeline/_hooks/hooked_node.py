"""Stages with hooks: the event loop manages each task, and workers or an executor run the op."""

from __future__ import annotations

from inspect import isasyncgenfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.op import called_function, is_async
from spdl.pipeline._nodes.asynchronous import AsyncNode

from .executor_calls import ExecutorCalls, ProcessCalls
from .hooked_op import hooked_async_generator, hooked_coroutine, hooked_function, hooked_generator
from .worker_calls import WorkerCalls

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from concurrent.futures import Executor

    from spdl.pipeline._declare.policy import FailurePolicy
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._engine.order import Order

    from .hooked_op import Caller
    from .task_hook import TaskHook

__all__ = ["HookedNode"]


class HookedNode(AsyncNode):
    """An async stage whose op is the user's op, wrapped in its hooks."""

    # Its op runs hooks around the user's, which others may call.
    calls_op_itself = False

    __slots__ = ("disaggregates", "elsewhere", "worker_calls")

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[Any], Any],
        concurrency: int,
        *,
        order: Order | None,
        policy: FailurePolicy,
        hooks: Sequence[TaskHook],
        executor: Executor | None = None,
        processes: bool = False,
        expand: bool = False,
    ) -> None:
        super().__init__(engine, name, op, concurrency, order=order, policy=policy)
        # True if the op returns an iterable, each of whose steps is a task.
        self.disaggregates = expand
        # These run synchronous ops: workers, or the user's executor.
        self.worker_calls: WorkerCalls | None = None
        self.elsewhere: ExecutorCalls | None = None
        if executor is not None:
            self.elsewhere = (ProcessCalls if processes else ExecutorCalls)(self, op, executor)
        self.op = self._hooked(op, hooks)

    def _hooked(self, op: Callable[[Any], Any], hooks: Sequence[TaskHook]) -> Callable[[Any], Any]:
        function = called_function(op)
        if isasyncgenfunction(function):
            return hooked_async_generator(op, hooks, self._close, self.engine.is_over)
        if is_async(op):
            return hooked_coroutine(op, hooks, self.engine.is_over)
        if self.elsewhere is not None:
            call: Caller = self.elsewhere.call
        else:
            self.worker_calls = WorkerCalls(self.engine, self)
            call = self.worker_calls.call
        if self.disaggregates or (isgeneratorfunction(function) and not isinstance(self.elsewhere, ProcessCalls)):
            return hooked_generator(op, hooks, call)
        return hooked_function(op, hooks, call, self._close, self.engine.is_over)

    async def _close(self, generator: AsyncGenerator[Any, None]) -> None:
        event_loop = self.engine.event_loop
        assert event_loop is not None
        await event_loop.close(generator)

    def set_concurrency(self, concurrency: int) -> None:
        super().set_concurrency(concurrency)
        if self.worker_calls is not None:
            self.worker_calls.set_concurrency(concurrency)

    def for_workers(self) -> Node | None:
        return self.worker_calls

    def warm(self) -> None:
        if self.elsewhere is not None:
            self.elsewhere.warm()

    def let_go(self) -> list[Any]:
        elsewhere, self.elsewhere = self.elsewhere, None
        return [*super().let_go(), elsewhere]

    def calls_executor(self) -> bool:
        return self.elsewhere is not None

    def awaits_calls(self) -> bool:
        return self.elsewhere is not None and bool(self.elsewhere.futures)

    def await_calls(self, seconds: float) -> int:
        return 0 if self.elsewhere is None else self.elsewhere.await_calls(seconds)
