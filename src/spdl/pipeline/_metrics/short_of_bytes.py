"""What it means that items are not made since they might not fit into the bytes that may be in flight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .gains import gain_bound, percent, slots
from .verdict import Verdict

if TYPE_CHECKING:
    from .measures import PipelineMeasures, StageMeasures

__all__ = ["MOSTLY", "short_of_bytes"]

# Bytes are the limit if they are short for at least this share of the time.
MOSTLY = 0.5
# What is recommended goes so far beyond what is in flight then: results differ in size.
_MARGIN = 1.15


def short_of_bytes(measures: PipelineMeasures) -> Verdict | None:
    """Return the verdict on a pipeline of which no part is in use all the time, if it is short of bytes."""
    if not measures.max_bytes or measures.short_of_bytes < MOSTLY:
        return None
    stage = _waiting(measures)
    if stage is not None:
        name, used = stage.name, f"its {slots(stage)} {'is' if stage.concurrency == 1 else 'are'} in use"
        share, bound = stage.occupancy, gain_bound(measures, stage)
    else:
        source = max(measures.sources, key=lambda source: source.busy)
        name, used = source.name, "its next() takes"
        share, bound = source.busy, gain_bound(measures, None, source=False)
    gain = min(bound, 1 / share) if share > 0 else None
    wanted = _enough(max(measures.max_bytes, measures.peak_bytes) * (2.0 if gain is None else gain))
    return Verdict(
        "memory budget",
        name,
        f"{percent(measures.short_of_bytes)} of the time another item might not have fitted into the "
        f"{measures.max_bytes:,} bytes of `max_bytes`, and {used} only {percent(share)} of it.",
        f"`max_bytes={wanted:_}`, or make the items smaller before they are kept.",
        settings={"max_bytes": wanted},
        predicted_gain=gain,
    )


def _enough(wanted: float) -> int:
    """Return a number of bytes to recommend: somewhat more, in two digits."""
    least = math.ceil(wanted * _MARGIN)
    unit = int("1" + "0" * (len(str(least)) - 2)) if least >= 100 else 1  # noqa: PLR2004
    return math.ceil(least / unit) * unit


def _waiting(measures: PipelineMeasures) -> StageMeasures | None:
    """Return the stage that would run more ops: the one that runs most, as its ops take the most time for each item.

    None if there are only sources.
    """
    stages = [stage for stage in measures.stages if not stage.gathers]
    return max(stages, key=lambda stage: stage.occupancy * stage.concurrency, default=None)
