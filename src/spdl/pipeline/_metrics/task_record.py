"""The counters of a stage's tasks at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .histogram import Histogram, bin_of, percentile
from .sampling import SHORT
from .task_perf_stats import TaskPerfStats

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NO_TASKS", "TaskRecord"]

_FIRST_LONG_BIN = bin_of(SHORT)


class TaskRecord(NamedTuple):
    """The counts until now.

    Attributes:
        successes: Tasks that did not raise.
        failures: Tasks that did.
        seconds: What those without took together.
        counts: The histogram of their durations: all long ones, and the short ones or some that stand for them.
    """

    successes: int
    failures: int
    seconds: float
    counts: Sequence[int]

    def since(self, earlier: TaskRecord) -> TaskPerfStats:
        """Return the statistics of the time since an earlier record."""
        successes = self.successes - earlier.successes
        failures = self.failures - earlier.failures
        counts = _stretched([now - then for now, then in zip(self.counts, earlier.counts, strict=True)], successes)
        return TaskPerfStats(
            num_tasks=successes + failures,
            num_failures=failures,
            ave_time=(self.seconds - earlier.seconds) / successes if successes else 0.0,
            p90_time=percentile(counts, 0.9),
            p99_time=percentile(counts, 0.99),
        )

    def total(self) -> TaskPerfStats:
        """Return the statistics of the time since the start."""
        return self.since(NO_TASKS)


NO_TASKS = TaskRecord(0, 0, 0.0, Histogram().counts)


def _stretched(counts: list[int], total: int) -> list[float]:
    """Have the measured short durations stand for as many as there were."""
    short = sum(counts[:_FIRST_LONG_BIN])
    if not short:
        return list(counts)
    factor = max(0, total - sum(counts[_FIRST_LONG_BIN:])) / short
    return [count * factor for count in counts[:_FIRST_LONG_BIN]] + counts[_FIRST_LONG_BIN:]
