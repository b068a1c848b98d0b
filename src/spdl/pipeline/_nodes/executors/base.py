"""Stages whose op runs on an executor of the user's."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.deferred_drops import drop_all
from spdl.pipeline._engine.own_calls import called_elsewhere
from spdl.pipeline._nodes.op_node import OpNode
from spdl.pipeline._world import Condition, count_unfinished, monotonic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor, Future

    from spdl.pipeline._declare.policy import FailurePolicy
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.groups import Root
    from spdl.pipeline._engine.order import Order

__all__ = ["ExecutorNode", "await_calls"]


class ExecutorNode(OpNode):
    """The common part of stages on executors. Subclasses decide what is handed over, and when.

    Callbacks of futures run wherever the executor pleases, so they take note and wake a worker. They never raise, and
    run no code of the user's but the finalizers of what the last one of an ended pipeline lets go of.
    """

    __slots__ = ("all_landed", "executor", "futures")

    calls_op_itself = False
    on_workers = False
    slots_are_places = True

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[Any], Any],
        concurrency: int,
        *,
        executor: Executor,
        order: Order | None,
        policy: FailurePolicy,
    ) -> None:
        super().__init__(engine, name, op, concurrency, order=order, policy=policy)
        self.plain = False
        self.executor: Executor | None = executor
        # Calls that have not come back, and where their items came from if that is known.
        self.futures: dict[Future[Any], Sequence[Root]] = {}
        # Told when the last of them has come back to a pipeline that stops.
        self.all_landed = Condition(engine.lock)

    def hand_over(
        self,
        roots: Sequence[Root],
        landed: Callable[[Future[Any]], None],
        function: Callable[..., Any],
        *values: Any,
    ) -> bool:
        """Submit a call; the callback is called with the lock held. Called without the lock, returns with it.

        Returns:
            Whether it was submitted. An executor that refuses fails the pipeline. One of a pipeline that was asked to
            stop is not asked.
        """
        engine = self.engine
        if engine.stopping:
            engine.lock.acquire()
            return False
        assert self.executor is not None
        try:
            future = self.executor.submit(function, *values)
        except BaseException as error:  # noqa: BLE001 - it is broken or closed, and not a property of one item.
            engine.lock.acquire()
            # Whoever has stopped the pipeline meanwhile may shut the executor down.
            if not engine.stopping:
                engine.fail(self, None, error)
            return False
        self.futures[future] = roots
        # A call that is cancelled stays with the executor, and keeps its callbacks, until the executor comes to it.
        once = [landed]
        future.add_done_callback(lambda future: self._done(once.pop(), future))
        del future
        engine.lock.acquire()
        return True

    @called_elsewhere
    def _done(self, landed: Callable[[Future[Any]], None], future: Future[Any]) -> None:
        engine = self.engine
        with engine.lock:
            self.futures.pop(future, None)
            landed(future)
            engine.concluded()
            dropped = engine.letting_go.call_ends()
            if dropped:
                # `stop` waits for what is closed with them, such as generators.
                self.futures[future] = ()
            elif engine.stopping and not self.futures:
                self.all_landed.notify_all()
        if dropped:
            drop_all(dropped)
            with engine.lock:
                self.futures.pop(future, None)
                self.all_landed.notify_all()

    def check_alive(self, future: Future[Any]) -> bool:
        """Fail the pipeline if the executor gave the call up. Called with the lock held."""
        if future.cancelled():
            # If all results have come, a call that is no longer needed may be cancelled by a shutdown of the executor.
            if not (self.engine.is_over() or self.finished):
                self.engine.fail(self, None, RuntimeError("The executor was shut down while it had work to do."))
            return False
        error = future.exception()
        if isinstance(error, BrokenExecutor):
            self.engine.fail(self, None, error)
            return False
        return True

    def let_go(self) -> list[Any]:
        executor, self.executor = self.executor, None
        return [*super().let_go(), executor]

    def calls_executor(self) -> bool:
        return True

    def awaits_calls(self) -> bool:
        return bool(self.futures)

    def await_calls(self, seconds: float) -> int:
        deadline = monotonic() + seconds
        unfinished = await_calls(list(self.futures), seconds)
        # Whoever waits for a future goes on before its callbacks are called.
        with self.engine.lock:
            while self.futures and (left := deadline - monotonic()) > 0:
                self.all_landed.wait(left)
        return unfinished


def await_calls(futures: Iterable[Future[Any]], seconds: float) -> int:
    """Cancel what has not begun, wait for what has, and return how many calls still run after so many seconds."""
    # `wait` would count as under way what was cancelled, until the executor comes to it: behind other work of the
    # user's, or never.
    begun = [future for future in futures if not future.cancel()]
    return count_unfinished(begun, max(0.0, seconds))
