"""Stages whose op is a coroutine function or an async generator function."""

from __future__ import annotations

from time import perf_counter
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.op import makes_coroutine
from spdl.pipeline._engine.lineage import Group
from spdl.pipeline._failures.cancellation import current_task, end_cancellation, not_cancelled, raise_cancellation
from spdl.pipeline._failures.failure import log_error
from spdl.pipeline._failures.timeouts import Watch

from .function import DEFERRED, Attempt, FunctionNode

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable

    from spdl.pipeline._declare.policy import FailurePolicy
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.event_loop import Deferred
    from spdl.pipeline._engine.order import Order, Ticket

__all__ = ["AsyncNode", "run_deferred"]


class AsyncNode(FunctionNode):
    """A stage that the event loop's thread serves.

    Up to ``concurrency`` servers, each an asyncio task, take items from the queue themselves. A server ends when
    there is nothing to take; the lane starts new ones when there is.
    """

    __slots__ = ("delivers", "servers", "serving")

    on_loop = True
    on_workers = False
    calls_op = False
    slots_are_places = True

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[Any], Any],
        limit: int,
        *,
        order: Order | None,
        policy: FailurePolicy,
    ) -> None:
        super().__init__(engine, name, op, limit, order=order, policy=policy)
        self.plain = False
        # What the op's coroutine returns is passed on.
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
        if self.queue and self.running < self.limit:
            self.wants_room = True
        return False

    def finish(self, attempt: Attempt, value: Any) -> None:
        if type(value) is GeneratorType and not self.cancelled:
            # Its steps would block the loop, so it is passed on as it is.
            self.deliver(attempt.root, attempt.ticket, value)
        else:
            super().finish(attempt, value)

    def has_turn(self) -> bool:
        """Whether a server would find something to do."""
        return bool(self.due) or self.can_start()

    def wants_server(self) -> bool:
        # A server that has no item takes one when its turn comes, so only the others' items count. Those that rest
        # until a retry hold slots, but no server.
        if self.servers - self.serving >= len(self.queue) + len(self.due) or not self.has_turn():
            return False
        self.servers += 1
        return True

    # The usual case is written out here: a call and a record of the attempt would cost a tenth of its throughput.
    async def serve(self) -> None:  # noqa: C901, PLR0912, PLR0915 - see above.
        """The body of a server."""
        engine = self.engine
        lock = engine.lock
        simple = self.overtime is None and self.order is None and self.delivers
        # What is left of an item that is done: it is dropped without the lock.
        hand: list[Any] = []
        item = None
        task = current_task()
        lock.acquire()
        while not engine.stopping and self.has_turn():
            if self.at_mark() and not self.due:
                self.pass_mark()
                engine.progressed()
                continue
            self.serving += 1
            if simple and not self.due:
                root, item = engine.dequeue(self)
                self.slot_taken()
                if engine.idle and not engine.waking:
                    engine.progressed()
                lock.release()
                hand.clear()
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
                    lock.acquire()
                    self.did_not_succeed(perf_counter() - begin)
                    attempt = Attempt(root, item, None, 1)
                    self.fail(attempt, not_cancelled(error))
                    del attempt
                    item = None
                else:
                    seconds = perf_counter() - begin
                    lock.acquire()
                    self.succeeded(seconds)
                    if hand[0] is None or type(hand[0]) in DEFERRED or self.cancelled:
                        self.finish(Attempt(root, None, None, 1), hand[0])
                    else:
                        self.deliver(root, None, hand[0])
                engine.concluded()
                self.serving -= 1
                if engine.rubbish:
                    engine.drop_rubbish()
                continue
            attempt = self.due.popleft() if self.due else self.take()
            if engine.idle and not engine.waking:
                engine.progressed()
            lock.release()
            hand.clear()
            hand.append(attempt)
            del attempt
            await self._serve_one(hand)
            # The lock is held again, for what comes next as well.
            self.serving -= 1
            if engine.rubbish:
                engine.drop_rubbish()
        self.servers -= 1
        lock.release()

    async def _serve_one(self, hand: list[Any]) -> None:
        """Run the op on the item in hand, and leave what is to be dropped. Called without the lock, returns with it."""
        engine = self.engine
        task = current_task()
        begin = perf_counter()
        try:
            deferred = self.op(hand[0].item)
            if type(deferred) is CoroutineType and self.overtime is None:
                hand.append(await deferred)
                if task.cancelling():
                    await raise_cancellation(task)
            else:
                await run_deferred(self, hand.pop(), deferred)
                engine.lock.acquire()
                return
        except BaseException as error:
            if engine.is_over():
                raise
            if task.cancelling():
                await end_cancellation(task)
            engine.lock.acquire()
            self.did_not_succeed(perf_counter() - begin)
            self.fail(hand[0], not_cancelled(error))
            engine.concluded()
            return
        end = perf_counter()
        engine.lock.acquire()
        self.succeeded(end - begin)
        self.finish(*hand)
        engine.concluded()


