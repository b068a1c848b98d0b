"""Stages whose op is a function or coroutine function, with or without the context of its item."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import isasyncgenfunction, iscoroutinefunction
from types import CoroutineType, GeneratorType
from typing import Any, TypeVar

from spdl.pipeline._declare.op import bodies_of
from spdl.pipeline._engine.cancellation import (
    Abandoned,
    current_task,
    end_cancellation,
    not_cancelled,
    raise_cancellation,
)
from spdl.pipeline._engine.channel import MARK, Entry
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.node import LAZY_TYPES, Attempt, Node
from spdl.pipeline._engine.worker import publish
from spdl.pipeline._report.perf_stats import SHORT
from spdl.pipeline._stages.op_node import OpNode, Parked, Watch, run_awaited
from spdl.pipeline._state.origins import ItemWithContext, Root, origin_of
from spdl.pipeline._world import get_ident, perf_counter, thread_time

# Iterators that hold nothing once they have ended. Most are of these types, and dropping them later would cost more.
_EMPTY_AT_END = frozenset([GeneratorType, type(iter([])), type(iter(()))])


class FunctionNode(OpNode):
    """A stage whose op the thread that takes a turn calls itself."""

    __slots__ = ()

    # Every item takes this way through every stage, so what belongs to the stage and its counters is written out: the
    # calls would cost small ops a third of their throughput.
    def start(  # noqa: C901, PLR0911, PLR0912, PLR0915 - see above.
        self, root: Root | None = None, hand: list[Any] | None = None, attempt: Attempt | None = None
    ) -> Node:
        """Do as any node's, or run the op on the item of an attempt, which has a slot already."""
        engine = self.engine
        lock, workers = engine.lock, engine.workers
        # `describe_stragglers` finds it by this name.
        node = self
        item: Any
        value: Any
        number, cpu = 1, 0.0
        ticket = watch = excess = None
        if attempt is not None:
            root, item, ticket, number = attempt
            watch = None if self.timeout is None else self.timeout.begin(attempt, thread=get_ident())
        elif self.timeout is not None:
            # More has to be known of an op than its item until it has ended.
            return OpNode.start(self)
        elif root is None or hand is None:
            root, item = self.dequeue()
            excess = self.input.excess()
        else:
            item = hand.pop()
        while True:
            counters, order = node.counters, node.order
            weight = counters.claim_weight() if counters.completed >= counters.sample_at else 0
            begin = perf_counter()
            if attempt is None:
                node.running += 1
                if weight:
                    counters.note_wait(begin, weight)
                if (
                    excess is not None
                    or counters.waiting_for
                    or not counters.waiting_since
                    or node.running >= node.concurrency
                ):
                    full = node.running >= node.concurrency
                    counters.taken_at(begin, len(node.queue), excess, all_slots_taken=full)
                    excess = None
                else:
                    # Another slot waits for an item as before.
                    counters.got_at = begin
                ticket = None if order is None else order.admit()
            if workers.idle and not workers.waking:
                engine.progressed()
                begin = perf_counter()
            lock.release()
            if engine.stopping:
                node._not_begun(attempt or Attempt(root, item, ticket, number), watch)
                return node
            if weight:
                cpu, begin = thread_time(), perf_counter()
                engine.page.begins(get_ident(), node.column, origin_of(root), begin)
            op = node.op
            try:
                value = op(item)
            except BaseException as error:  # noqa: BLE001 - whatever an op raises becomes the item's or pipeline's failure.
                # The exception keeps this frame.
                op = None
                node._account(begin, cpu, weight, watch, succeeded=False, remains=(error,))
                node.fail(attempt or Attempt(root, item, ticket, number), error)
                return node
            lazy = type(value) in LAZY_TYPES or node.expand
            if not lazy:
                # It is dropped before the lock is taken. Else a later failure, or another attempt, is about it.
                item = None
            if weight or lazy or watch is not None:
                node._account(begin, cpu, weight, watch, succeeded=not lazy, remains=(value,))
            else:
                seconds = perf_counter() - begin
                lock.acquire()
                counters.busy_seconds += seconds
                if seconds >= SHORT:
                    counters.note_long(seconds)
            # Mypy thinks that nobody has asked for a stop in the meantime.
            if value is None or lazy or engine.stopping or not node.plain:  # type: ignore[redundant-expr]
                if lazy or attempt is not None:
                    engine.drops.append(attempt or item)
                node.finish(attempt or Attempt(root, item, ticket, number), value)
                return node
            if order is not None and ticket is not None and not order.take_alone(ticket):
                node.deliver(root, ticket, value)
                return node
            counters.completed += 1
            counters.emitted += 1
            node.running -= 1
            if not counters.waiting_since and not node.queue:
                counters.slot_freed(0)
            following = node.next
            if hand is not None and following is not None and not following.queue:
                if following.plain and workers.permits >= 0 and following.admits():
                    if engine.page.sleeper is not None:
                        # The next op may take long, and no other thread looks.
                        publish(engine)
                    # All plain nodes are of this class.
                    item, node = value, following  # type: ignore[assignment]
                    continue
                if following.offers and following.offer(root, value):
                    return node
            engine.emit(node, (root, value))
            return node

    def attempt(self, attempt: Attempt) -> None:
        # A router's `start` calls this.
        FunctionNode.start(self, attempt=attempt)

    def advance(self, parked: Parked) -> None:
        # Its item is gone, so the generator's name is shown.
        attempt = Attempt(parked.root, parked.iterator, parked.ticket, 1)
        watch = None if self.timeout is None else self.timeout.begin(attempt, thread=get_ident())
        weight = self.counters.claim_weight()
        self.engine.release_to_user()
        if self.engine.stopping:
            self._not_begun(parked, watch)
            return
        cpu, start = thread_time() if weight else 0.0, perf_counter()
        if weight:
            self.engine.page.begins(get_ident(), self.column, origin_of(parked.root), start)
        try:
            value = next(parked.iterator)
        except StopIteration as end:
            self._account(start, cpu, weight, watch, succeeded=False, remains=(end,))
            # The exception holds what a generator returns, and the iterator may be a user object.
            if end.value is not None or type(parked.iterator) not in _EMPTY_AT_END:
                self.engine.drops.extend((parked, end))
            self.generator_ended()
            self.end(parked.root, parked.ticket)
            return
        except BaseException as error:  # noqa: BLE001 - as above.
            self._account(start, cpu, weight, watch, succeeded=False, remains=(error,))
            # Trying it again would repeat results that it has passed on.
            self.give_up(attempt, error)
            return
        self._account(start, cpu, weight, watch, succeeded=self.steps_are_tasks, remains=(value, parked.iterator))
        self.park(parked, value)

    def _not_begun(self, work: Attempt | Parked, watch: Watch | None) -> None:
        """Give work up that was about to begin when the pipeline was asked to stop. Returns with the lock held."""
        self.engine.lock.acquire()
        if watch is not None and self.timeout is not None:
            self.timeout.end(watch)
        self.engine.drops.extend((work.iterator if isinstance(work, Parked) else None, work))
        self.slot_freed()

    def _account(
        self,
        start: float,
        cpu: float,
        weight: int,
        watch: Watch | None,
        *,
        succeeded: bool,
        remains: tuple[object, ...] = (),
    ) -> None:
        """Take the lock again after an op that has begun at a time of both clocks, and add up its time.

        It stands for ``weight`` ops; its CPU time is not measured if that is 0. What remains of it is its result or
        exception, and its generator if that has more results.

        Raises:
            Abandoned: If the item was given up in the meantime, and the thread replaced.
        """
        now = perf_counter()
        seconds = now - start
        if weight:
            cpu = thread_time() - cpu
        self.engine.lock.acquire()
        self.counters.busy_seconds += seconds
        if weight:
            self.counters.add_cpu(seconds, cpu, weight)
        if not succeeded:
            self.counters.other_seconds += seconds
        elif weight:
            self.counters.note_task(seconds, weight, now)
        elif seconds >= SHORT:
            self.counters.note_long(seconds)
        if watch is not None:
            assert self.timeout is not None
            if not self.timeout.end(watch):
                # No other thread has it, and the frames between here and the thread's end drop it under the lock.
                self.engine.drops.extend(remains)
                raise Abandoned


