"""Measurements of tasks and queues for hooks and log lines: sampling, histograms, records and lines.

Programs read the lines: they are the reference's to the letter.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import frexp
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._world import RLock

if TYPE_CHECKING:
    from spdl.pipeline._report.counters import StageCounters

# If ops are shorter than this, and follow each other as quickly, only some are measured: measuring takes some 3
# microseconds, most of it for the thread's CPU clock. It is the end of a histogram's bin.
SHORT = 13 * 2.0**-18

# The first events are all measured, so that short runs are reported exactly.
_ALL_OF_FIRST = 256

# Then one in that many seconds is, which costs a stage some tenths of a percent of its time, ...
_PERIOD = 2e-3

# ... but at least one of that many: they may follow each other less quickly from now on.
_RAREST = 512
AT_LEAST_ONE_OF = 2 * _RAREST


class Sampling:
    """Chooses what is measured of a sequence of events, from how quickly they follow each other."""

    __slots__ = ("_count", "_now", "_state")

    def __init__(self) -> None:
        self._now = 0.0
        self._count = 0
        self._state = 1

    def weight(self, now: float, count: int) -> int:
        """Return how many events the next measured one stands for, after that many; 1 if all should be measured."""
        pace = (now - self._now) / max(1, count - self._count)
        self._now, self._count = now, count
        if pace >= SHORT or count < _ALL_OF_FIRST:
            return 1
        return max(2, min(_RAREST, int(_PERIOD / max(pace, 1e-9))))

    def stride(self, weight: int) -> int:
        """Return the number of events until the next measured one: ``weight`` on average.

        It is pseudo-random: a constant stride would see all or none of what happens at every 64th event, and batches
        often have such a size.
        """
        # Lehmer's generator, with the multiplier of Park, Miller and Stockmeyer.
        self._state = self._state * 48271 % 0x7FFFFFFF
        return 1 + self._state % (2 * weight - 1)


# A bin is an eighth of an octave: its ends are at most 12.5 % apart.
_BINS_PER_OCTAVE = 8
# From a nanosecond to 36 hours. Shorter durations count as 0, longer ones as that long.
_FIRST_OCTAVE, _LAST_OCTAVE = -30, 17
BINS = (_LAST_OCTAVE - _FIRST_OCTAVE) * _BINS_PER_OCTAVE + 1
_OFFSET = (-_FIRST_OCTAVE - 1) * _BINS_PER_OCTAVE - 7
LONGEST = 2.0**_LAST_OCTAVE
_LEAST, _MOST = 2.0**_FIRST_OCTAVE, LONGEST * 0.999

# Items of a bin are taken to lie evenly in the middle half of it. So none is estimated more than 9.4 % wrong, wherever
# in the bin they are; spread over all of it, items at one end would be by 12.5 %.
_MARGIN = 0.25


def bin_of(seconds: float) -> int:
    if seconds < _LEAST:
        return 0
    mantissa, exponent = frexp(min(seconds, _MOST))
    # The mantissa is at least a half, so the eighths of the octave are its sixteenths from 8 on.
    return _BINS_PER_OCTAVE * exponent + int(mantissa * 16) + _OFFSET


class Histogram:
    """Counts durations in bins that are an eighth of an octave wide; bin 0 is for durations of 0."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = [0] * BINS

    def add(self, seconds: float, weight: int = 1) -> None:
        """Count a duration, standing for ``weight`` of them."""
        self.counts[bin_of(seconds)] += weight

    def add_all(self, counts: Sequence[int]) -> None:
        self.counts = [mine + others for mine, others in zip(self.counts, counts, strict=True)]


def percentile(counts: Sequence[float], share: float) -> float:
    """Return the duration that ``share`` of them do not exceed, with an error of at most 9.4 %; 0 if there are none.

    As `numpy.percentile` by default, it interpolates between the two durations that lie around that place. Counts are
    those of `Histogram.counts`, the difference of two of these, or estimates.
    """
    ends = list(accumulate(counts))
    if not ends or ends[-1] <= 0:
        return 0.0
    place = share * max(0.0, ends[-1] - 1)
    below = int(place)
    first = _at(counts, ends, below)
    if place == below:
        return first
    return first + (place - below) * (_at(counts, ends, below + 1) - first)


