"""Sends what a worker's pipeline delivers, and all else that is to be told of it."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._declare.failed_item import FailedItem
from spdl.pipeline._engine.groups import Group
from spdl.pipeline._engine.item_contexts import without_context
from spdl.pipeline._engine.sentinel import EPOCH_END
from spdl.pipeline._failures.quarantine import Quarantine
from spdl.pipeline._metrics.extract import extract
from spdl.pipeline._regions.messages import Failure, Fault, Report
from spdl.pipeline._transport.signals import ItemNotSent
from spdl.pipeline._world import Lock, perf_counter

from .names import name_of_result, numbers_of
from .place import fault_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine.attempt import Attempt
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._regions.messages import AnyRaised, Load, Name

    from .feed import Feed
    from .lines import Lines
    from .place import WorkersEnd

__all__ = ["Outbox", "Telling"]

# Seconds that results wait for others, to cross together.
_TOGETHER = 2e-4


class Telling(NamedTuple):
    """How much is told at once, and how often.

    Attributes:
        most: How many results are sent at once, at most.
        every: Seconds between two looks at the counters.
        load: Measures what the worker uses of the CPU, if that is to be told with the counters.
    """

    most: int
    every: float
    load: Callable[[], Load] | None


class Outbox:
    """Reads a pipeline to its end and sends reports.

    Args:
        engine: The pipeline's engine.
        stages: Its stages, in the order of their places.
        feed: Its source.
        end: The connection.
        telling: How much is told at once, and how often.
        lines: What the pipeline logs.
        wrap: Makes exceptions fit to leave the worker.
    """

    def __init__(
        self,
        engine: Engine,
        stages: list[Node],
        feed: Feed,
        end: WorkersEnd,
        telling: Telling,
        *,
        lines: Lines,
        wrap: Callable[[BaseException], AnyRaised],
    ) -> None:
        self._engine = engine
        self._stages = stages
        self._places = {stage: place for place, stage in enumerate(stages)}
        self._feed = feed
        self._end = end
        self._telling = telling
        self._lines = lines
        self._wrap = wrap
        self._quarantine = Quarantine()
        # Both are filled by the pipeline's threads.
        self._gone: deque[int] = deque()
        self._failures: deque[Failure] = deque()
        # Items that could not be unpickled: nothing is left of them.
        self._unread: deque[int] = deque()
        self._told_at = 0.0
        # How long the slowest stage had worked at the last report, divided by its slots.
        self._worked = 0.0
        # Something may have been counted since the counters were told.
        self._untold = True
        # Opened to end a wait for more results, and whether there is one.
        self._waits_for_more = False
        self._alarm = Lock()
        self._alarm.acquire()
        # The ends of epochs that are still to come, and whether the last of them ends all.
        self._marks = 0
        self._ends = False
        engine.lineage.watch(self._note_gone)
        engine.failures.tell(self._note_failure)
        feed.wake_by(self._wake)

    def tell_begun(self) -> None:
        """Say that the worker has begun. Called before it takes an item: it may die of that."""
        self._send(*self._collect())

    def run(self) -> None:
        """Send reports until the pipeline fails, or is asked to stop."""
        while not self._engine.stopping:
            self._await_news()
            self._await_more()
            if self._engine.stopping:
                return
            report, values = self._collect()
            self._send(report, values)
            self._untold = report.counters is None
            if report.faults or (report.ended and self._ends and not self._marks):
                return

    def expect_mark(self, *, last: bool) -> None:
        """Note that the end of an epoch will come, and whether all ends with it."""
        self._marks += 1
        self._ends = last

    def _wake(self) -> None:
        if self._waits_for_more:
            self._waits_for_more = False
            with suppress(RuntimeError):
                self._alarm.release()
        self._wake_from_nothing()

    def _wake_from_nothing(self) -> None:
        if self._engine.sink.readers:
            self._engine.sink.wake_readers()

    def _note_gone(self, position: int) -> None:
        self._gone.append(position)
        self._wake_from_nothing()

    def _note_failure(self, node: Node, attempt: Attempt, error: Exception) -> None:
        failed = self._quarantine.add(
            node.name, [], "", item=without_context(attempt.item), error=error, attempts=attempt.number
        )
        items = numbers_of(attempt.root, self._feed.number_of)
        self._failures.append(Failure(self._places.get(node), items, failed, self._wrap(error)))

    def note_unreadable(self, number: int, error: Exception) -> None:
        """Tell that an item could not be unpickled."""
        self._failures.append(self._lost([number], "The item could not be unpickled in the worker", error))
        self._unread.append(number)
        self._wake()

    def _lost(self, items: list[int], why: str, error: BaseException) -> Failure:
        failure = RuntimeError(f"{why}: {type(error).__name__}: {error}")
        failure.__cause__ = error
        failed = FailedItem("", (), (), "", "?", f"RuntimeError: {failure}", "", 1)
        return Failure(None, items, failed, self._wrap(failure))

    def _has_news(self) -> bool:
        engine = self._engine
        if (
            engine.sink.entries
            or self._gone
            or self._failures
            or self._unread
            or self._lines.lines
            or self._feed.is_to_be_told()
        ):
            return True
        return engine.done or engine.stopping

    def _await_news(self) -> None:
        engine = self._engine
        gate = Lock()
        gate.acquire()
        with engine.lock:
            if self._has_news():
                return
            engine.found_nothing()
            engine.sink.readers.append(gate)
            # Some of it comes without the lock, from threads that may have looked for readers before.
            runs = any(node.running for node in engine.nodes)
            if not self._has_news():
                engine.lock.release()
                try:
                    gate.acquire(timeout=self._telling.every if runs or self._untold else -1)
                finally:
                    engine.lock.acquire()
            if gate in engine.sink.readers:
                engine.sink.readers.remove(gate)

    def _await_more(self) -> None:
        """Wait a moment if more results come at once: each message costs, here and there."""
        if len(self._engine.sink.entries) < self._telling.most and self._feed.has_more():
            self._waits_for_more = True
            # Looked at afterwards: whoever takes the next item looks at the other one then.
            if not self._feed.is_to_be_told() and not self._failures:
                self._alarm.acquire(timeout=_TOGETHER)
            self._waits_for_more = False
            # It may have been opened too late.
            self._alarm.acquire(blocking=False)

    def _collect(self) -> tuple[Report, list[Any]]:
        engine = self._engine
        sink, lineage = engine.sink, engine.lineage
        names: list[Name] = []
        values: list[Any] = []
        # What the pipeline did before this is known to be gone when its results have been taken.
        over = engine.done
        ended = False
        while len(values) < self._telling.most and not ended:
            try:
                root, value = sink.entries.popleft()
            except IndexError:
                break
            if root is EPOCH_END:
                engine.ends.count()
                ended = True
                self._marks -= 1
            else:
                names.append(name_of_result(root, self._feed.number_of))
                values.append(value)
                if isinstance(root, Group):
                    with engine.lock:
                        lineage.deliver(root)
                else:
                    lineage.deliver_position(root)
            if sink.full:
                with engine.lock:
                    engine.room_in_sink()
        done = self._take_gone()
        failures = _take_all(self._failures)
        now = perf_counter()
        counters = load = None
        if ended or failures or over or now - self._told_at >= self._telling.every:
            self._told_at = now
            counters = [extract(stage.counters, stage.running, stage.concurrency) for stage in self._stages]
            load = None if self._telling.load is None else self._telling.load()
        faults = self._faults() if over and not (sink.entries or values) else []
        lines = _take_all(self._lines.lines)
        taken, seconds = self._feed.tell(), self._take_seconds()
        return Report(names, failures, done, taken, seconds, counters, load, ended, faults, lines), values

    def _take_seconds(self) -> float:
        worked = max((it.counters.busy_seconds / max(1, it.concurrency) for it in self._stages), default=0.0)
        # With more slots it would count less than before.
        seconds = max(0.0, worked - self._worked)
        self._worked = worked
        return seconds

    def _take_gone(self) -> list[int]:
        return [*map(self._feed.forget, _take_all(self._gone)), *_take_all(self._unread)]

    def _faults(self) -> list[Fault]:
        faults = []
        for name, error in self._engine.failures.stages:
            place = next((self._places[stage] for stage in self._stages if stage.name == name), None)
            faults.append(fault_of(place, error, self._wrap))
        return faults or [fault_of(None, RuntimeError("The pipeline in the worker has ended."), self._wrap)]

    def _send(self, report: Report, values: list[Any]) -> None:
        while True:
            try:
                self._end.send([report, *values])
            except ItemNotSent as unsent:
                if not unsent.index:
                    raise
                place = unsent.index - 1
                name, value = report.names.pop(place), values.pop(place)
                items = [name] if isinstance(name, int) else list(name[:1]) if isinstance(name, tuple) else name
                why = f"The result, of type {type(value).__qualname__}, could not be pickled to leave the worker"
                report.failures.append(self._lost(items, why, unsent.__cause__ or unsent))
            else:
                return


def _take_all(source: deque[Any]) -> list[Any]:
    taken = []
    while True:
        try:
            taken.append(source.popleft())
        except IndexError:
            return taken
