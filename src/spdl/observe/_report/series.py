"""What happened from one sample to the next: rates and shares."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .history import Sample

__all__ = ["Curve", "StageSeries", "stage_series"]

# Points of a curve: the time, and the value; None where nothing is known, and the line is broken.
Curve = list[tuple[float, float | None]]


class StageSeries(NamedTuple):
    """What one stage did over time.

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