def _at(counts: Sequence[float], ends: Sequence[float], rank: int) -> float:
    """The duration that is larger than ``rank`` others."""
    index = next((index for index, end in enumerate(ends) if end > rank), len(ends) - 1)
    if index == 0:
        return 0.0
    octave, eighth = divmod(index - 1, _BINS_PER_OCTAVE)
    width = 2.0 ** (octave + _FIRST_OCTAVE) / _BINS_PER_OCTAVE
    inside = (rank - ends[index - 1] + 0.5) / counts[index] if counts[index] else 0.5
    return width * (_BINS_PER_OCTAVE + eighth + _MARGIN + (1 - 2 * _MARGIN) * min(1.0, inside))


# From a microsecond to a minute. Powers of two are ends of the histogram's bins, so these counts are exact.
BOUNDS = tuple(4.0**exponent for exponent in range(-10, 4))
_FIRST_BINS_ABOVE = [bin_of(bound) for bound in BOUNDS]


def cumulative(counts: Sequence[int]) -> tuple[tuple[float, int], ...]:
    """Return pairs of a number of seconds and how many tasks took less; the last one is of all of them."""
    found = []
    total = before = 0
    for bound, above in zip(BOUNDS, _FIRST_BINS_ABOVE, strict=True):
        total += sum(counts[before:above])
        before = above
        found.append((bound, total))
    return (*found, (LONGEST, total + sum(counts[before:])))


_FIRST_LONG_BIN = bin_of(SHORT)

# ---- tasks ----


@dataclass
class TaskPerfStats:
    """The tasks of a stage, since the start or since the last report.

    Percentiles come from a histogram and are within 10 % of exact. If ops take less than 50 microseconds and follow
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
    """The tasks until now, the seconds of those that did not raise, and the histogram of their durations.

    It has all long durations, and the short ones or some that stand for them.
    """

    successes: int
    failures: int
    seconds: float
    counts: Sequence[int]

    def since(self, earlier: TaskRecord) -> TaskPerfStats:
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
        return self.since(NO_TASKS)

    def line(self, name: str, earlier: TaskRecord | None, _began_at: float) -> str:
        return task_line(name, self.total() if earlier is None else self.since(earlier))


NO_TASKS = TaskRecord(0, 0, 0.0, Histogram().counts)


def _stretched(counts: list[int], total: int) -> list[float]:
    """Make the measured short durations stand for as many as there were."""
    short = sum(counts[:_FIRST_LONG_BIN])
    if not short:
        return list(counts)
    factor = max(0, total - sum(counts[_FIRST_LONG_BIN:])) / short
    return [count * factor for count in counts[:_FIRST_LONG_BIN]] + counts[_FIRST_LONG_BIN:]


def task_line(name: str, stats: TaskPerfStats) -> str:
    return (
        f"[{name}]\tCompleted {stats.num_tasks:5d} tasks ({stats.num_failures:3d} failed). "
        f"Ave task time: {_duration(stats.ave_time)}. "
        f"P90: {_duration(stats.p90_time)}. P99: {_duration(stats.p99_time)}."
    )


# ---- queues ----


@dataclass
class QueuePerfStats:
    """The items that passed through a queue, since the start or since the last report.

    An item that a worker carries from one stage to the next passes the queue between them too, without a wait to put it
    there and without any time in it. Percentiles are within 10 % of exact; where more than 20,000
    items pass in a second, waits for items are measured about once in 2 milliseconds.

    Attributes:
        elapsed: Seconds that this covers.
        num_items: How many items were taken out. The ends of epochs and of the input do not count.
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
    """What passed a queue until a time on the clock of `time.perf_counter`.

    Results waited for a place (put), the reader waited for items (get), and something lay in the queue (occupied).
    """

    at: float
    items: int
    put_seconds: float
    put_counts: Sequence[int]
    get_seconds: float
    get_counts: Sequence[int]
    occupied_seconds: float

    def since(self, earlier: QueueRecord) -> QueuePerfStats:
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
        return self.since(QueueRecord(began_at, 0, 0.0, [0] * len(self.put_counts), 0.0, [0] * len(self.get_counts), 0))

    def line(self, name: str, earlier: QueueRecord | None, began_at: float) -> str:
        return queue_line(name, self.total(began_at) if earlier is None else self.since(earlier))


