"""Stages whose op runs in a ThreadPoolExecutor of the user's."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ._executor_node import ExecutorNode
from ._function_node import FunctionNode
from ._overtime import WrittenOff
from ._priority._entrypoint import PriorityExecutorEntrypoint

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

    In a pool that ranks calls there may be one for each of its threads, if ops are long. Several threads may be free at
    once, and each but the first would begin what is less urgent if it found no call for what is waiting here.
    """

    __slots__ = ("coming", "most_coming")

    calls_op = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # How many calls were submitted that do not run yet.
        self.coming = 0
        self.most_coming = 1
        if isinstance(self.executor, PriorityExecutorEntrypoint):
            self.most_coming = self.executor._max_workers  # noqa: SLF001 - as the standard library's pools call it.

    def ready(self) -> bool:
        return (not self.coming or self._wants_another_call()) and super().ready()

    def turn(self) -> None:
        self.coming += 1
        self.engine.release_to_user()
        # Where it is refused, or given up, the stage has ended, and none is to come any more.
        self.hand_over((), self._landed, self._serve)

    def _serve(self) -> None:
        """Take turns in a thread of the pool's."""
        engine = self.engine
        begin = perf_counter()
        engine.inside.append(get_ident())
        engine.lock.acquire()
        self.coming -= 1
        try:
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
        """Whether ops are long, and there is an item and a slot for one call more than those on their way."""
        return (
            self.coming < self.most_coming
            and self.coming < len(self.queue)
            and self.coming < self.limit - self.running
            and self.busy_seconds > _SHORT_SECONDS * self.completed
        )

    def _landed(self, future: Future[Any]) -> None:
        self.check_alive(future)
