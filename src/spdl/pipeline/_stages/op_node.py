"""Stages that call an op, wherever it runs: their items, their timeouts, and the outcomes of the calls."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._declare.records import DEFAULT_POLICY, FailurePolicy, OnTimeout
from spdl.pipeline._engine.cancellation import current_task, end_cancellation, not_cancelled, raise_cancellation
from spdl.pipeline._engine.channel import AHEAD, MARK, Order, Ticket
from spdl.pipeline._engine.node import LAZY_TYPES, Attempt, Node
from spdl.pipeline._report.failures import Tally, log_error, show_logging_error
from spdl.pipeline._report.threads import stack_of
from spdl.pipeline._state.origins import Result, Results, Root
from spdl.pipeline._world import monotonic, perf_counter

if TYPE_CHECKING:
    from asyncio import Task

    from spdl.pipeline._engine.budget import Budget
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.workers import Awaited

_LOG = logging.getLogger("spdl.pipeline")


class Watch:
    """An op under way that has a deadline."""

    __slots__ = ("abandoned", "attempt", "cancel", "deadline", "ended", "thread")

    def __init__(
        self, attempt: Attempt, *, cancel: Callable[[Watch], object] | None = None, thread: int | None = None
    ) -> None:
        self.attempt = attempt
        self.deadline = inf
        # Ends the op, if there is a way. The op may have ended by itself in the meantime.
        self.cancel = cancel
        self.ended = False
        # The thread that it keeps to itself.
        self.thread = thread
        self.abandoned = False


class Timeout:
    """The deadlines of one stage's ops. All have the same timeout, so they fall due in the order of their start.

    An async generator has a deadline for each result, and none while it waits for a place for one.

    Guarded by the engine's lock.
    """

    def __init__(self, node: OpNode, seconds: float, on_timeout: OnTimeout) -> None:
        self._node = node
        self._seconds = seconds
        self._on_timeout = on_timeout
        # The ops under way, in the order of their start. One that takes long does not keep ended ones here.
        self._watches: dict[Watch, None] = {}
        self._armed = False

    def begin(self, attempt: Attempt, *, thread: int | None = None) -> Watch:
        watch = Watch(attempt, thread=thread)
        self.resume(watch)
        return watch

    def resume(self, watch: Watch) -> None:
        watch.deadline = monotonic() + self._seconds
        self._watches[watch] = None
        self._arm()

    def pause(self, watch: Watch) -> bool:
        """Note that an op is not at work for now. Return whether its outcome still counts."""
        self._watches.pop(watch, None)
        return not watch.abandoned

    def end(self, watch: Watch) -> bool:
        """Note that an op has returned. Return whether its outcome still counts."""
        watch.ended = True
        self._node.engine.drops.append(watch)
        return self.pause(watch)

    def let_go(self) -> list[Watch]:
        watches, self._watches = list(self._watches), {}
        return watches

    def _arm(self) -> None:
        if not self._armed and self._watches:
            self._armed = True
            first = next(iter(self._watches))
            self._node.engine.timer.after(max(0.0, first.deadline - monotonic()), self._fall_due)

    def _fall_due(self) -> None:
        self._armed = False
        now = monotonic()
        while self._watches and (watch := next(iter(self._watches))).deadline <= now:
            del self._watches[watch]
            self._overdue(watch)
        self._arm()

    def _overdue(self, watch: Watch) -> None:
        node = self._node
        engine = node.engine
        node.note_overdue()
        drop = self._on_timeout == "drop" and not node.cancelled
        if drop:
            watch.abandoned = True
        engine.lock.release()
        stack = stack_of(watch.thread)
        try:
            _LOG.warning(
                "Stage %r has worked on %s for more than %g seconds%s.%s",
                node.name,
                engine.lineage.describe(watch.attempt.root),
                self._seconds,
                ", which is abandoned" if drop else "",
                stack,
            )
        except Exception:  # noqa: BLE001 - a broken log handler must not keep the timer from its work.
            show_logging_error()
        finally:
            engine.lock.acquire()
            # The op may have ended in the meantime, and all others have let go of its item.
            engine.drops.append(watch)
        # `stop` reports ops that do not end.
        if not drop or engine.stopping:
            return
        if watch.cancel is not None:
            watch.cancel(watch)
        elif node.on_workers:
            engine.replace_worker(node, watch.attempt.root, stack)
        error = TimeoutError(f"The op took more than {self._seconds:g} seconds.{stack}")
        node.give_up(watch.attempt, error)


async def run_awaited(node: OpNode, attempt: Attempt, awaited: Awaited) -> None:
    """Await a coroutine, or exhaust an async generator, and pass its results on. It holds a slot of ``node``."""
    engine = node.engine
    if engine.stopping:
        _leave(awaited)
        return
    if isinstance(awaited, AsyncGeneratorType):
        # The generator may keep its item or drop it, so the failed item is shown by the generator's name.
        attempt = Attempt(engine.lineage.expand(attempt.root), awaited, attempt.ticket, attempt.number)
    task = current_task()
    watch = None if node.timeout is None else _watch(node, attempt, task)
    begin = perf_counter()
    error: BaseException | None = None
    value = None
    try:
        if isinstance(awaited, AsyncGeneratorType):
            await _exhaust(node, attempt, awaited, watch)
        else:
            if watch is not None and node.timeout is not None:
                with engine.lock:
                    node.timeout.resume(watch)
                if engine.stopping:
                    # The stop came while its time began.
                    _leave(awaited)
                    return
            value = await awaited
        if task.cancelling():
            await raise_cancellation(task)
    except BaseException as raised:
        if engine.is_over():
            raise
        if task.cancelling():
            await end_cancellation(task)
        error = raised
    # Waiting for the lock does not count as the op's time.
    seconds = perf_counter() - begin
    try:
        with engine.lock:
            _conclude(node, attempt, awaited, watch, value=value, error=error, seconds=seconds)
    finally:
        # Its traceback holds this frame, and the frame must not hold it.
        error = None


def _leave(awaited: Awaited) -> None:
    """Do not begin a call that came too late."""
    if isinstance(awaited, CoroutineType):
        # Python would complain that it was never awaited.
        awaited.close()


def _conclude(
    node: OpNode,
    attempt: Attempt,
    awaited: Awaited,
    watch: Watch | None,
    *,
    value: Any,
    error: BaseException | None,
    seconds: float,
) -> None:
    """Handle the outcome of a coroutine, or the end of an async generator. Called with the lock held."""
    engine = node.engine
    node.counters.ran_on_loop(seconds)
    if error is None and not isinstance(awaited, AsyncGeneratorType):
        node.counters.succeeded(seconds)
    else:
        # An async generator's results were its tasks.
        node.counters.did_not_succeed(seconds)
    if node.on_loop and node.queue and engine.event_loop is not None:
        # The server that took the item may have ended long ago, and no other part knows of the slot.
        engine.event_loop.wake()
    if watch is not None and node.timeout is not None and not node.timeout.end(watch):
        # It was given up: its result or exception is dropped with the caller's frame, without the lock.
        pass
    elif error is not None and isinstance(awaited, AsyncGeneratorType):
        # It is not tried again, which would repeat results that it has passed on.
        node.give_up(attempt, not_cancelled(error))
    elif error is not None:
        node.fail(attempt, not_cancelled(error))
    elif isinstance(awaited, AsyncGeneratorType):
        # If the stage was given up it may have had more results.
        if not (node.cancelled or engine.stopping):
            node.generator_ended()
        node.end(attempt.root, attempt.ticket)
    else:
        node.finish(attempt, value)
    engine.concluded()
    if engine.drops:
        engine.drop_deferred()


def _watch(node: OpNode, attempt: Attempt, task: Task[Any]) -> Watch:
    event_loop = node.engine.event_loop
    assert event_loop is not None

    def cancel(watch: Watch) -> None:
        # Once the op has ended, the task may be at another item.
        event_loop.post(lambda: None if watch.ended else event_loop.cancel(task))

    return Watch(attempt, cancel=cancel)


async def _exhaust(node: OpNode, attempt: Attempt, results: AsyncGeneratorType[Any, Any], watch: Watch | None) -> None:
    ticket, root = attempt.ticket, attempt.root
    assert isinstance(root, Results)
    # It is asked for a result when that has a place to go, as other generators are.
    try:
        while await _has_place(node, ticket, watch) and not node.engine.stopping:
            begin = perf_counter()
            try:
                value = await anext(results)
            except StopAsyncIteration:
                return
            seconds = perf_counter() - begin
            with node.engine.lock:
                node.step_succeeded(seconds)
                if watch is not None and node.timeout is not None and not node.timeout.pause(watch):
                    break
                if node.cancelled or node.engine.stopping:
                    break
                node.pass_on(ticket, root, value)
                node.engine.progressed()
            del value
    finally:
        if results.ag_frame is not None:
            await _close(node, results)


async def _close(node: OpNode, generator: AsyncGeneratorType[Any, Any]) -> None:
    """Close an async generator whose other results are not wanted. An exception from it is logged."""
    event_loop = node.engine.event_loop
    assert event_loop is not None
    try:
        await event_loop.close(generator)
    except Exception as error:  # noqa: BLE001 - its item's fate is settled.
        log_error(error, "Stage %r: %s raised when it was closed", node.name, generator.__qualname__)


async def _has_place(node: OpNode, ticket: Ticket | None, watch: Watch | None) -> bool:
    """Wait until one more result has a place to go, and start to watch. Return False if none is wanted."""
    engine = node.engine
    assert engine.event_loop is not None
    # It makes nothing until it is asked on, so others may.
    with engine.lock:
        node.note_awaiting_room(1)
        if engine.budget is not None:
            engine.budget.freed()
            engine.progressed()
    waits = True
    try:
        while True:
            with engine.lock:
                if node.cancelled or engine.stopping:
                    return False
                if node.may_emit(ticket):
                    node.note_awaiting_room(-1)
                    waits = False
                    if watch is not None and node.timeout is not None:
                        node.timeout.resume(watch)
                    return True
                node.want_room()
                room = engine.event_loop.wait_for_room()
            await room
    finally:
        if waits:
            with engine.lock:
                node.note_awaiting_room(-1)


class Parked(NamedTuple):
    """A generator between two turns. It keeps its slot."""

    root: Results
    iterator: Iterator[Any]
    ticket: Ticket | None


class OpNode(Node):
    """A stage that calls ``op(item)``.

    The call's result decides what follows: a value moves on, None drops the item, a generator is advanced by one
    result per turn, a coroutine or an async generator is handed to the event loop. So lambdas, partials and callable
    objects that return one of these need no declaration.
    """

    __slots__ = ("awaiting_room", "due", "expand", "parked", "policy", "timeout")

    adjustable = True
    # True if the thread that takes an item calls the op right away, on the same thread.
    calls_op_itself = True
    # True if each result of a generator counts as a task.
    steps_are_tasks = True
    makes_items = True

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[Any], Any],
        concurrency: int,
        *,
        order: Order | None = None,
        expand: bool = False,
        policy: FailurePolicy = DEFAULT_POLICY,
    ) -> None:
        super().__init__(engine, name, op, concurrency)
        self.policy = policy
        self.tally = engine.failures.tally if policy.max_failures is None else Tally(policy.max_failures)
        self.tally.add(self.counters)
        self.order = order
        # The result is an iterator whatever its type.
        self.expand = expand
        self.timeout = None if policy.timeout is None else Timeout(self, policy.timeout, policy.on_timeout)
        self.plain = not expand and not policy.retries and self.timeout is None
        self.parked: deque[Parked] = deque()
        # How many async generators wait for room.
        self.awaiting_room = 0
        # Items whose next attempt is due. They kept their slots and so their places in the output.
        self.due: deque[Attempt] = deque()

    def ready(self) -> bool:
        if self.due or (self.parked and self._can_advance()):
            return True
        return self.can_start()

    def can_start(self) -> bool:
        """Return whether an op could start on the first item, or the end of an epoch could be passed on."""
        if not self.queue or self.cancelled:
            return False
        if self.queue[0] is MARK:
            return not self.running and self.has_room(0)
        return self.admits()

    def under_way(self) -> int:
        # A generator between two results asks for a place when it continues.
        return self.running - len(self.parked)

    def in_ops(self) -> int:
        return self.running - len(self.parked) - self.awaiting_room

    def note_awaiting_room(self, change: int) -> None:
        self.awaiting_room += change

    def _can_advance(self) -> bool:
        if self.order is None:
            return self.may_emit(None)
        return any(self.may_emit(parked.ticket) for parked in self.parked)

    def may_emit(self, ticket: Ticket | None) -> bool:
        """Return whether one more result of the item with this ticket has a place to go."""
        under_way = self.running - len(self.parked)
        if ticket is None:
            # When the concurrency is lowered, more may be under way than there is room for; it waits here itself.
            return self.has_room(min(under_way, self.concurrency))
        assert self.order is not None
        # The head's results move on; the others' results wait in their tickets.
        if self.order.is_head(ticket):
            return self.has_room(0)
        guard = self.output.guard
        return self.order.buffered + under_way < self.concurrency + AHEAD and (
            guard is None or guard.admits(self.output)
        )

    def goes_on_elsewhere(self) -> bool:
        # If the order is kept, one of the waiting tickets is the head, or else the head would be in its op.
        waits = self.awaiting_room > 0 and (self.may_emit(None) if self.order is None else self.has_room(0))
        return waits or super().goes_on_elsewhere()

    def drained(self) -> bool:
        return not self.queue and not self.running and not self.parked

    def discard(self) -> list[Any]:
        dropped = super().discard()
        dropped += [parked.iterator for parked in self.parked]
        for resting in (self.parked, self.due):
            dropped += resting
            if not self.on_loop:
                self.engine.remove_turns(len(resting))
            self.running -= len(resting)
            resting.clear()
        return dropped

    def give_up_work(self) -> bool:
        if not super().give_up_work():
            return False
        if self.order is not None:
            # Finished results that have waited for earlier ones. If this is the stage that failed, they move on.
            finished = self.order.give_up()
            if self.next is not None and self.next.cancelled:
                self.engine.drops.extend(finished)
            else:
                for entry in finished:
                    self.engine.emit(self, entry)
        return True

    def let_go(self) -> list[Any]:
        policy, self.policy = self.policy, DEFAULT_POLICY
        waiting = [] if self.order is None else self.order.let_go()
        watches = [] if self.timeout is None else self.timeout.let_go()
        return [*super().let_go(), policy, *waiting, *watches]

    def turn(self) -> None:
        if self.due:
            self.engine.remove_turns()
            self.attempt(self.due.popleft())
            return
        parked = self._take_parked() if self.parked else None
        if parked is not None:
            self.advance(parked)
        elif self.at_mark():
            self.pass_mark()
        else:
            self.start()

    def start(self, root: Root | None = None, hand: list[Any] | None = None) -> Node:
        assert root is None
        assert hand is None
        self.attempt(self.take())
        return self

    def attempt(self, attempt: Attempt) -> None:
        """Run the op on an item, or have it run. Called and returns with the lock held."""
        raise NotImplementedError

    def advance(self, parked: Parked) -> None:
        """Ask a generator for one more result. Called and returns with the lock held."""
        raise NotImplementedError

    def _take_parked(self) -> Parked | None:
        if not self.parked or not self._can_advance():
            return None
        self.engine.remove_turns()
        for index, parked in enumerate(self.parked):
            if self.may_emit(parked.ticket):
                del self.parked[index]
                return parked
        raise AssertionError("A parked generator that could advance is gone.")

    def take(self) -> Attempt:
        root, item = self.dequeue()
        self.slot_taken()
        return Attempt(root, item, None if self.order is None else self.order.admit(), 1)

    def deliver(self, root: Root, ticket: Ticket | None, value: Any) -> None:
        """Pass on the only result of an item. Called with the lock held."""
        self.result_made()
        if self.engine.budget is not None:
            self.engine.budget.note(self.output, root, value)
        if ticket is None:
            # The result takes over its item's place in the lineage.
            self.engine.emit(self, (root, value))
        else:
            assert self.order is not None
            finished = self.order.finish(ticket, (root, value))
            for entry in finished:
                self.engine.emit(self, entry)
            # More items may begin than the one that takes this slot: as many as there were finished tickets after it.
            if finished and self.wants_room and self.engine.event_loop is not None:
                self.engine.event_loop.wake()

    def result_made(self) -> None:
        counters = self.counters
        counters.completed += 1
        counters.emitted += 1
        self.running -= 1
        if not counters.waiting_since and not self.queue:
            counters.slot_freed(0)

    def note_overdue(self) -> None:
        self.counters.overdue += 1

    def slot_freed(self) -> None:
        super().slot_freed()
        # The place of a result that does not come, or a ticket's turn, may be what an async generator waits for.
        if self.wants_room and self.engine.event_loop is not None:
            self.engine.event_loop.wake()

    def generator_ended(self) -> None:
        self.counters.completed += 1
        # Its results were its tasks.
        self.counters.steps -= self.steps_are_tasks

    def changed_counts(self) -> bool:
        # A generator's results are counted as they come.
        return super().changed_counts() or self.counters.emitted != self.counters.completed

    def is_lazy(self, value: Any) -> bool:
        return self.expand or type(value) in LAZY_TYPES

    def finish(self, attempt: Attempt, value: Any) -> None:
        if self.cancelled or self.engine.stopping:
            self.engine.drops.append(value)
            self.slot_freed()
        elif self.expand or type(value) in LAZY_TYPES:
            self.await_results(attempt, value)
        elif value is None:
            self.counters.completed += 1
            self.counters.dropped += 1
            if self.engine.budget is not None:
                self.engine.budget.note_nothing(self.output)
            self.end(attempt.root, attempt.ticket)
        else:
            self.deliver(attempt.root, attempt.ticket, value)

    def await_results(self, attempt: Attempt, value: Any) -> None:
        # From now on its ops take the way that knows generators.
        self.plain = False
        if type(value) is CoroutineType or type(value) is AsyncGeneratorType:
            self.engine.start_event_loop().adopt(value, partial(run_awaited, self, attempt, value))
        else:
            self.parked.append(Parked(self.engine.lineage.expand(attempt.root), value, attempt.ticket))
            self.engine.add_turns()

    def park(self, parked: Parked, value: Any) -> None:
        if self.cancelled or self.engine.stopping:
            self.engine.drops.extend((parked.iterator, parked, value))
            self.slot_freed()
            return
        self.counters.steps += self.steps_are_tasks
        self.pass_on(parked.ticket, parked.root, value)
        self.parked.append(parked)
        self.engine.add_turns()

    def step_succeeded(self, seconds: float) -> None:
        """Count a result of an async generator. Called with the lock held."""
        counters = self.counters
        counters.note_success(seconds)
        counters.steps += 1
        # The time of the whole generator is added up at its end, to both.
        counters.other_seconds -= seconds

    def pass_on(self, ticket: Ticket | None, results: Results, value: Any) -> None:
        """Pass on one of several results of an item, unless it is None. Called with the lock held."""
        if value is None:
            self.counters.dropped += 1
        elif (root := results.next_result()) is None:
            # An earlier run has delivered it.
            self.engine.drops.append(value)
        else:
            self.emit(ticket, root, value)

    def emit(self, ticket: Ticket | None, root: Root, value: Any) -> None:
        self.counters.emitted += 1
        if self.engine.budget is not None:
            self.note_result(self.engine.budget, root, value)
        if ticket is None:
            self.engine.emit(self, (root, value))
        else:
            assert self.order is not None
            for entry in self.order.add(ticket, (root, value)):
                self.engine.emit(self, entry)

    def note_result(self, budget: Budget, root: Root, value: Any) -> None:
        """Note the weight of one of several results of an item. Called with the lock held."""
        if self.makes_items:
            budget.note(self.output, root, value)
        elif isinstance(root, Result):
            budget.note_part(root.results.parents[0], root, value)

    def end(self, root: Root, ticket: Ticket | None) -> None:
        if not (self.engine.stopping or self.cancelled):
            # Otherwise it might have had more results, or it failed because of the end: a resumed run tries it again.
            self.engine.lineage.drop(root)
        self._complete(ticket)

    def _complete(self, ticket: Ticket | None) -> None:
        if ticket is not None and not self.engine.stopping:
            assert self.order is not None
            for entry in self.order.complete(ticket):
                self.engine.emit(self, entry)
        self.slot_freed()

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        """Try an item whose op raised again, later, or give it up. Called with the lock held."""
        policy = self.policy
        if isinstance(error, Exception) and attempt.number <= policy.retries and not self.cancelled:
            self.counters.retried += 1
            self.engine.drops.append(error)
            following = attempt._replace(number=attempt.number + 1)
            # A delay of 0 may have any number of retries; no float holds 2 to the power of 1024.
            delay = policy.retry_delay * 2.0 ** min(attempt.number - 1, 1023)
            self.engine.timer.after(delay, lambda: self._resume(following))
        else:
            self.give_up(attempt, error)

    def _resume(self, attempt: Attempt) -> None:
        if self.cancelled:
            self.engine.drops.append(attempt)
            self.slot_freed()
        else:
            self.due.append(attempt)
            self.engine.has_work(self)

    def give_up(self, attempt: Attempt, error: BaseException) -> None:
        """Drop an item for good. Called with the lock held, which it releases to report the failure."""
        self.counters.failed += 1
        engine = self.engine
        if not isinstance(error, Exception):
            self.slot_freed()
            engine.drops.append(attempt)
            engine.fail(self, attempt.root, error)
            return
        report = partial(engine.report, self, attempt, error, self.counters.failed, self.policy.on_failure)
        self.report_failure(attempt.root, error, report)
        engine.drops.append(attempt)
        self.end(attempt.root, attempt.ticket)
        if self.on_loop and self.queue and engine.event_loop is not None:
            # The loop may have looked in the meantime, when the slot was not free yet.
            engine.event_loop.wake()
