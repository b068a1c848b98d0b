"""Stages whose op runs in a ProcessPoolExecutor of the user's."""

from __future__ import annotations

import contextlib
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._cores import available_cores
from spdl.pipeline._nodes.function import FunctionNode

from .base import ExecutorNode
from .process_work import Done, pack, work, wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from spdl.pipeline._engine.attempt import Attempt
    from spdl.pipeline._nodes.timeouts import Watch

    from .process_work import Raised, Report

__all__ = ["ProcessPoolNode", "warm"]

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

    # A generator is run to its end where the op is: an item is one task, whatever comes of it.
    steps_are_tasks = False

    __slots__ = ("handed_over", "item_seconds", "max_handed_over", "processes", "returned")

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
            # The results of a generator, which came back all at once: a thread of ours takes them one by one.
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
        """The items of the next hand-over."""
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
                _add_note(raised, "The item could not be pickled, to be sent to a process of the executor.")
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
        """Hand items that have come back as they were over again, before all others. Called with the lock held."""
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
    would be copied as they stand.

    Raises:
        TypeError: If the op cannot be sent to another process: no item could succeed.
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
        _add_note(error, "The result came back from a process of the executor and could not be unpickled.")
        return None, False, error


def _add_note(error: BaseException, note: str) -> None:
    # A class of the user's may have its own idea of notes.
    with contextlib.suppress(Exception):
        BaseException.add_note(error, note)


def _nothing() -> None:
    return
