"""Stages whose op runs on an executor of the user's."""

from __future__ import annotations

import sys
from concurrent.futures import BrokenExecutor, CancelledError
from inspect import isgeneratorfunction
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ._function_node import FunctionNode

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from ._engine import Engine
    from ._lineage import Root
    from ._order import Order, Ticket

__all__ = ["ExecutorNode"]


class _Listed:
    """An op that returns a generator's results as a list: a generator cannot leave the process it runs in."""

    def __init__(self, op: Callable[[Any], Any]) -> None:
        self.op = op

    def __call__(self, item: Any) -> list[Any]:
        return list(self.op(item))


def _runs_in_processes(executor: Executor) -> bool:
    # Whoever made a process pool has imported its module, which takes 10 ms that others need not pay.
    module = sys.modules.get("concurrent.futures.process")
    return module is not None and isinstance(executor, module.ProcessPoolExecutor)


class ExecutorNode(FunctionNode):
    """Hands items to an executor and takes the outcomes from its callbacks.

    The worker that takes an item only submits it. The callback appends the outcome and wakes a worker; it runs no
    code of the user's.
    """

    __slots__ = ("executor",)

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[Any], Any],
        limit: int,
        *,
        executor: Executor,
        order: Order | None,
    ) -> None:
        listed = _runs_in_processes(executor) and isgeneratorfunction(op)
        super().__init__(engine, name, _Listed(op) if listed else op, limit, order=order, expand=listed)
        self.plain = False
        self.executor = executor

    def _start(self) -> None:
        root, value, ticket = self.take()
        engine = self.engine
        engine.release_to_user()
        start = perf_counter()
        try:
            future = self.executor.submit(self.op, value)
        except BaseException as error:  # noqa: BLE001 - a broken or closed executor fails the pipeline.
            del value
            engine.lock.acquire()
            self._give_up(root, error)
            return
        del value
        future.add_done_callback(lambda future: self._done(root, ticket, future, start))
        del future
        engine.lock.acquire()

    def _give_up(self, root: Root, error: BaseException) -> None:
        self.failed += 1
        self._release_slot()
        self.engine.fail(self, root, error)

    def _done(self, root: Root, ticket: Ticket | None, future: Future[Any], start: float) -> None:
        error: BaseException | None
        value: Any = None
        try:
            error = future.exception()
        except CancelledError as cancelled:
            error = cancelled
        if error is None:
            value = future.result()
            if self.expand and value is not None:
                value = iter(value)
        engine = self.engine
        engine.lock.acquire()
        try:
            self.busy_seconds += perf_counter() - start
            if error is None:
                self.finish(root, ticket, value)
            elif isinstance(error, BrokenExecutor | CancelledError):
                # A worker process died, or the executor was shut down with this item pending.
                self._give_up(root, error)
            else:
                self.fail(root, ticket, error)
            engine.concluded()
        finally:
            engine.lock.release()
