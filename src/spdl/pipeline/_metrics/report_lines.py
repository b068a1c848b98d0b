"""The wording of the log lines on stages and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .queue_perf_stats import QueuePerfStats
    from .task_perf_stats import TaskPerfStats

__all__ = ["queue_line", "task_line"]

# Programs read these lines: they are the reference's to the letter.


def task_line(name: str, stats: TaskPerfStats) -> str:
    """The line on a stage's tasks."""
    return (
        f"[{name}]\tCompleted {stats.num_tasks:5d} tasks ({stats.num_failures:3d} failed). "
        f"Ave task time: {_duration(stats.ave_time)}. "
        f"P90: {_duration(stats.p90_time)}. P99: {_duration(stats.p99_time)}."
    )


def queue_line(name: str, stats: QueuePerfStats) -> str:
    """The line on the queue behind a stage."""
    return (
        f"[{name}_queue]\tProcessed {stats.num_items:5d} items in {_duration(stats.elapsed)} (QPS: {stats.qps:6.1f}) "
        f"Ave wait time: put: {_duration(stats.ave_put_time)}, get (by next stage): {_duration(stats.ave_get_time)}. "
        f"P90: put: {_duration(stats.p90_put_time)}, get: {_duration(stats.p90_get_time)}. "
        f"P99: put: {_duration(stats.p99_put_time)}, get: {_duration(stats.p99_get_time)}. "
        f"Occupancy rate: {int(100 * stats.occupancy_rate)}%"
    )


def _duration(seconds: float) -> str:
    if seconds < 1e-4:  # noqa: PLR2004 - where a tenth of the larger unit begins.
        return f"{1e6 * seconds:6.1f} [ us]"
    if seconds < 1:
        return f"{1e3 * seconds:6.1f} [ ms]"
    return f"{seconds:6.1f} [sec]"
