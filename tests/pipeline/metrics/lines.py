"""Reads the lines that pipelines log about their stages and queues."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spdl.pipeline import QueuePerfStats, TaskPerfStats

if TYPE_CHECKING:
    import logging

__all__ = ["QUEUES", "TASKS", "Lines"]

TASKS, QUEUES = "spdl.pipeline.tasks", "spdl.pipeline.queues"

_DURATION = r" *([\d.]+) \[( us| ms|sec)\]"
TASK_LINE = re.compile(
    rf"\[\d+:(\d+:.+)\]\tCompleted +(\d+) tasks \( *(\d+) failed\)\. "
    rf"Ave task time: {_DURATION}\. P90: {_DURATION}\. P99: {_DURATION}\."
)
QUEUE_LINE = re.compile(
    rf"\[\d+:(\d+:.+)_queue\]\tProcessed +(\d+) items in {_DURATION} \(QPS: *([\d.]+)\) "
    rf"Ave wait time: put: {_DURATION}, get \(by next stage\): {_DURATION}\. "
    rf"P90: put: {_DURATION}, get: {_DURATION}\. P99: put: {_DURATION}, get: {_DURATION}\. Occupancy rate: (\d+)%"
)
_UNITS = {" us": 1e-6, " ms": 1e-3, "sec": 1.0}


class Lines:
    """The statistics in the logged lines."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        self.tasks: list[tuple[str, TaskPerfStats]] = []
        self.queues: list[tuple[str, QueuePerfStats]] = []
        for record in records:
            if record.name == TASKS:
                self.tasks.append(self._task(record.getMessage()))
            elif record.name == QUEUES:
                self.queues.append(self._queue(record.getMessage()))

    @staticmethod
    def _task(text: str) -> tuple[str, TaskPerfStats]:
        found = TASK_LINE.fullmatch(text)
        assert found is not None, text
        name, tasks, failures, *times = found.groups()
        return name, TaskPerfStats(int(tasks), int(failures), *_seconds(times))

    @staticmethod
    def _queue(text: str) -> tuple[str, QueuePerfStats]:
        found = QUEUE_LINE.fullmatch(text)
        assert found is not None, text
        name, items, amount, unit, _qps, *rest = found.groups()
        put, get, p90_put, p90_get, p99_put, p99_get = _seconds(rest[:-1])
        (elapsed,) = _seconds([amount, unit])
        share = int(rest[-1]) / 100
        return name, QueuePerfStats(elapsed, int(items), put, get, p90_put, p99_put, p90_get, p99_get, share)

    def task(self, name: str) -> TaskPerfStats:
        """Return the statistics of the only line about a stage."""
        (stats,) = (stats for each, stats in self.tasks if each.endswith(name))
        return stats

    def queue(self, name: str) -> QueuePerfStats:
        """Return the statistics of the only line about a queue."""
        (stats,) = (stats for each, stats in self.queues if each.endswith(name))
        return stats

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of the stages and of the queues that have lines."""
        return sorted(name for name, _ in self.tasks), sorted(name for name, _ in self.queues)


def _seconds(groups: list[str]) -> list[float]:
    return [float(amount) * _UNITS[unit] for amount, unit in zip(groups[::2], groups[1::2], strict=True)]
