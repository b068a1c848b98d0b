"""Stages whose op runs on an executor of the user's."""

from __future__ import annotations

import contextlib
import sys
from concurrent.futures import BrokenExecutor, CancelledError, wait
from inspect import isgeneratorfunction
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ._function_node import FunctionNode

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from ._engine import Engine
    from ._function_node import Attempt
    from ._order import Order
    from ._overtime import Watch
    from ._policy import FailurePolicy

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


def _nothing() -> None:
    return


class ExecutorNode(FunctionNode):
    """Hands items to an executor and takes the outcomes from its callbacks.

    The worker that takes an item only submits it. The callback appends the outcome and wakes a worker; it runs no
    code of the user's.
    """

    __slots__ = ("executor", "futures")

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[Any], Any],
        limit: int,
        *,
        executor: Executor,
        order: Order | None,
        policy: FailurePolicy,
    ) -> None:
        listed = _runs_in_processes(executor) and isgeneratorfunction(op)
        super().__init__(engine, name, _Listed(op) if listed else op, limit, order=order, expand=listed, policy=policy)
        self.plain = False
        self.executor = executor
        # What was submitted and has not come back.
        self.futures: set[Future[Any]] = set()

    def attempt(self, attempt: Attempt) -> None:
        """Submit the op. Called and returns with the lock held."""
        engine = self.engine
        # The slot in the executor stays busy: its op cannot be ended from here.
        watch = None if self.overtime is None else self.overtime.begin(attempt, cancel=_nothing)
        engine.release_to_user()
        start = perf_counter()
        try:
            future = self.executor.submit(self.op, attempt.item)
        except BaseException as error:  # noqa: BLE001 - a broken or closed executor fails the pipeline.
            engine.lock.acquire()
            self._break(attempt, error)
            return
        self.futures.add(future)
        future.add_done_callback(lambda future: self._done(attempt, future, start, watch))
        del future
        engine.lock.acquire()

    def warm(self) -> None:
        """Start a process pool's processes from the thread that starts the pipeline.

        A pool that forks would do so at the first item otherwise, from a process that has threads by then; their locks
        would be copied as they stand.
        """
        if _runs_in_processes(self.executor):
            # A pool that is broken or closed says so at the first item.
            with contextlib.suppress(Exception):
                self.executor.submit(_nothing).result()

    def await_futures(self, seconds: float) -> int:
        """Cancel what has not begun, wait for what has, and return how many ops still run after so many seconds."""
        futures = list(self.futures)
        for future in futures:
            future.cancel()
        return len(wait(futures, max(0.0, seconds)).not_done)

    def _break(self, attempt: Attempt, error: BaseException) -> None:
        self.failed += 1
        self.slot_freed()
        self.engine.fail(self, attempt.root, error)

    def _done(self, attempt: Attempt, future: Future[Any], start: float, watch: Watch | None) -> None:
        self.futures.discard(future)
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
            if watch is not None and self.overtime is not None and not self.overtime.end(watch):
                return
            if error is None:
                self.finish(attempt, value)
            elif isinstance(error, CancelledError) and engine.stopping:
                self.slot_freed()
            elif isinstance(error, BrokenExecutor | CancelledError):
                # A worker process died, or the executor was shut down with this item pending.
                self._break(attempt, error)
            else:
                self.fail(attempt, error)
            engine.concluded()
        finally:
            engine.lock.release()
