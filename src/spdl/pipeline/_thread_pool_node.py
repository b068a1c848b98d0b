"""Stages whose op runs in a ThreadPoolExecutor of the user's."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ._executor_node import ExecutorNode
from ._function_node import FunctionNode
from ._overtime import WrittenOff

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["ThreadPoolNode"]

# How long a call may go on taking items before whatever else waits in the executor has its turn.
_TURN_SECONDS = 0.001
# Where ops take less than this in the mean, one has ended before another thread begins: it is what a wake-up takes.
_SHORT_SECONDS = 20e-6


class ThreadPoolNode(ExecutorNode):
    """Has the pool's threads take items from the queue themselves.

    A worker that finds something to do submits a call. When the pool runs it, it takes what waits first, as a worker
    would, and goes on while there is something, for a millisecond at most. So one submission, the costly part, may
    serve many short ops, and no item ever waits for another: as long as there is more, one more call is on its way.
    """

    __slots__ = ("coming",)

    calls_op = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A call was submitted that does not run yet.
        self.coming = False

    def ready(self) -> bool:
        return not self.coming and super().ready()

    def turn(self) -> None:
        self.coming = True
        self.engine.release_to_user()
        # Where it is refused, or given up, the stage has ended, and none is to come any more.
        self.hand_over((), self._landed, self._serve)

    def _serve(self) -> None:
        """Take turns in a thread of the pool's."""
        engine = self.engine
        begin = perf_counter()
        engine.inside.append(get_ident())
        engine.lock.acquire()
        self.coming = False
        try:
            if self._wants_another_call() and not (engine.stopping or engine.done):
                self.turn()
            while not (engine.stopping or engine.done) and FunctionNode.ready(self):
                try:
                    FunctionNode.turn(self)
                except WrittenOff:
                    continue
                following = self.next
                if isinstance(following, ThreadPoolNode) and following.ready():
                    # Before this thread is free again, and looks for the most urgent call in a pool that ranks them.
                    following.turn()
                if engine.rubbish:
                    engine.drop_rubbish()
                if perf_counter() - begin > _TURN_SECONDS:
                    break
        except BaseException as error:  # noqa: BLE001 - a fault of the engine's: the consumer must be told.
            engine.crash(error)
        finally:
            engine.lock.release()
            engine.inside.remove(get_ident())

    def _wants_another_call(self) -> bool:
        """Whether a thread that takes an item must first see to it that another can take the next.

        That one may be free before a worker has submitted a call for it. In a pool that ranks calls it would begin what
        is less urgent.
        """
        return len(self.queue) > 1 and self.busy_seconds > _SHORT_SECONDS * self.completed and self.ready()

    def _landed(self, future: Future[Any]) -> None:
        self.check_alive(future)
