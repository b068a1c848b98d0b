"""Stages whose op is a coroutine function or an async generator function."""

from __future__ import annotations

from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.op import makes_coroutine
from spdl.pipeline._engine.attempt import LAZY_TYPES, Attempt
from spdl.pipeline._failures.cancellation import current_task, end_cancellation, not_cancelled, raise_cancellation
from spdl.pipeline._world import perf_counter

from .awaited import run_awaited
from .op_node import OpNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._declare.policy import FailurePolicy
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.order import Order

__all__ = ["AsyncNode"]


class AsyncNode(OpNode):
    """A stage that the event loop's thread serves.

    Up to ``concurrency`` servers, each an asyncio task, take items from the queue themselves. A server ends when
    there is nothing to take; the event loop starts new ones when there is.
    """

    __slots__ = ("delivers", "servers", "serving")

    on_loop = True
    on_workers = False
    slots_are_places = True

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[Any], Any],
        concurrency: int,
        *,
        order: Order | None,
        policy: FailurePolicy,
    ) -> None:
        super().__init__(engine, name, op, concurrency, order=order, policy=policy)
        self.plain = False
        # The result of the op's coroutine is passed on as it is.
        self.delivers = makes_coroutine(op) and type(self).finish is AsyncNode.finish
        # Tasks that will look for an item before they end, and those of them that have one now.
        self.servers = 0
        self.serving = 0

    def ready(self) -> bool:
        """Never: workers do not serve it."""
        return False

    def can_start(self) -> bool:
        if super().can_start():
            return True
        # The loop takes it back when it has looked: generators of this stage may wait for room, too.
        if self.queue and self.running < self.concurrency:
            self.want_room()
        return False

    def finish(self, attempt: Attempt, value: Any) -> None:
        if type(value) is GeneratorType and not (self.cancelled or self.engine.stopping):
            # Its steps would block the loop, so it is passed on as it is.
            self.deliver(attempt.root, attempt.ticket, value)
        else:
            super().finish(attempt, value)

    def has_turn(self) -> bool:
        """Return whether a server would find something to do."""
        return bool(self.due) or self.can_start()

    def wants_server(self) -> bool:
        # A server that has no item takes one when its turn comes, so only the others' items count. Those that wait
        # for a retry hold slots, but no server.
        if self.servers - self.serving >= len(self.queue) + len(self.due) or not self.has_turn():
            return False
        self.servers += 1
        return True

    # The usual case is written out here: a call and a record of the attempt would cost a tenth of its throughput.
    async def serve(self) -> None:  # noqa: C901, PLR0912, PLR0915 - see above.
        """The body of a server."""
        engine = self.engine
        lock, workers, counters = engine.lock, engine.workers, self.counters
        simple = self.timeout is None and self.order is None and self.delivers
        # Holds the remains of a finished item, which are dropped without the lock.
        hand: list[Any] = []
        item = None
        task = current_task()
        lock.acquire()
        while not engine.stopping and self.has_turn():
            if self.at_mark() and not self.due:
                self.pass_mark()
                engine.concluded()
                if engine.drops:
                    engine.drop_deferred()
                continue
            self.serving += 1
            if simple and not self.due:
                root, item = self.dequeue()
                self.running += 1
                counters.item_taken(len(self.queue), self.input.capacity, self.running >= self.concurrency)
                if workers.idle and not workers.waking:
                    engine.progressed()
                lock.release()
                hand.clear()
                if engine.stopping:
                    return
                begin = perf_counter()
                try:
                    hand.append(await self.op(item))
                    if task.cancelling():
                        await raise_cancellation(task)
                    item = None
                except BaseException as error:
                    if engine.is_over():
                        raise
                    if task.cancelling():
                        await end_cancellation(task)
                    seconds = perf_counter() - begin
                    lock.acquire()
                    self.counters.did_not_succeed(seconds)
                    attempt = Attempt(root, item, None, 1)
                    self.fail(attempt, not_cancelled(error))
                    del attempt
                    item = None
                else:
                    seconds = perf_counter() - begin
                    lock.acquire()
                    counters.succeeded(seconds)
                    if hand[0] is None or type(hand[0]) in LAZY_TYPES or self.cancelled or engine.stopping:
                        self.finish(Attempt(root, None, None, 1), hand[0])
                    else:
                        self.deliver(root, None, hand[0])
                engine.concluded()
                self.serving -= 1
                if engine.drops:
                    engine.drop_deferred()
                continue
            attempt = self.due.popleft() if self.due else self.take()
            if workers.idle and not workers.waking:
                engine.progressed()
            lock.release()
            hand.clear()
            hand.append(attempt)
            del attempt
            if engine.stopping:
                return
            await self._serve_one(hand)
            # The lock is held again, for what comes next as well.
            self.serving -= 1
            if engine.drops:
                engine.drop_deferred()
        self.servers -= 1
        lock.release()

    async def _serve_one(self, hand: list[Any]) -> None:
        """Run the op on the item in hand, and leave what is to be dropped. Called without the lock, returns with it."""
        engine = self.engine
        task = current_task()
        begin = perf_counter()
        try:
            awaited = self.op(hand[0].item)
            if type(awaited) is CoroutineType and self.timeout is None:
                hand.append(await awaited)
                if task.cancelling():
                    await raise_cancellation(task)
            else:
                await run_awaited(self, hand.pop(), awaited)
                # It may hold its result still.
                del awaited
                engine.lock.acquire()
                return
        except BaseException as error:
            if engine.is_over():
                raise
            if task.cancelling():
                await end_cancellation(task)
            seconds = perf_counter() - begin
            engine.lock.acquire()
            self.counters.did_not_succeed(seconds)
            self.fail(hand[0], not_cancelled(error))
            engine.concluded()
            return
        end = perf_counter()
        engine.lock.acquire()
        self.counters.succeeded(end - begin)
        self.finish(*hand)
        engine.concluded()