async def run_deferred(  # noqa: C901, PLR0912 - what comes of either, in the order in which it is to be noted.
    node: FunctionNode, attempt: Attempt, deferred: Deferred
) -> None:
    """Await a coroutine, or exhaust an async generator, and pass on what comes of it. It holds a slot of ``node``."""
    engine = node.engine
    if isinstance(deferred, AsyncGeneratorType):
        # From its first result on it is not tried again, which would repeat what it has passed on. Its item is the
        # generator's to keep or to let go; what failed is shown by the generator's name.
        attempt = Attempt(Group([attempt.root], 1), deferred, attempt.ticket, node.policy.retries + 1)
    task = current_task()
    watch = None if node.overtime is None else _watch(node, attempt, task)
    begin = perf_counter()
    error: BaseException | None = None
    value = None
    try:
        if isinstance(deferred, AsyncGeneratorType):
            await _exhaust(node, attempt, deferred, watch)
        else:
            if watch is not None and node.overtime is not None:
                with engine.lock:
                    node.overtime.resume(watch)
            value = await deferred
        if task.cancelling():
            await raise_cancellation(task)
    except BaseException as raised:
        if engine.is_over():
            raise
        if task.cancelling():
            await end_cancellation(task)
        error = raised
    with engine.lock:
        seconds = perf_counter() - begin
        if error is None and not isinstance(deferred, AsyncGeneratorType):
            node.succeeded(seconds)
        else:
            # An async generator's results were its tasks.
            node.did_not_succeed(seconds)
        if node.on_loop and node.queue and engine.lane is not None:
            # The server that took the item may have ended long ago, and nobody else knows of the slot.
            engine.lane.wake()
        if watch is not None and node.overtime is not None and not node.overtime.end(watch):
            return
        if error is not None:
            node.fail(attempt, not_cancelled(error))
        elif isinstance(deferred, AsyncGeneratorType):
            node.generator_ended()
            node.end(attempt.root, attempt.ticket)
        else:
            node.finish(attempt, value)
        engine.concluded()
        if engine.rubbish:
            engine.drop_rubbish()


def _watch(node: FunctionNode, attempt: Attempt, task: Task[Any]) -> Watch:
    lane = node.engine.lane
    assert lane is not None

    def cancel(watch: Watch) -> None:
        # Once the op has ended, the task may be at another item.
        lane.post(lambda: None if watch.ended else lane.cancel(task))

    return Watch(attempt, cancel=cancel)


async def _exhaust(
    node: FunctionNode, attempt: Attempt, results: AsyncGeneratorType[Any, Any], watch: Watch | None
) -> None:
    ticket, root = attempt.ticket, attempt.root
    assert isinstance(root, Group)
    # It is asked for a result when that has a place to go, as other generators are.
    try:
        while await _has_place(node, ticket, watch):
            begin = perf_counter()
            try:
                value = await anext(results)
            except StopAsyncIteration:
                return
            seconds = perf_counter() - begin
            with node.engine.lock:
                node.note_success(seconds)
                node.steps += 1
                # What the whole takes is added up at its end, to both.
                node.other_seconds -= seconds
                if watch is not None and node.overtime is not None and not node.overtime.pause(watch):
                    break
                if node.cancelled or node.engine.stopping:
                    break
                if value is None:
                    node.dropped += 1
                else:
                    root.pending += 1
                    node.emit(ticket, root, value)
                    node.engine.progressed()
            del value
    finally:
        if results.ag_frame is not None:
            await _close(node, results)


async def _close(node: FunctionNode, generator: AsyncGeneratorType[Any, Any]) -> None:
    """Close an async generator that has more results, of which none is wanted. What it raises is logged."""
    lane = node.engine.lane
    assert lane is not None
    task = current_task()
    lane.closing.add(task)
    try:
        await generator.aclose()
    except Exception as error:  # noqa: BLE001 - its item's fate is settled.
        log_error(error, "Stage %r: %s raised when it was closed", node.name, generator.__qualname__)
    finally:
        lane.closing.discard(task)


async def _has_place(node: FunctionNode, ticket: Ticket | None, watch: Watch | None) -> bool:
    """Wait until one more result has a place to go, and start to watch. False if none is wanted."""
    engine = node.engine
    assert engine.lane is not None
    while True:
        with engine.lock:
            if node.cancelled or engine.stopping:
                return False
            if node.may_emit(ticket):
                if watch is not None and node.overtime is not None:
                    node.overtime.resume(watch)
                return True
            node.wants_room = True
            room = engine.lane.wait_for_room()
        await room