class DisaggregateNode(FunctionNode):
    """Passes on the elements of each item one by one."""

    __slots__ = ()

    adjustable = False
    makes_items = False

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(engine, name, iter, 1, expand=True)


class AsyncNode(OpNode):
    """A stage that the event loop's thread serves.

    Up to ``concurrency`` servers, each an asyncio task, take items from the queue themselves. A server ends when
    there is nothing to take; the event loop starts new ones when there is.
    """

    __slots__ = ("servers", "serving")

    on_loop = True
    on_workers = False
    slots_are_places = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.plain = False
        # How many tasks will look for an item before they end, and how many of these have one now.
        self.servers = 0
        self.serving = 0

    def ready(self) -> bool:
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
            # Its steps would block the loop, so the generator itself is passed on.
            self.deliver(attempt.root, attempt.ticket, value)
        else:
            super().finish(attempt, value)

    def has_turn(self) -> bool:
        return bool(self.due) or self.can_start()

    def wants_server(self) -> bool:
        # A server that has no item takes one when its turn comes, so only the others' items count. Those that wait
        # for a retry hold slots, but no server.
        if self.servers - self.serving >= len(self.queue) + len(self.due) or not self.has_turn():
            return False
        self.servers += 1
        return True

    async def serve(self) -> None:
        engine = self.engine
        lock, workers = engine.lock, engine.workers
        # Holds the remains of a finished item, which are dropped without the lock.
        hand: list[Any] = []
        lock.acquire()
        while not engine.stopping and self.has_turn():
            if self.at_mark() and not self.due:
                self.pass_mark()
                engine.concluded()
                if engine.drops:
                    engine.drop_deferred()
                continue
            self.serving += 1
            attempt = self.due.popleft() if self.due else self.take()
            if workers.idle and not workers.waking:
                engine.begun()
            lock.release()
            hand.clear()
            hand.append(attempt)
            del attempt
            if engine.stopping:
                return
            await self._serve_one(hand)
            # The lock is held again, also for the next steps.
            self.serving -= 1
            if engine.drops:
                engine.drop_deferred()
        self.servers -= 1
        lock.release()

    async def _serve_one(self, hand: list[Any]) -> None:
        """Run the op on the item in hand, and put dropped objects aside. Called without the lock, returns with it."""
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


