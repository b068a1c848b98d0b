"""Stages whose op runs in a ThreadPoolExecutor of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.forked_child import end_forked_child
from spdl.pipeline._engine.own_calls import called_elsewhere
from spdl.pipeline._failures.abandoned import Abandoned
from spdl.pipeline._nodes.function import FunctionNode
from spdl.pipeline._shared_executors.entrypoint import PriorityExecutorEntrypoint
from spdl.pipeline._world import get_ident, perf_counter

from .base import ExecutorNode

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["ThreadPoolNode"]

# A call may go on taking items for so long; then other work of the executor has its turn.
_TURN_SECONDS = 0.001


class ThreadPoolNode(ExecutorNode, FunctionNode):
    """Has the pool's threads take items from the queue themselves.

    A worker that finds something to do submits a call. When the pool runs it, it takes what waits first, as a worker
    would, and goes on while there is something, for a millisecond at most. So one submission, the costly part, may
    serve many short ops, and no item ever waits for another: as long as there is more, one more call is on its way.

    In a pool that ranks calls a thread sees to it, before it is free, that there is a call for what waits here, or it
    would begin what is less urgent. Several may be free at once, so each of them does, whoever else did.
    """

    # The pool's thread takes the item.
    calls_op_itself = True

    __slots__ = ("coming", "ranked")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The number of submitted calls that do not run yet.
        self.coming = 0
        self.ranked = isinstance(self.executor, PriorityExecutorEntrypoint)

    def ready(self) -> bool:
        return not self.coming and super().ready()

    def goes_on_elsewhere(self) -> bool:
        return self.coming > 0 and bool(self.queue)

    def turn(self) -> None:
        self.coming += 1
        self.engine.release_to_user()
        # Where it is refused, or given up, the stage has ended, and none is to come any more.
        self.hand_over((), self._landed, self._serve)

    @called_elsewhere
    def _serve(self) -> None:
        """Take turns in a thread of the pool's."""
        engine = self.engine
        begin = perf_counter()
        engine.inside.append(get_ident())
        engine.lock.acquire()
        self.coming -= 1
        engine.page.enter(get_ident())
        try:
            while not (engine.stopping or engine.done) and FunctionNode.ready(self):
                try:  # noqa: SIM105 - that would be two calls more for each op.
                    FunctionNode.turn(self)
                except Abandoned:
                    pass
                if engine.drops:
                    engine.drop_deferred()
                if perf_counter() - begin > _TURN_SECONDS:
                    break
            for node in (self.next, self):
                if isinstance(node, ThreadPoolNode):
                    node.prepare_for_free_thread()
        except BaseException as error:  # noqa: BLE001 - a fault of the engine's: the consumer must be told.
            engine.crash(error)
        finally:
            if engine.forked:
                end_forked_child(engine)
            engine.page.leave(get_ident())
            engine.lock.release()
            engine.inside.remove(get_ident())

    def prepare_for_free_thread(self) -> None:
        """Submit a call if something waits here for which there may be none."""
        engine = self.engine
        if (self.ranked or not self.coming) and not engine.is_over() and FunctionNode.ready(self):
            self.turn()

    def _landed(self, future: Future[Any]) -> None:
        # The call itself raises nothing: the executor did, which has not made it, so what waits would wait for ever.
        if self.check_alive(future) and (error := future.exception()) is not None:
            self.engine.fail(self, None, error)
