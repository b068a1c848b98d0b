"""Stages whose op runs in a user's executor."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import partial, update_wrapper
from types import FunctionType
from typing import Any, NamedTuple

from spdl._cores import available_cores
from spdl._counted import bytes_of_thread
from spdl.pipeline._engine.cancellation import Abandoned
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.letting_go import drop_all
from spdl.pipeline._engine.lifetime import end_forked_child
from spdl.pipeline._engine.node import Attempt
from spdl.pipeline._engine.workers import called_elsewhere
from spdl.pipeline._report.failures import note_once
from spdl.pipeline._stages.function import FunctionNode
from spdl.pipeline._stages.op_node import OpNode, Parked, Watch
from spdl.pipeline._stages.pools import PriorityExecutorEntrypoint
from spdl.pipeline._stages.process_work import Done, Raised, Report, pack, work, wrap
from spdl.pipeline._state.origins import Root
from spdl.pipeline._world import Condition, count_unfinished, get_ident, monotonic, perf_counter


class ExecutorNode(OpNode):
    """The common part of stages on executors. Subclasses decide which items are handed over, and when.

    Callbacks of futures run wherever the executor pleases, so they take note and wake a worker. They never raise, and
    run no user code but the finalizers of what the last one of an ended pipeline lets go of.
    """

    __slots__ = ("all_landed", "executor", "futures")

    calls_op_itself = False
    on_workers = False
    slots_are_places = True

    def __init__(self, *args: Any, executor: Executor, **options: Any) -> None:
        super().__init__(*args, **options)
        self.plain = False
        self.executor: Executor | None = executor
        # Calls that have not come back, and where their items came from if that is known.
        self.futures: dict[Future[Any], Sequence[Root]] = {}
        # Notified when the last call has returned to a pipeline that stops.
        self.all_landed = Condition(self.engine.lock)

    def hand_over(
        self,
        roots: Sequence[Root],
        landed: Callable[[Future[Any]], None],
        function: Callable[..., Any],
        *values: Any,
    ) -> bool:
        """Submit a call, and return whether it was submitted. Called without the lock, returns with it.

        The callback is called with the lock held. An executor that refuses fails the pipeline, and is not asked if that
        was asked to stop.
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
            # The thread that has stopped the pipeline in the meantime may shut the executor down.
            if not engine.stopping:
                engine.fail(self, None, error)
            return False
        self.futures[future] = roots
        # A call that is cancelled stays with the executor, and keeps its callbacks, until the executor comes to it.
        future.add_done_callback(partial(self._done, [landed]))
        del future
        engine.lock.acquire()
        return True

    @called_elsewhere
    def _done(self, once: list[Callable[[Future[Any]], None]], future: Future[Any]) -> None:
        engine = self.engine
        landed = once.pop()
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

    def awaits_calls(self) -> bool:
        return bool(self.futures)

    def await_calls(self, seconds: float) -> int:
        deadline = monotonic() + seconds
        unfinished = await_calls(list(self.futures), seconds)
        # The thread that waits for a future continues before its callbacks are called.
        with self.engine.lock:
            while self.futures and (left := deadline - monotonic()) > 0:
                self.all_landed.wait(left)
        return unfinished


def await_calls(futures: Iterable[Future[Any]], seconds: float) -> int:
    """Cancel calls that have not begun, wait for the others, and return how many still run after that many seconds."""
    # `wait` would count as under way what was cancelled, until the executor comes to it: after other work of the
    # user's, or never.
    begun = [future for future in futures if not future.cancel()]
    return count_unfinished(begun, max(0.0, seconds))


class LocalCall:
    """Calls a function, and marks the thread as the pipeline's own in the meantime.

    So an op that stops its pipeline, or reads it, does not wait for itself. It is not known in advance whether an
    executor's calls run in this process. If it was pickled, to be sent elsewhere, it arrives as the function alone and
    needs nothing of this package.
    """

    def __init__(self, engine: Engine, function: Callable[[Any], Any]) -> None:
        self.engine = engine
        self._function = function
        # Its duration in seconds; None if it has not run here.
        self.seconds: float | None = None
        # The bytes that it has read from stores.
        self.bytes_read = 0
        # Executors show their calls by name. Another callable may run user code when it is asked.
        if isinstance(function, FunctionType):
            update_wrapper(self, function, updated=())

    @called_elsewhere
    def __call__(self, value: Any) -> Any:
        if self.engine.stopping:
            # The result is no longer needed.
            return None
        # The thread's reads for others do not count.
        bytes_of_thread()
        begin = perf_counter()
        try:
            return self._function(value)
        finally:
            if self.engine.forked:
                end_forked_child(self.engine, sys.exc_info()[1])
            self.seconds = perf_counter() - begin
            self.bytes_read = bytes_of_thread()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial, (self._function,)


