"""The lines that a pipeline logs about its stages and queues, from the engine's counters."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._world import RLock

    from .counters import StageCounters
    from .records import QueueRecord, TaskRecord

__all__ = ["QUEUES", "TASKS", "Reporter"]

TASKS = logging.getLogger("spdl.pipeline.tasks")
QUEUES = logging.getLogger("spdl.pipeline.queues")
_PIPELINE = logging.getLogger("spdl.pipeline")


class _Line(NamedTuple):
    logger: logging.Logger
    text: str
    level: int = logging.INFO


class _Record(Protocol):
    """What was counted of a stage's tasks, or of a queue, until some moment."""

    def line(self, name: str, earlier: Self | None, began_at: float) -> str:
        """Return the line on what was counted since an earlier record, or since the start."""


_R = TypeVar("_R", bound=_Record)


class _Report(Generic[_R]):
    """The lines on a stage's tasks, or on the queue in front of a stage.

    Args:
        logger: Where they go.
        ends_with: The stage at whose end all was counted, or taken; None is the consumer.
        name: What the lines are about.
        read: Returns what was counted until now.
        interval: The seconds between lines; only the last one if it is not more than 0.
    """

    def __init__(
        self,
        logger: logging.Logger,
        ends_with: StageCounters | None,
        name: str,
        read: Callable[[], _R],
        interval: float,
    ) -> None:
        self.logger = logger
        self.interval = interval
        self.ended = False
        self._ends_with = ends_with
        self._name = name
        self._read = read
        self._last: _R | None = None

    def lap(self, began_at: float) -> str:
        """Return the line on what was counted since the last one."""
        record, last = self._read(), self._last
        self._last = record
        return record.line(self._name, last, began_at)

    def total(self, began_at: float) -> str:
        """Return the line on all of it."""
        return self._read().line(self._name, None, began_at)

    def ends(self, stage: StageCounters | None) -> bool:
        """Return True, once, if this stage's end is the report's."""
        if self.ended or stage is not self._ends_with:
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

    __slots__ = ("_after", "_began_at", "_lock", "_reports", "lines")

    def __init__(
        self,
        lock: RLock,
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._lock = lock
        self._after = after
        self._began_at = 0.0
        self._reports: list[_Report[Any]] = []
        # Lines that are ready to be logged.
        self.lines: list[_Line] = []

    def add_stage(self, stage: StageCounters, name: str, read: Callable[[], TaskRecord], interval: float) -> None:
        """Have a line logged at a stage's end, and others before it if the interval is more than 0 seconds."""
        self._reports.append(_Report(TASKS, stage, name, read, interval))

    def add_queue(
        self, reader: StageCounters | None, name: str, read: Callable[[], QueueRecord], interval: float
    ) -> None:
        """Do the same for the queue that a stage takes from; None is the consumer."""
        self._reports.append(_Report(QUEUES, reader, name, read, interval))

    def begin(self, now: float) -> None:
        """Begin to report at intervals. Called with the lock held."""
        self._began_at = now
        for interval in {report.interval for report in self._reports if report.interval > 0}:
            self._schedule(interval)

    def _schedule(self, interval: float) -> None:
        self._after(interval, lambda: self._tick(interval))

    def _tick(self, interval: float) -> None:
        for report in self._reports:
            if report.interval == interval and not report.ended and report.logger.isEnabledFor(logging.INFO):
                self.lines.append(_Line(report.logger, report.lap(self._began_at)))
        self._schedule(interval)

    def consumer_ended(self) -> None:
        """Log what there is to say of the sink, once. Called without the lock, where nothing more will be read."""
        with self._lock:
            self.stage_ended(None)
        self.log()

    def stage_ended(self, stage: StageCounters | None) -> None:
        """Make ready what there is to say of a stage and of the queues in front of it. Called with the lock held."""
        for report in self._reports:
            if report.ends(stage) and report.logger.isEnabledFor(logging.INFO):
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
