"""Stages whose op is a function: of one result, or of a generator's many."""

from __future__ import annotations

from collections import deque
from threading import get_ident
from time import perf_counter, thread_time
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._declare.policy import BEAR_ALL, Tally
from spdl.pipeline._engine.lineage import Group
from spdl.pipeline._engine.node import HELD, Node
from spdl.pipeline._engine.order import AHEAD, Order, Ticket
from spdl.pipeline._engine.sentinel import MARK
from spdl.pipeline._failures.failure import report_failed_item
from spdl.pipeline._failures.timeouts import Overtime, WrittenOff
from spdl.pipeline._metrics.sampling import AT_LEAST_ONE_OF, SHORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline._declare.policy import FailurePolicy
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.lineage import Root
    from spdl.pipeline._failures.timeouts import Watch

__all__ = ["DEFERRED", "Attempt", "DisaggregateNode", "FunctionNode", "Parked"]

# Types of result that stand for results to come.
DEFERRED = frozenset([GeneratorType, CoroutineType, AsyncGeneratorType])


class Parked(NamedTuple):
    """A generator between two turns. It keeps its slot."""

    root: Group
    iterator: Iterator[Any]
    ticket: Ticket | None


class Attempt(NamedTuple):
    """One run of an op on an item. It holds a slot."""

    root: Root
    item: Any
    ticket: Ticket | None
    number: int


