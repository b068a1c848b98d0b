"""The lines that a pipeline logs about its stages and queues, from the engine's counters."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, NamedTuple

from .report_lines import queue_line, task_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._world import RLock

    from .counters import StageCounters
    from .queue_record import QueueRecord
    from .task_record import TaskRecord

__all__ = ["QUEUES", "TASKS", "Reporter"]

TASKS = logging.getLogger("spdl.pipeline.tasks")
QUEUES = logging.getLogger("spdl.pipeline.queues")
_PIPELINE = logging.getLogger("spdl.pipeline")


class _Line(NamedTuple):
    logger: logging.Logger
    text: str
    level: int = logging.INFO


class _StageReport:
    """The lines on a stage's tasks."""

    logger = TASKS

    def __init__(self, stage: StageCounters, name: str, read: Callable[[], TaskRecord], interval: float) -> None:
        # At its end all was counted.
        self.stage: StageCounters | None = stage
        self.interval = interval
        self.ended = False
        self._name = name
        self._read = read
        self._last: TaskRecord | None = None

    def lap(self, _began_at: float) -> str:
        """Return the line on what was counted since the last one."""
        record, last = self._read(), self._last
        self._last = record
        return task_line(self._name, record.total() if last is None else record.since(last))

    def total(self, _began_at: float) -> str:
        """Return the line on all of it."""
        return task_line(self._name, self._read().total())

    def ends_with(self, stage: StageCounters | None) -> bool:
        """Return True, once, if this stage's end is the report's."""
        if self.ended or stage is not self.stage:
            return False
        self.ended = True
        return True


class _QueueReport:
    """The lines on the queue between two stages."""

    logger = QUEUES

    def __init__(
        self, reader: StageCounters | None, name: str, read: Callable[[], QueueRecord], interval: float
    ) -> None:
        # At its end all has been taken; None is the consumer.
        self.stage = reader
        self.interval = interval
        self.ended = False
        self._name = name
        self._read = read
        self._last: QueueRecord | None = None

    def lap(self, began_at: float) -> str:
        """Return the line on what was counted since the last one."""
        record, last = self._read(), self._last
        self._last = record
        return queue_line(self._name, record.total(began_at) if last is None else record.since(last))

    def total(self, began_at: float) -> str:
        """Return the line on all of it."""
        return queue_line(self._name, self._read().total(began_at))

    def ends_with(self, stage: StageCounters | None) -> bool:
        """Return True, once, if this stage's end is the report's."""
        if self.ended or stage is not self.stage:
            return False
        self.ended = True
        return True


class Reporter:
    """Notes under the engine's lock what is to be logged, and logs it without.

    With nobody listening, nothing is made ready.

    Args:
        lock: The engine's lock.
        after: Has an action called after so many seconds, with the lock held. Called with the lock held.
    """

    __slots__ = ("_after", "_began_at", "_lock", "_queues", "_stages", "lines")

    def __init__(
        self,
        lock: RLock,
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._lock = lock
        self._after = after
        self._began_at = 0.0
        self._stages: list[_StageReport] = []
        self._queues: list[_QueueReport] = []
        # Lines that are ready to be logged.
        self.lines: list[_Line] = []

    def add_stage(self, stage: StageCounters, name: str, read: Callable[[], TaskRecord], interval: float) -> None:
        """Have a line logged at a stage's end, and others before it if the interval is more than 0 seconds."""
        self._stages.append(_StageReport(stage, name, read, interval))

    def add_queue(
        self, reader: StageCounters | None, name: str, read: Callable[[], QueueRecord], interval: float
    ) -> None:
        """Do the same for the queue that a stage takes from; None is the consumer."""
        self._queues.append(_QueueReport(reader, name, read, interval))

    def begin(self, now: float) -> None:
        """Begin to report at intervals. Called with the lock held."""
        self._began_at = now
        for interval in {report.interval for report in self._reports() if report.interval > 0}:
            self._schedule(interval)

    def _reports(self) -> list[_StageReport | _QueueReport]:
        return [*self._queues, *self._stages]

    def _schedule(self, interval: float) -> None:
        self._after(interval, lambda: self._tick(interval))

    def _tick(self, interval: float) -> None:
        for report in self._reports():
            if report.interval == interval and not report.ended and report.logger.isEnabledFor(logging.INFO):
                self.lines.append(_Line(report.logger, report.lap(self._began_at)))
        self._schedule(interval)

    def stage_ended(self, stage: StageCounters) -> None:
        """Make ready what there is to say of a stage and of the queues in front of it. Called with the lock held."""
        self._ended(stage)

    def consumer_ended(self) -> None:
        """Log what there is to say of the sink, once. Called without the lock, where nothing more will be read."""
        with self._lock:
            self._ended(None)
        self.log()

    def _ended(self, stage: StageCounters | None) -> None:
        for report in self._reports():
            if report.ends_with(stage) and report.logger.isEnabledFor(logging.INFO):
                self.lines.append(_Line(report.logger, report.total(self._began_at)))

    def warn(self, text: str) -> None:
        """Have a warning logged, without the lock. Called with the lock held."""
        self.lines.append(_Line(_PIPELINE, text, logging.WARNING))

    def log(self) -> None:
        """Log what is ready. Called without the lock."""
        if not self.lines:
            return
        with self._lock:
            lines, self.lines = self.lines, []
        for logger, text, level in lines:
            # A filter or handler that raises must not end the pipeline, and this would be the place to tell of it.
            with contextlib.suppress(Exception):
                logger.log(level, "%s", text)