def queue_line(name: str, stats: QueuePerfStats) -> str:
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


TASKS = logging.getLogger("spdl.pipeline.tasks")
QUEUES = logging.getLogger("spdl.pipeline.queues")
_PIPELINE = logging.getLogger("spdl.pipeline")


class _Line(NamedTuple):
    logger: logging.Logger
    text: str
    level: int = logging.INFO


class _StatsReport:
    """The lines on a stage's tasks, or on the queue in front of a stage.

    All was counted, or taken, when the stage ``ends_with`` ends; None is the consumer.
    """

    def __init__(
        self,
        logger: logging.Logger,
        ends_with: StageCounters | None,
        name: str,
        read: Callable[[], TaskRecord | QueueRecord],
        interval: float,
    ) -> None:
        self.logger = logger
        self.interval = interval
        self.ended = False
        self._ends_with = ends_with
        self._name = name
        self._read = read
        self._last: Any = None

    def lap(self, began_at: float) -> str:
        record, last = self._read(), self._last
        self._last = record
        return record.line(self._name, last, began_at)

    def total(self, began_at: float) -> str:
        return self._read().line(self._name, None, began_at)

    def ends(self, stage: StageCounters | None) -> bool:
        """Return True, once, if this stage's end is the report's."""
        if self.ended or stage is not self._ends_with:
            return False
        self.ended = True
        return True


class Reporter:
    """Notes under the engine's lock what should be logged, and logs it without. Without a listener, nothing is noted.

    ``after`` has an action called after that many seconds. It is called with the lock held, and calls with it.
    """

    def __init__(
        self,
        lock: RLock,
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._lock = lock
        self._after = after
        self._began_at = 0.0
        self._reports: list[_StatsReport] = []
        # Lines that are ready to be logged.
        self.lines: list[_Line] = []

    def add_stage(self, stage: StageCounters, name: str, read: Callable[[], TaskRecord], interval: float) -> None:
        """Log a line at a stage's end, and others before it if the interval is more than 0 seconds."""
        self._reports.append(_StatsReport(TASKS, stage, name, read, interval))

    def add_queue(
        self, reader: StageCounters | None, name: str, read: Callable[[], QueueRecord], interval: float
    ) -> None:
        """Do the same for the queue that a stage takes from; None is the consumer."""
        self._reports.append(_StatsReport(QUEUES, reader, name, read, interval))

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
        """Log the sink's line, once. Called without the lock, when nothing more will be read."""
        with self._lock:
            self.stage_ended(None)
        self.log()

    def stage_ended(self, stage: StageCounters | None) -> None:
        """Prepare the lines of a stage and of the queues before it. Called with the lock held."""
        for report in self._reports:
            if report.ends(stage) and report.logger.isEnabledFor(logging.INFO):
                self.lines.append(_Line(report.logger, report.total(self._began_at)))

    def warn(self, text: str) -> None:
        """Log a warning, without the lock. Called with the lock held."""
        self.lines.append(_Line(_PIPELINE, text, logging.WARNING))

    def log(self) -> None:
        if not self.lines:
            return
        with self._lock:
            lines, self.lines = self.lines, []
        for logger, text, level in lines:
            # A filter or handler that raises must not end the pipeline, and this would be the place to tell about it.
            with contextlib.suppress(Exception):
                logger.log(level, "%s", text)