class FunctionNode(Node):
    """A stage that calls ``op(item)``.

    What the call returns decides what follows: a value moves on, None drops the item, a generator is advanced by one
    result per turn, a coroutine or an async generator is handed to the event loop. So lambdas, partials and callable
    objects that return one of these need no declaration.
    """

    adjustable = True
    # Whether whoever takes a turn calls the op right there.
    calls_op = True
    # Whether each result of a generator counts as a task.
    steps_are_tasks = True

    __slots__ = ("direct", "due", "expand", "overtime", "parked", "policy", "tally")

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[Any], Any],
        limit: int,
        *,
        order: Order | None = None,
        expand: bool = False,
        policy: FailurePolicy = BEAR_ALL,
    ) -> None:
        super().__init__(engine, name, op, limit)
        self.policy = policy
        self.tally = engine.tally if policy.max_failures is None else Tally(policy.max_failures)
        self.tally.nodes.append(self)
        self.order = order
        # The result is an iterator whatever its type.
        self.expand = expand
        self.overtime = None if policy.timeout is None else Overtime(self, policy.timeout, policy.on_timeout)
        self.plain = not expand and not policy.retries and self.overtime is None
        # Nothing has to be known of an op beyond its item until it has ended.
        self.direct = self.calls_op and self.overtime is None
        self.parked: deque[Parked] = deque()
        # Items whose next attempt is due. They kept their slots and so their places in the output.
        self.due: deque[Attempt] = deque()

    def ready(self) -> bool:
        if self.due or (self.parked and self._can_advance()):
            return True
        return self.can_start()

    def can_start(self) -> bool:
        """Whether an op could start on what waits first, or an epoch's end could be passed on."""
        if not self.queue or self.running >= self.limit:
            return False
        if self.queue[0] is MARK:
            return not self.running and self.has_room(0)
        order = self.order
        if order is not None and not order.has_place(self.limit):
            self.wait(HELD)
            return False
        under_way = self.running - len(self.parked)
        # The first half is what `has_room` would find; asking it costs a call.
        return under_way + len(self.out) < self.room or self.has_room(under_way)

    def _can_advance(self) -> bool:
        if self.order is None:
            return self.may_emit(None)
        return any(self.may_emit(parked.ticket) for parked in self.parked)

    def may_emit(self, ticket: Ticket | None) -> bool:
        """Whether one more result of the item with this ticket has a place to go."""
        under_way = self.running - len(self.parked)
        if ticket is None:
            # What was under way when the limit was lowered may be more than there is room for, and waits here itself.
            return self.has_room(min(under_way, self.limit))
        assert self.order is not None
        # The head's results go on; those of the others wait in their tickets.
        if self.order.is_head(ticket):
            return self.has_room(0)
        return self.order.buffered + under_way < self.limit + AHEAD

    def drained(self) -> bool:
        return not self.queue and not self.running and not self.parked

    def discard(self) -> list[Any]:
        rubbish = super().discard()
        for resting in (self.parked, self.due):
            rubbish += resting
            if not self.on_loop:
                self.engine.waiting -= len(resting)
            self.running -= len(resting)
            resting.clear()
        return rubbish

    def turn(self) -> None:
        if self.due:
            self.engine.waiting -= 1
            self.attempt(self.due.popleft())
            return
        parked = self._take_parked()
        if parked is not None:
            self.advance(parked)
        elif self.at_mark():
            self.pass_mark()
        elif self.direct:
            self._start()
        else:
            self.attempt(self.take())

    def _take_parked(self) -> Parked | None:
        if not self.parked or not self._can_advance():
            return None
        self.engine.waiting -= 1
        for index, parked in enumerate(self.parked):
            if self.may_emit(parked.ticket):
                del self.parked[index]
                return parked
        raise AssertionError("A parked generator that could advance is gone.")

    def take(self) -> Attempt:
        """Take the head of the queue and a slot for it."""
        root, item = self.engine.dequeue(self)
        self.slot_taken()
        return Attempt(root, item, None if self.order is None else self.order.admit(), 1)

    def _start(self) -> None:
        """Take an item and run the op on it: the usual case of `attempt`, at half its cost."""
        engine = self.engine
        root, item = engine.dequeue(self)
        self.slot_taken()
        ticket = None if self.order is None else self.order.admit()
        if engine.idle and not engine.waking:
            engine.progressed()
        weight = self.claim_weight() if self.completed + self.steps >= self.sample_at else 0
        engine.lock.release()
        cpu = thread_time() if weight else 0.0
        start = perf_counter()
        try:
            value = self.op(item)
        except BaseException as error:  # noqa: BLE001 - whatever an op raises becomes the item's or pipeline's failure.
            self._account(start, cpu, weight, None, succeeded=False)
            self.fail(Attempt(root, item, ticket, 1), error)
            return
        del item
        deferred = self.expand or type(value) in DEFERRED
        if weight or deferred:
            self._account(start, cpu, weight, None, succeeded=not deferred)
        else:
            seconds = perf_counter() - start
            engine.lock.acquire()
            self.busy_seconds += seconds
            if seconds >= SHORT:
                self.note_long(seconds)
        if value is None or deferred or self.cancelled:
            self.finish(Attempt(root, value, ticket, 1), value)
        else:
            self.deliver(root, ticket, value)

    def deliver(self, root: Root, ticket: Ticket | None, value: Any) -> None:
        """Pass on the only result of an item. Called with the lock held."""
        self.completed += 1
        self.emitted += 1
        if ticket is None:
            # The result takes over its item's place in the lineage.
            self.engine.emit(self, (root, value))
        else:
            assert self.order is not None
            for entry in self.order.finish(ticket, (root, value)):
                self.engine.emit(self, entry)
        self.slot_freed()

    def attempt(self, attempt: Attempt) -> None:
        """Run the op on an item. Called and returns with the lock held."""
        engine = self.engine
        watch = None if self.overtime is None else self.overtime.begin(attempt, thread=get_ident())
        weight = self.claim_weight()
        engine.release_to_user()
        cpu, start = thread_time() if weight else 0.0, perf_counter()
        try:
            value = self.op(attempt.item)
        except BaseException as error:  # noqa: BLE001 - whatever an op raises becomes the item's or pipeline's failure.
            self._account(start, cpu, weight, watch, succeeded=False)
            self.fail(attempt, error)
            return
        self._account(start, cpu, weight, watch, succeeded=not self.is_deferred(value))
        engine.rubbish.append(attempt)
        self.finish(attempt, value)

    def advance(self, parked: Parked) -> None:
        """Ask a generator for one more result."""
        # Its item is gone; what failed is shown by the generator's name.
        attempt = Attempt(parked.root, parked.iterator, parked.ticket, 1)
        watch = None if self.overtime is None else self.overtime.begin(attempt, thread=get_ident())
        weight = self.claim_weight()
        self.engine.release_to_user()
        cpu, start = thread_time() if weight else 0.0, perf_counter()
        try:
            value = next(parked.iterator)
        except StopIteration:
            self._account(start, cpu, weight, watch, succeeded=False)
            self.generator_ended()
            self.end(parked.root, parked.ticket)
            return
        except BaseException as error:  # noqa: BLE001 - as above.
            self._account(start, cpu, weight, watch, succeeded=False)
            # Trying it again would repeat what it has passed on.
            self.give_up(attempt, error)
            return
        self._account(start, cpu, weight, watch, succeeded=self.steps_are_tasks)
        self.park(parked, value)

    def generator_ended(self) -> None:
        """Count an item whose generator has no more results. Called with the lock held."""
        self.completed += 1
        # Its results were its tasks.
        self.steps -= self.steps_are_tasks

    def claim_weight(self) -> int:
        """How many ops the one that begins now stands for; 0 if it is not measured. Called with the lock held."""
        if self.completed + self.steps < self.sample_at:
            return 0
        if self.weight > 1:
            self.sample_at += AT_LEAST_ONE_OF
        return self.weight

    def is_deferred(self, value: Any) -> bool:
        """Whether a value stands for results to come."""
        return self.expand or type(value) in DEFERRED

    def _account(self, start: float, cpu: float, weight: int, watch: Watch | None, *, succeeded: bool) -> None:
        """Take the lock again after an op, and add up its time.

        Args:
            start: When it began.
            cpu: What the thread's CPU clock said then, if it was read.
            weight: How many ops it stands for; 0 if its CPU time is not measured.
            watch: What watches its time.
            succeeded: Whether it was a task that did not raise.

        Raises:
            WrittenOff: If the item was given up meanwhile, and the thread replaced.
        """
        now = perf_counter()
        seconds = now - start
        if weight:
            cpu = thread_time() - cpu
        self.engine.lock.acquire()
        self.busy_seconds += seconds
        if weight:
            self.add_cpu(seconds, cpu, weight)
        if not succeeded:
            self.other_seconds += seconds
        elif weight:
            self.note_task(seconds, weight, now)
        elif seconds >= SHORT:
            self.note_long(seconds)
        if watch is not None:
            assert self.overtime is not None
            if not self.overtime.end(watch):
                raise WrittenOff

    def add_cpu(self, seconds: float, cpu: float, weight: int) -> None:
        """Add a measured op's CPU time, standing for so many. Called with the lock held."""
        # The clock's own cost shows on the shortest ops; a thread cannot use more time than passes.
        self.cpu_seconds += min(cpu, seconds) * weight

    def succeeded(self, seconds: float) -> None:
        """Add up the time of a task whose CPU time nobody measured. Called with the lock held."""
        self.busy_seconds += seconds
        self.note_success(seconds)

    def note_success(self, seconds: float) -> None:
        """Note how long a task took whose time is added up elsewhere. Called with the lock held."""
        if seconds >= SHORT:
            self.times.add(seconds)
        elif self.completed + self.steps >= self.sample_at:
            self.note_task(seconds, self.weight, perf_counter())

    def did_not_succeed(self, seconds: float) -> None:
        """Add up the time of what was no task, or of one that raised. Called with the lock held."""
        self.busy_seconds += seconds
        self.other_seconds += seconds

    def finish(self, attempt: Attempt, value: Any) -> None:
        """Deal with what an op returned. Called with the lock held."""
        if self.cancelled:
            self.engine.rubbish.append(value)
            self.slot_freed()
        elif self.expand or type(value) in DEFERRED:
            self.defer(attempt, value)
        elif value is None:
            self.completed += 1
            self.dropped += 1
            self.end(attempt.root, attempt.ticket)
        else:
            self.deliver(attempt.root, attempt.ticket, value)

    def defer(self, attempt: Attempt, value: Any) -> None:
        """Arrange for the results that ``value`` stands for."""
        # From now on its ops take the way that knows generators.
        self.plain = False
        if type(value) is CoroutineType or type(value) is AsyncGeneratorType:
            self.engine.start_lane().adopt(self, attempt, value)
        else:
            self.parked.append(Parked(Group([attempt.root], 1), value, attempt.ticket))
            self.engine.waiting += 1

    def park(self, parked: Parked, value: Any) -> None:
        """Pass on one result of a generator, and put the generator back. Called with the lock held."""
        if self.cancelled:
            self.engine.rubbish += (parked, value)
            self.slot_freed()
            return
        self.steps += self.steps_are_tasks
        if value is None:
            self.dropped += 1
        else:
            parked.root.pending += 1
            self.emit(parked.ticket, parked.root, value)
        self.parked.append(parked)
        self.engine.waiting += 1

    def emit(self, ticket: Ticket | None, root: Root, value: Any) -> None:
        """Pass a result on, now or when its ticket's turn comes. Called with the lock held."""
        self.emitted += 1
        if ticket is None:
            self.engine.emit(self, (root, value))
        else:
            assert self.order is not None
            for entry in self.order.add(ticket, (root, value)):
                self.engine.emit(self, entry)

    def end(self, root: Root, ticket: Ticket | None) -> None:
        """End an item of which nothing is left here. Called with the lock held."""
        self.engine.lineage.release(root)
        self._complete(ticket)

    def _complete(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            assert self.order is not None
            for entry in self.order.complete(ticket):
                self.engine.emit(self, entry)
            # An async generator behind a later ticket may have waited for its turn.
            if self.wants_room and self.engine.lane is not None:
                self.engine.lane.wake()
        self.slot_freed()

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        """Try an item whose op raised again, later, or give it up. Called with the lock held."""
        policy = self.policy
        if isinstance(error, Exception) and attempt.number <= policy.retries and not self.cancelled:
            self.retried += 1
            self.engine.rubbish.append(error)
            following = attempt._replace(number=attempt.number + 1)
            # A delay of 0 may have any number of retries; no float holds 2 to the power of 1024.
            delay = policy.retry_delay * 2.0 ** min(attempt.number - 1, 1023)
            self.engine.timer.after(delay, lambda: self._resume(following))
        else:
            self.give_up(attempt, error)

    def _resume(self, attempt: Attempt) -> None:
        if self.cancelled:
            self.engine.rubbish.append(attempt)
            self.slot_freed()
        else:
            self.due.append(attempt)
            self.engine.has_work(self)

    def give_up(self, attempt: Attempt, error: BaseException) -> None:
        """Drop an item for good. Called with the lock held, which it releases to report the failure."""
        self.failed += 1
        engine = self.engine
        if not isinstance(error, Exception):
            self.slot_freed()
            engine.fail(self, attempt.root, error)
            return
        count = self.failed
        verdict = self.tally.verdict()
        if verdict is not None:
            failure = RuntimeError(f"The pipeline stage ({self.info}) {verdict}.")
            failure.__cause__ = error
            engine.fail(self, attempt.root, failure)
        engine.release_to_user()
        interrupt: BaseException | None = None
        try:
            origins = engine.lineage.locate(attempt.root)
            item = engine.quarantine.add(self.name, origins, attempt.item, error, attempt.number)
            report_failed_item(item, error, count, self.policy.on_failure)
        except BaseException as raised:  # noqa: BLE001 - a KeyboardInterrupt of the callback's, say.
            interrupt = raised
        engine.lock.acquire()
        # The exception holds the op's frames, and these what the user made: that is dropped without the lock.
        engine.rubbish += (attempt, error)
        if interrupt is not None:
            engine.fail(self, attempt.root, interrupt)
        self.end(attempt.root, attempt.ticket)


class DisaggregateNode(FunctionNode):
    """Passes on the elements of each item one by one."""

    adjustable = False

    __slots__ = ()

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(engine, name, iter, 1, expand=True)
