"""What log lines and hooks tell of a stage's tasks and of queues: the difference of two records of the counters.

Programs read the lines: they are the reference's to the letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .histogram import Histogram, bin_of, percentile
from .sampling import SHORT

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NO_TASKS", "QueuePerfStats", "QueueRecord", "TaskPerfStats", "TaskRecord", "queue_line", "task_line"]

_FIRST_LONG_BIN = bin_of(SHORT)

# ---- tasks ----


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

    def line(self, name: str, earlier: TaskRecord | None, _began_at: float) -> str:
        """Return the line on the time since an earlier record, or since the start."""
        return task_line(name, self.total() if earlier is None else self.since(earlier))


NO_TASKS = TaskRecord(0, 0, 0.0, Histogram().counts)


def _stretched(counts: list[int], total: int) -> list[float]:
    """Have the measured short durations stand for as many as there were."""
    short = sum(counts[:_FIRST_LONG_BIN])
    if not short:
        return list(counts)
    factor = max(0, total - sum(counts[_FIRST_LONG_BIN:])) / short
    return [count * factor for count in counts[:_FIRST_LONG_BIN]] + counts[_FIRST_LONG_BIN:]


def task_line(name: str, stats: TaskPerfStats) -> str:
    """The line on a stage's tasks."""
    return (
        f"[{name}]\tCompleted {stats.num_tasks:5d} tasks ({stats.num_failures:3d} failed). "
        f"Ave task time: {_duration(stats.ave_time)}. "
        f"P90: {_duration(stats.p90_time)}. P99: {_duration(stats.p99_time)}."
    )


# ---- queues ----


@dataclass
class QueuePerfStats:
    """The items that passed through a queue, since the start or since the last report.

    A worker that carries an item from one stage to the next passes the queue between them as well: nobody waited to
    put it there, and it has not lain there for any time. Percentiles are within 10 % of exact; where more than 20,000
    items pass in a second, waits for items are measured about once in 2 milliseconds.

    Attributes:
        elapsed: Seconds that this covers.
        num_items: How many items were taken out. The ends of epochs and of the input are none.
        ave_put_time: Mean seconds that an item waited for a place in the queue. For a source's queue, mean seconds
            until the source was asked for the next item.
        ave_get_time: Mean seconds that the next stage, with a slot free, waited for an item; for the sink's queue, the
            consumer.
        p90_put_time: Seconds that 90 % of the items did not wait longer for a place.
        p99_put_time: Seconds that 99 % of the items did not wait longer for a place.
        p90_get_time: Seconds that 90 % of the items were not waited for any longer.
        p99_get_time: Seconds that 99 % of the items were not waited for any longer.
        occupancy_rate: The share of the time in which something lay in the queue, 0 to 1. Near 1 the next stage is
            slower than what fills the queue, near 0 it is faster.

    Example:
        >>> from spdl.pipeline import QueuePerfStats
        >>> QueuePerfStats(2.0, 100, 0.0, 0.01, 0.0, 0.0, 0.02, 0.02, 0.1).qps  # Items per second.
        50.0
    """

    elapsed: float
    num_items: int
    ave_put_time: float
    ave_get_time: float
    p90_put_time: float
    p99_put_time: float
    p90_get_time: float
    p99_get_time: float
    occupancy_rate: float

    @property
    def qps(self) -> float:
        """Items taken out per second; 0 if no time has passed."""
        return self.num_items / self.elapsed if self.elapsed > 0 else 0.0


class QueueRecord(NamedTuple):
    """The counts until now.

    Attributes:
        at: When that is, on the clock of `time.perf_counter`.
        items: How many were taken out.
        put_seconds: How long results waited for a place, all together.
        put_counts: The histogram of these waits.
        get_seconds: How long items were waited for, all together.
        get_counts: The histogram of these waits, or of some of them.
        occupied_seconds: How long something lay in the queue.
    """

    at: float
    items: int
    put_seconds: float
    put_counts: Sequence[int]
    get_seconds: float
    get_counts: Sequence[int]
    occupied_seconds: float

    def since(self, earlier: QueueRecord) -> QueuePerfStats:
        """Return the statistics of the time since an earlier record."""
        elapsed = max(0.0, self.at - earlier.at)
        items = self.items - earlier.items
        puts = [now - then for now, then in zip(self.put_counts, earlier.put_counts, strict=True)]
        gets = [now - then for now, then in zip(self.get_counts, earlier.get_counts, strict=True)]
        occupied = self.occupied_seconds - earlier.occupied_seconds
        return QueuePerfStats(
            elapsed=elapsed,
            num_items=items,
            ave_put_time=(self.put_seconds - earlier.put_seconds) / items if items else 0.0,
            ave_get_time=(self.get_seconds - earlier.get_seconds) / items if items else 0.0,
            p90_put_time=percentile(puts, 0.9),
            p99_put_time=percentile(puts, 0.99),
            p90_get_time=percentile(gets, 0.9),
            p99_get_time=percentile(gets, 0.99),
            occupancy_rate=min(1.0, max(0.0, occupied / elapsed)) if elapsed else 0.0,
        )

    def total(self, began_at: float) -> QueuePerfStats:
        """Return the statistics of the time since the start."""
        return self.since(QueueRecord(began_at, 0, 0.0, [0] * len(self.put_counts), 0.0, [0] * len(self.get_counts), 0))

    def line(self, name: str, earlier: QueueRecord | None, began_at: float) -> str:
        """Return the line on the time since an earlier record, or since the start."""
        return queue_line(name, self.total(began_at) if earlier is None else self.since(earlier))


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
