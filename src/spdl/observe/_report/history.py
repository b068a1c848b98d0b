"""The statistics of a pipeline over time, and its curves."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from spdl._check import check_seconds, refuse
from spdl.observe._export.observed import Observed, Ticker, UntilClosed

if TYPE_CHECKING:
    from spdl.pipeline._report.statistics import PipelineStatistics


# More would show no more on a page. An even number, as every second one is dropped.
_MOST_SAMPLES = 1000


class Sample(NamedTuple):
    """The statistics at one moment.

    Example:
        >>> from spdl.observe import Sample
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).add_sink().build()
        >>> Sample(at=1.5, statistics=pipeline.statistics()).at
        1.5
    """

    at: float
    """Seconds since the history began."""
    statistics: PipelineStatistics
    """What the pipeline had done by then."""


class History(UntilClosed):
    """Reads a pipeline's statistics at intervals, in its own daemon thread, for a report.

    It reads from its construction until `close`, or the end of a ``with`` block, and keeps the pipeline alive until
    then. However long that is, it keeps at most a thousand samples: if there are more, it drops every second one and
    reads half as often. Reading takes no lock, and some fifty microseconds.

    Args:
        pipeline: A pipeline or a loader.
        interval: Seconds from one reading to the next.

    Raises:
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from spdl.observe import History
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build(num_threads=1)
        >>> with History(pipeline) as history, pipeline.auto_stop():
        ...     items = list(pipeline)
        >>> [sample.statistics.stages[-1].num_completed for sample in history.samples()]
        [0, 3]
    """

    def __init__(self, pipeline: Observed, *, interval: float = 0.5) -> None:
        if not isinstance(pipeline, Observed):
            refuse(TypeError, "pipeline", "a pipeline or a loader", pipeline)
        seconds = check_seconds("interval", interval, above_zero=True)
        self._pipeline: Observed | None = pipeline
        self._began_at = time.monotonic()
        self._lock = threading.Lock()
        self._samples: list[Sample] = []
        # One reading in this number is kept.
        self._stride = 1
        self._readings = 0
        self._read()
        self._ticker = Ticker(self._read_some, seconds, "spdl_history")

    def _read(self) -> None:
        pipeline = self._pipeline
        if pipeline is None:
            return
        sample = Sample(time.monotonic() - self._began_at, pipeline.statistics())
        with self._lock:
            self._samples.append(sample)
            if len(self._samples) > _MOST_SAMPLES:
                # The first one and the last one stay.
                del self._samples[1::2]
                self._stride *= 2

    def _read_some(self) -> None:
        self._readings += 1
        if not self._readings % self._stride:
            self._read()

    def samples(self) -> list[Sample]:
        """Return what was read so far, the oldest first."""
        with self._lock:
            return list(self._samples)

    def close(self) -> None:
        """Read once more, and end. The samples stay. Further calls do nothing."""
        if self._ticker.close():
            self._read()
            self._pipeline = None


# Points of a curve: the time, and the value. The line is broken at None.
Curve = list[tuple[float, float | None]]


class StageSeries(NamedTuple):
    """The work of one stage over time.

    Attributes:
        items: Results passed on per second; for the sink, items read.
        busy: The share of its slots' time spent in ops, 0 to 1.
        starved: The share of the time in which a free slot waited for an item; for the sink, in which reads did.
        blocked: The share of the time in which a free slot waited for a place.
        held: The share of the time in which a free slot waited for an earlier item.
        queue: Items that wait in front of it.
    """

    items: Curve
    busy: Curve
    starved: Curve
    blocked: Curve
    held: Curve
    queue: Curve


def stage_series(samples: Sequence[Sample], place: int) -> StageSeries:
    """Return what the stage at a place among the pipeline's stages did over time."""
    series = StageSeries([], [], [], [], [], [])
    series.queue.extend((sample.at, float(sample.statistics.stages[place].queue_size)) for sample in samples)
    for before, after in pairwise(samples):
        old, new = before.statistics.stages[place], after.statistics.stages[place]
        seconds = new.elapsed - old.elapsed
        if seconds == 0:
            # It has not begun, or has ended.
            continue
        if seconds < 0:
            # A loader's next epoch, which counts from 0 again.
            for curve in series[:-1]:
                curve.append((after.at, None))
            continue
        series.items.append((after.at, (new.num_emitted - old.num_emitted) / seconds))
        # Ops count at their end, so one may have taken longer than from one sample to the next.
        offered = seconds * new.concurrency
        series.busy.append((after.at, min(1.0, (new.busy_seconds - old.busy_seconds) / offered)))
        for curve, field in (
            (series.starved, "starved_seconds"),
            (series.blocked, "blocked_seconds"),
            (series.held, "held_seconds"),
        ):
            share = (getattr(new, field) - getattr(old, field)) / seconds
            curve.append((after.at, max(0.0, min(1.0, share))))
    return series