NodeType = TypeVar("NodeType", bound=type[OpNode])


class _Contextual(OpNode):
    """The part of such a stage that differs from others: each item that it takes has its context with it."""

    __slots__ = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Workers take the items of plain nodes without asking.
        self.plain = False

    def dequeue(self) -> Entry:
        entry = super().dequeue()
        if entry is MARK:
            return entry
        root, item = entry
        return root, ItemWithContext(item, self.engine.locate_item, root)


@cache
def contextual(kind: NodeType) -> NodeType:
    """Return a kind of stage like this one whose op gets contexts."""
    return type(f"Contextual{kind.__name__}", (_Contextual, kind), {"__slots__": ()})  # type: ignore[return-value]


class _CallWithContext:
    """Calls an op with an item and its context. It can be pickled if the op can."""

    def __init__(self, op: Callable[..., Any], name: str) -> None:
        self.op = op
        self.name = name

    def __call__(self, pair: ItemWithContext) -> Any:
        return self.op(pair.item, **{self.name: pair.context()})


def with_context(op: Callable[..., Any], name: str) -> Callable[[ItemWithContext], Any]:
    """Return a function of an item with its context that calls an op, of the same kind as that."""
    call = _CallWithContext(op, name)
    if any(map(iscoroutinefunction, bodies_of(op))):

        async def awaits(pair: ItemWithContext) -> Any:
            return await call(pair)

        return awaits
    if any(map(isasyncgenfunction, bodies_of(op))):

        async def yields(pair: ItemWithContext) -> Any:
            results = call(pair)
            try:
                async for result in results:
                    yield result
            finally:
                await results.aclose()

        return yields
    return call
