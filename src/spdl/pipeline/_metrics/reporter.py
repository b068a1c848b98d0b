"""The lines that a pipeline logs about its stages and queues, from the engine's counters."""

from __future__ import annotations

import contextlib
import logging
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from spdl.pipeline._engine.node import STARVED, Node

from .queue_record import QueueRecord
from .report_lines import queue_line, task_line

if TYPE_CHECKING:
    from spdl.pipeline._declare.stage_info import StageInfo
    from spdl.pipeline._engine.edge import Edge
    from spdl.pipeline._engine.engine import Engine

    from .task_record import TaskRecord

__all__ = ["QUEUES", "TASKS", "Reporter"]

TASKS = logging.getLogger("spdl.pipeline.tasks")
QUEUES = logging.getLogger("spdl.pipeline.queues")


class _Line(NamedTuple):
    logger: logging.Logger
    text: str


class _StageReport:
    """The lines on a stage's tasks."""

    logger = TASKS

    def __init__(self, stage: Node, interval: float) -> None:
        self.stage: Node | None = stage
        self.interval = interval
        self.ended = False
        self._node = stage
        self._last: TaskRecord | None = None

    def lap(self) -> str:
        """The line on what was counted since the last one."""
        record, last = self._node.task_record(), self._last
        self._last = record
        return task_line(str(self._node.info), record.total() if last is None else record.since(last))

    def total(self) -> str:
        """The line on all of it."""
        return task_line(str(self._node.info), self._node.task_record().total())


class _QueueReport:
    """The lines on the queue between two stages."""

    logger = QUEUES

    def __init__(self, engine: Engine, edge: Edge, info: StageInfo, interval: float) -> None:
        self._engine = engine
        self._edge = edge
        self._info = info
        self.interval = interval
        self.ended = False
        self._last: QueueRecord | None = None

    @property
    def stage(self) -> Node | None:
        """The stage at whose end all has been taken; None is the consumer."""
        return self._edge.taker

    def lap(self) -> str:
        """The line on what was counted since the last one."""
        record, last = _record(self._engine, self._edge), self._last
        self._last = record
        began_at = self._engine.started_at
        return queue_line(str(self._info), record.total(began_at) if last is None else record.since(last))

    def total(self) -> str:
        """The line on all of it."""
        return queue_line(str(self._info), _record(self._engine, self._edge).total(self._engine.started_at))


class Reporter:
    """Notes under the engine's lock what is to be logged, and logs it without.

    With nobody listening, nothing is made ready.
    """

    __slots__ = ("_engine", "_queues", "_stages", "lines")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stages: list[_StageReport] = []
        # The last stage fills the sink; then it counts as the sink's what lies behind it.
        self._queues: dict[Edge, _QueueReport] = {}
        # What is ready to be logged.
        self.lines: list[_Line] = []

    def add_stage(self, stage: Node, interval: float) -> None:
        """Have a line logged at a stage's end, and others before it if the interval is more than 0 seconds."""
        self._stages.append(_StageReport(stage, interval))

    def add_queue(self, edge: Edge, info: StageInfo, interval: float) -> None:
        """The same for what lies between two stages, or between the last one and the consumer."""
        self._queues[edge] = _QueueReport(self._engine, edge, info, interval)

    def begin(self) -> None:
        """Begin to report at intervals. Called with the lock held."""
        for interval in {report.interval for report in self._reports() if report.interval > 0}:
            self._schedule(interval)

    def _reports(self) -> list[_StageReport | _QueueReport]:
        return [*self._queues.values(), *self._stages]

    def _schedule(self, interval: float) -> None:
        self._engine.timer.after(interval, lambda: self._tick(interval))

    def _tick(self, interval: float) -> None:
        for report in self._reports():
            if report.interval == interval and not report.ended and report.logger.isEnabledFor(logging.INFO):
                self.lines.append(_Line(report.logger, report.lap()))
        self._schedule(interval)

    def stage_ended(self, stage: Node) -> None:
        """Make ready what there is to say of a stage and of the queues in front of it. Called with the lock held."""
        self._ended(stage)

    def consumer_ended(self) -> None:
        """Log what there is to say of the sink, once. Called without the lock, where nothing more will be read."""
        with self._engine.lock:
            self._ended(None)
        self.log()

    def _ended(self, stage: Node | None) -> None:
        for report in self._reports():
            if report.stage is stage and not report.ended:
                report.ended = True
                if report.logger.isEnabledFor(logging.INFO):
                    self.lines.append(_Line(report.logger, report.total()))

    def log(self) -> None:
        """Log what is ready. Called without the lock."""
        if not self.lines:
            return
        with self._engine.lock:
            lines, self.lines = self.lines, []
        for logger, text in lines:
            # A filter or handler that raises must not end the pipeline, and this would be the place to tell of it.
            with contextlib.suppress(Exception):
                logger.info("%s", text)


def _record(engine: Engine, edge: Edge) -> QueueRecord:
    """What was counted of an edge until now."""
    now = engine.stopped_at or perf_counter()
    feeder, taker = edge.feeder, edge.taker
    assert feeder is not None
    sink = engine.sink.entries
    # A feeder that is no stage is a source. It is pulled when there is a place, so the rest of the time it waits.
    if isinstance(feeder, Node):
        put_seconds = edge.put_seconds + sum(max(0.0, now - since) for since in edge.late)
        given = feeder.emitted - (0 if feeder.order is None else feeder.order.buffered)
    else:
        busy = feeder.busy_seconds + (max(0.0, now - feeder.pulling_since) if feeder.pulling else 0.0)
        put_seconds = max(0.0, min(now, feeder.ended_at or now) - engine.started_at - busy)
        given = feeder.position
    get_seconds = edge.get_seconds
    puts, gets = edge.put_times.counts.copy(), edge.get_times.counts.copy()
    if taker is None:
        taken = given - len(sink)
        # Those that were not noted have waited for nothing.
        gets[0] += max(0, taken - sum(gets))
        occupied = edge.occupied_seconds + max(0.0, (now if sink else edge.emptied_at) - (edge.filled_at or now))
    elif taker.counts_gets:
        taken = taker.completed + taker.failed + taker.running
        occupied = edge.occupied_seconds + (now - max(taker.got_at, edge.filled_at) if taker.queue else 0.0)
        get_seconds = taker.waits[STARVED]
        if taker.waiting_since and taker.waiting_for == STARVED:
            get_seconds += max(0.0, now - taker.waiting_since)
    else:
        taken = edge.taken
        occupied = edge.occupied_seconds + (now - max(edge.got_at, edge.filled_at) if given > taken else 0.0)
    if isinstance(feeder, Node):
        # As above.
        puts[0] += max(0, taken - sum(puts))
    return QueueRecord(now, taken, put_seconds, puts, get_seconds, gets, occupied)
