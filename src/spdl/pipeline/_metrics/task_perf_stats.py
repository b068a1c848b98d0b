"""The statistics of a stage's tasks."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TaskPerfStats"]


@dataclass
class TaskPerfStats:
    """The tasks of a stage, since the start or since the last report.

    Percentiles come from a histogram and are within 10 % of exact. Where ops take less than 50 microseconds and follow
    each other as fast, some are measured after the first 256: about one in 2 milliseconds, at least one in 512 on
    average.

    Attributes:
        num_tasks: How many tasks have ended: calls of the op, results of generators, calls of an aggregator.
        num_failures: How many of them raised.
        ave_time: Mean seconds of those that did not; 0 if there were none.
        p90_time: Seconds that 90 % of them did not exceed.
        p99_time: Seconds that 99 % of them did not exceed.

    Example:
        >>> from spdl.pipeline import TaskPerfStats
        >>> stats = TaskPerfStats(num_tasks=100, num_failures=1, ave_time=0.002, p90_time=0.003, p99_time=0.01)
        >>> f"{1000 * stats.p99_time:.0f} ms"
        '10 ms'
    """

    num_tasks: int
    num_failures: int
    ave_time: float
    p90_time: float
    p99_time: float
