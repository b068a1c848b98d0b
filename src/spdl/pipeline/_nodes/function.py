"""Stages whose op is a function, which runs in the thread that takes a turn."""

from __future__ import annotations

from types import GeneratorType
from typing import TYPE_CHECKING

from spdl.pipeline._engine.attempt import LAZY_TYPES, Attempt
from spdl.pipeline._engine.groups import origin_of
from spdl.pipeline._failures.abandoned import Abandoned
from spdl.pipeline._metrics.sampling import SHORT
from spdl.pipeline._world import get_ident, perf_counter, thread_time

from .op_node import OpNode, Parked

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine

    from .timeouts import Watch

__all__ = ["DisaggregateNode", "FunctionNode"]

# Iterators that hold nothing once they have ended. Most are of these types, and dropping them later would cost more.
_EMPTY_AT_END = frozenset([GeneratorType, type(iter([])), type(iter(()))])


class FunctionNode(OpNode):
    """A stage whose op the thread that takes a turn calls itself."""

    __slots__ = ()

    def start(self) -> None:
        """Take an item and run the op on it: the usual case of `attempt`, at half its cost."""
        if self.timeout is not None:
            # More has to be known of an op than its item until it has ended.
            self.attempt(self.take())
            return
        engine = self.engine
        counters, workers = self.counters, engine.workers
        root, item = self.dequeue()
        self.running += 1
        counters.item_taken(len(self.queue), self.input.capacity, self.running >= self.concurrency)
        ticket = None if self.order is None else self.order.admit()
        if workers.idle and not workers.waking:
            engine.progressed()
        weight = counters.claim_weight() if counters.completed + counters.steps >= counters.sample_at else 0
        engine.lock.release()
        if engine.stopping:
            engine.lock.acquire()
            self.running -= 1
            engine.drops.append(item)
            return
        cpu = thread_time() if weight else 0.0
        start = perf_counter()
        if weight:
            engine.page.begins(get_ident(), self.column, origin_of(root), start)
        try:
            value = self.op(item)
        except BaseException as error:  # noqa: BLE001 - whatever an op raises becomes the item's or pipeline's failure.
            self._account(start, cpu, weight, None, succeeded=False)
            self.fail(Attempt(root, item, ticket, 1), error)
            return
        lazy = self.expand or type(value) in LAZY_TYPES
        if not lazy:
            # Else what fails later, or is tried again, is the item.
            item = None
        if weight or lazy:
            self._account(start, cpu, weight, None, succeeded=not lazy)
        else:
            seconds = perf_counter() - start
            engine.lock.acquire()
            counters.busy_seconds += seconds
            if seconds >= SHORT:
                counters.note_long(seconds)
        if value is None or lazy or self.cancelled or engine.stopping:
            engine.drops.append(item)
            self.finish(Attempt(root, item, ticket, 1), value)
        else:
            self.deliver(root, ticket, value)

    def attempt(self, attempt: Attempt) -> None:
        engine = self.engine
        watch = None if self.timeout is None else self.timeout.begin(attempt, thread=get_ident())
        weight = self.counters.claim_weight()
        engine.release_to_user()
        if engine.stopping:
            self._not_begun(attempt, watch)
            return
        cpu, start = thread_time() if weight else 0.0, perf_counter()
        if weight:
            engine.page.begins(get_ident(), self.column, origin_of(attempt.root), start)
        try:
            value = self.op(attempt.item)
        except BaseException as error:  # noqa: BLE001 - whatever an op raises becomes the item's or pipeline's failure.
            self._account(start, cpu, weight, watch, succeeded=False, remains=(error,))
            self.fail(attempt, error)
            return
        self._account(start, cpu, weight, watch, succeeded=not self.is_lazy(value), remains=(value,))
        engine.drops.append(attempt)
        self.finish(attempt, value)

    def advance(self, parked: Parked) -> None:
        # Its item is gone; what failed is shown by the generator's name.
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
            # The exception holds what a generator returns, and the iterator may be an object of the user's.
            if end.value is not None or type(parked.iterator) not in _EMPTY_AT_END:
                self.engine.drops.extend((parked, end))
            self.generator_ended()
            self.end(parked.root, parked.ticket)
            return
        except BaseException as error:  # noqa: BLE001 - as above.
            self._account(start, cpu, weight, watch, succeeded=False, remains=(error,))
            # Trying it again would repeat what it has passed on.
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
        """Take the lock again after an op, and add up its time.

        Args:
            start: When it began.
            cpu: What the thread's CPU clock said then, if it was read.
            weight: How many ops it stands for; 0 if its CPU time is not measured.
            watch: What watches its time.
            succeeded: Whether it was a task that did not raise.
            remains: What it returned or raised, and its generator if that has more results, if it has a watch.

        Raises:
            Abandoned: If the item was given up meanwhile, and the thread replaced.
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
                # Nobody else has it, and the frames between here and the thread's end let go of it under the lock.
                self.engine.drops.extend(remains)
                raise Abandoned


class DisaggregateNode(FunctionNode):
    """Passes on the elements of each item one by one."""

    adjustable = False
    makes_items = False

    __slots__ = ()

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(engine, name, iter, 1, expand=True)