class _ExecutorResult(NamedTuple):
    """A result that came back from the executor, and the work it belongs to."""

    work: Attempt | Parked
    future: Future[Any]
    seconds: float


def _step(iterator: Iterator[Any]) -> tuple[Any, ...]:
    """Take a generator's next result; an empty tuple is its end, since not every future can carry a StopIteration."""
    try:
        return (next(iterator),)
    except StopIteration:
        return ()


def _remains(outcome: _ExecutorResult) -> list[Any]:
    """Return an unwanted outcome and the generator that it is about, which has to be closed."""
    work, future, _ = outcome
    if isinstance(work, Parked):
        return [work.iterator, outcome]
    if future.cancelled() or future.exception() is not None:
        return [outcome]
    return [future.result(), outcome]


class AnyExecutorNode(ExecutorNode):
    """Submits one call per item, and one per step of a generator."""

    __slots__ = ("returned",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Results that came back and were not looked at. Each holds its slot.
        self.returned: deque[_ExecutorResult] = deque()

    def ready(self) -> bool:
        return bool(self.returned) or super().ready()

    def turn(self) -> None:
        if self.returned:
            self._receive()
        else:
            super().turn()

    def attempt(self, attempt: Attempt) -> None:
        self._submit(attempt, attempt, self.op, attempt.item)

    def advance(self, parked: Parked) -> None:
        # Its item is gone, so the generator's name is shown.
        self._submit(parked, Attempt(parked.root, parked.iterator, parked.ticket, 1), _step, parked.iterator)

    def _submit(self, work: Attempt | Parked, shown: Attempt, function: Any, value: Any) -> None:
        watch = None if self.timeout is None else self.timeout.begin(shown)
        self.engine.release_to_user()
        call = LocalCall(self.engine, function)
        if not self.hand_over([work.root], partial(self._landed, work, watch, call, perf_counter()), call, value):
            self.slot_freed()
            if isinstance(work, Parked):
                self.engine.drops.append(work.iterator)
        # Others may have received the result by now, and be done with it.
        self.engine.drops.append(shown)

    def _landed(
        self, work: Attempt | Parked, watch: Watch | None, call: LocalCall, start: float, future: Future[Any]
    ) -> None:
        # If the call ran elsewhere, only the time of its submission is known.
        seconds = perf_counter() - start if call.seconds is None else call.seconds
        outcome = _ExecutorResult(work, future, seconds)
        if watch is not None and self.timeout is not None and not self.timeout.end(watch):
            self.counters.did_not_succeed(seconds)
            self.engine.drops.extend(_remains(outcome))
            return
        if self.cancelled or self.engine.stopping or not self.check_alive(future):
            self.counters.did_not_succeed(seconds)
            self.slot_freed()
            self.engine.drops.extend(_remains(outcome))
        else:
            self.returned.append(outcome)
            self.engine.has_work(self)

    def _receive(self) -> None:
        engine = self.engine
        engine.remove_turns()
        outcome = self.returned.popleft()
        work, future, seconds = outcome
        engine.release_to_user()
        value, error = None, future.exception()
        if error is None:
            value = future.result()
        engine.lock.acquire()
        engine.drops.append(outcome)
        if error is None and not (self.is_lazy(value) if isinstance(work, Attempt) else not value):
            self.counters.succeeded(seconds)
        else:
            self.counters.did_not_succeed(seconds)
        if isinstance(work, Attempt):
            if error is None:
                self.finish(work, value)
            else:
                self.fail(work, error)
        elif error is not None:
            # Trying it again would repeat results that it has passed on.
            self.give_up(Attempt(work.root, work.iterator, work.ticket, 1), error)
        elif value:
            self.park(work, value[0])
        else:
            self.generator_ended()
            self.end(work.root, work.ticket)

    def discard(self) -> list[Any]:
        dropped = [*super().discard(), *(part for outcome in self.returned for part in _remains(outcome))]
        self.engine.remove_turns(len(self.returned))
        self.running -= len(self.returned)
        self.returned.clear()
        return dropped


# Hand-overs for each process that may be under way: one that it works on, and one that waits next to it.
_HAND_OVERS_PER_PROCESS = 2

# Items share a hand-over as long as they take less than this together. Handing over takes some 200 microseconds.
_HAND_OVER_SECONDS = 0.001


class _Returned(NamedTuple):
    """A result that came back from a process, and the items it belongs to."""

    attempts: list[Attempt]
    future: Future[Report]


class ProcessPoolNode(ExecutorNode, FunctionNode):
    """Hands over as many items at a time as pays, and never waits for more of them.

    While a process has nothing to do, an item goes out alone and at once. Those that find all processes busy wait
    here, with their slots; the next hand-over takes several of them if their ops are short.

    Items and results are pickled here and in the worker, one by one, and not by the pool: one that cannot be pickled
    is then that item's failure and not the pool's end.
    """

    __slots__ = ("handed_over", "item_seconds", "max_handed_over", "processes", "returned")

    # A generator is run to its end where the op is: an item is one task, whatever comes of it.
    steps_are_tasks = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.processes = getattr(self.executor, "_max_workers", None) or max(1, int(available_cores()))
        self.max_handed_over = _HAND_OVERS_PER_PROCESS * self.processes
        self.handed_over = 0
        # Results that came back and were not looked at. Their items hold their slots.
        self.returned: deque[_Returned] = deque()
        # The time that an item takes in the worker, as seen so far.
        self.item_seconds = _HAND_OVER_SECONDS

    def warm(self) -> None:
        assert self.executor is not None
        warm(self.name, self.op, self.executor)

    def num_processes(self) -> int:
        return self.processes

    def ready(self) -> bool:
        if (
            self.returned
            or (self.due and self.handed_over < self.max_handed_over)
            or (self.parked and self._can_advance())
        ):
            return True
        return self.can_start()

    def turn(self) -> None:
        if self.returned:
            self._receive()
            return
        parked = self._take_parked()
        if parked is not None:
            # The results of a generator, which came back all at once: this thread takes them one by one.
            self.advance(parked)
            return
        engine = self.engine
        while self.can_start():
            if self.at_mark():
                self.pass_mark()
                return
            self.due.append(self.take())
            engine.add_turns()
        if self.due and self.handed_over < self.max_handed_over:
            self._send()

    def _batch(self) -> list[Attempt]:
        # A deadline counts for each item, and no share of a hand-over is worth an idle process.
        share = 1 if self.timeout is not None else -(-self.concurrency // self.max_handed_over)
        size = max(1, min(share, int(_HAND_OVER_SECONDS / max(self.item_seconds, 1e-9))))
        batch = [self.due.popleft() for _ in range(min(size, len(self.due)))]
        self.engine.remove_turns(len(batch))
        return batch

    def _send(self) -> None:
        engine = self.engine
        batch = self._batch()
        self.handed_over += 1
        # The process cannot be replaced: its op cannot be ended from here.
        watch = None if self.timeout is None else self.timeout.begin(batch[0])
        engine.release_to_user()
        attempts, items, failed = [], [], []
        for attempt in batch:
            try:
                items.append(wrap(attempt.item))
                attempts.append(attempt)
            except BaseException as raised:  # noqa: BLE001 - it cannot be sent, which is this item's failure.
                note_once(raised, "The item could not be pickled, to be sent to a process of the executor.")
                failed.append((attempt, raised))
        if not attempts:
            engine.lock.acquire()
            self.handed_over -= 1
        elif not self.hand_over(
            [attempt.root for attempt in attempts], partial(self._landed, attempts, watch), work, self.op, items
        ):
            self.handed_over -= 1
            for _ in attempts:
                self.slot_freed()
        # Others may have received the results by now, and be done with them.
        engine.drops.extend((batch, items, failed))
        for attempt, error in failed:
            if watch is None or self.timeout is None or self.timeout.end(watch):
                self.fail(attempt, error)

    def _landed(self, attempts: list[Attempt], watch: Watch | None, future: Future[Report]) -> None:
        self.handed_over -= 1
        if watch is not None and self.timeout is not None and not self.timeout.end(watch):
            return
        returned = _Returned(attempts, future)
        if self.cancelled or self.engine.stopping or not self.check_alive(future):
            for _ in attempts:
                self.slot_freed()
            self.engine.drops.append(returned)
        else:
            self.returned.append(returned)
            self.engine.has_work(self)

    def _receive(self) -> None:
        engine = self.engine
        engine.remove_turns()
        returned = self.returned.popleft()
        attempts, future = returned
        engine.release_to_user()
        error = future.exception()
        if error is None:
            outcomes, seconds, cpu, num_bytes = future.result()
            results = [_unpack(outcome) for outcome in outcomes]
            del outcomes
        else:
            # The op could not be sent, or what the pool itself could not do: no outcome for any of them.
            results, seconds = [(None, False, error)] * len(attempts), [0.0] * len(attempts)
            cpu, num_bytes = 0.0, 0
        engine.lock.acquire()
        engine.drops.extend((returned, results))
        self.counters.add_foreign(cpu, num_bytes)
        if any(seconds):
            self.item_seconds += (sum(seconds) / len(results) - self.item_seconds) / 8
        self._take_back(attempts[len(results) :])
        for attempt, (value, several, failure), taken in zip(attempts, results, seconds, strict=False):
            if failure is not None:
                self.counters.did_not_succeed(taken)
                self.fail(attempt, failure)
                continue
            self.counters.succeeded(taken)
            if several and not (self.cancelled or engine.stopping):
                self.await_results(attempt, value)
            else:
                self.finish(attempt, value)

    def _take_back(self, left: list[Attempt]) -> None:
        """Hand items that have come back undone over again, before all others. Called with the lock held."""
        if self.cancelled or self.engine.stopping:
            self.engine.drops.extend(left)
            for _ in left:
                self.slot_freed()
        elif left:
            self.due.extendleft(reversed(left))
            self.engine.add_turns(len(left))

    def discard(self) -> list[Any]:
        dropped = [*super().discard(), *self.returned]
        self.engine.remove_turns(len(self.returned))
        self.running -= sum(len(returned.attempts) for returned in self.returned)
        self.returned.clear()
        return dropped


def warm(stage: str, op: Callable[[Any], Any], executor: Executor) -> None:
    """Start a pool's processes from the thread that starts the pipeline.

    A pool that forks would do so at the first item otherwise, from a process that has threads by then; their locks
    would be copied as they stand. Raises a TypeError if the op cannot be sent there: no item could succeed.
    """
    try:
        pack(op)
    except Exception as error:
        raise TypeError(
            f"Stage {stage!r}: the op cannot be sent to the processes of its executor: {error}. Use a function "
            "that is defined at the top level of a module, or a functools.partial of one."
        ) from error
    # A pool that is broken or closed says so at the first item.
    with contextlib.suppress(Exception):
        executor.submit(_nothing).result()


def _unpack(outcome: Done | Raised) -> tuple[Any, bool, BaseException | None]:
    if not isinstance(outcome, Done):
        return None, False, outcome.unpack()
    try:
        return outcome.unpack(), outcome.several, None
    except BaseException as error:  # noqa: BLE001 - whatever unpickling calls.
        note_once(error, "The result came back from a process of the executor and could not be unpickled.")
        return None, False, error


def _nothing() -> None:
    return


# A call may continue taking items for so long; then other work of the executor has its turn.
_TURN_SECONDS = 0.001


class ThreadPoolNode(ExecutorNode, FunctionNode):
    """Has the pool's threads take items from the queue themselves.

    A worker that finds something to do submits a call. When the pool runs it, it takes what waits first, as a worker
    would, and continues while there is something, for a millisecond at most. So one submission, the costly part, may
    serve many short ops, and no item ever waits for another: as long as there is more, one more call is on its way.

    In a pool that ranks calls a thread sees to it, before it is free, that there is a call for what waits here, or it
    would begin what is less urgent. Several may be free at once, so each of them does, even if another one did.
    """

    __slots__ = ("coming", "ranked")

    # The pool's thread takes the item.
    calls_op_itself = True

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
        # If it is refused, or given up, the stage has ended, and no more will come.
        self.hand_over((), self._landed, self._serve)

    @called_elsewhere
    def _serve(self) -> None:
        engine = self.engine
        begin = perf_counter()
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
        except BaseException as error:  # noqa: BLE001 - a fault of the engine: the consumer must get an error.
            engine.crash(error)
        finally:
            if engine.forked:
                end_forked_child(engine)
            engine.page.leave(get_ident())
            engine.lock.release()

    def prepare_for_free_thread(self) -> None:
        """Submit a call if an item waits here that may have no call."""
        engine = self.engine
        if (self.ranked or not self.coming) and not engine.is_over() and FunctionNode.ready(self):
            self.turn()

    def _landed(self, future: Future[Any]) -> None:
        # The call itself raises nothing: the executor did, which has not made it, so what waits would wait forever.
        if self.check_alive(future) and (error := future.exception()) is not None:
            self.engine.fail(self, None, error)
