"""How much faster a pipeline would be, with which numbers, and how that is said."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .measures import PipelineMeasures, StageMeasures

__all__ = [
    "MOST_CONCURRENCY",
    "cores_elsewhere",
    "duration",
    "gain_bound",
    "in_use",
    "in_words",
    "limits_for",
    "needed",
    "percent",
    "promised",
    "slots",
    "sure_gain",
    "watch_longer",
]

# No more ops at once are recommended: there may be a limit that was not seen.
MOST_CONCURRENCY = 64
# What is recommended goes so far beyond what the next limit needs.
_MARGIN = 1.3
# A prediction may be off by so much.
_OFF = 1.25


def gain_bound(
    measures: PipelineMeasures,
    limit: StageMeasures | None,
    *,
    source: bool = True,
    consumer: bool = True,
    cores: bool = True,
) -> float:
    """Return how many times faster the pipeline could be: what the next limit allows.

    Args:
        measures: What is known.
        limit: The stage that is to be no limit any more.
        source: Whether the sources remain as they are.
        consumer: Whether the consumer does.
        cores: Whether it computes as much for each item as now.
    """
    shares = [stage.occupancy for stage in measures.stages if stage is not limit]
    if source:
        shares += [each.busy for each in measures.sources]
    if consumer:
        # While it does not wait, it works.
        shares.append(1 - measures.consumer_waits)
    greatest = max(shares, default=0.0)
    by_parts = 1 / greatest if greatest > 0 else math.inf
    used = measures.cores_used + cores_elsewhere(measures)
    by_cores = measures.cores / used if cores and used > 0 else math.inf
    return max(1.0, min(by_parts, by_cores))


def cores_elsewhere(measures: PipelineMeasures) -> float:
    """Return how many cores the ops use that run in other processes."""
    return sum(stage.rate * stage.seconds * stage.cpu for stage in measures.stages if stage.processes)


def sure_gain(measures: PipelineMeasures, gain: float) -> float | None:
    """Return a gain that takes more cores, or None if other programs may keep the pipeline from so many.

    What it would get of cores that others use as well depends on what these do then, so only idle ones count.
    """
    used = measures.cores_used + cores_elsewhere(measures)
    sure = max(1.0, (used + measures.cores_idle) / used) if used > 0 else math.inf
    return promised(gain, sure)


def promised(gain: float, sure: float) -> float | None:
    """Return a gain that may come, if another one that surely comes is about the same; None if nobody can tell."""
    if gain <= sure:
        return gain
    return sure if gain <= _OFF * sure else None


def needed(bound: float, concurrency: int) -> int:
    """Return how many slots are enough for the next limit to be reached."""
    wanted = min(bound * _MARGIN, MOST_CONCURRENCY) * concurrency
    return max(concurrency + 1, min(MOST_CONCURRENCY, math.ceil(wanted)))


def limits_for(measures: PipelineMeasures, stage: StageMeasures, concurrency: int, gain: float) -> dict[str, int]:
    """Return the concurrency to set, and the number of threads if more ops would run at once then than there are."""
    limits = {"concurrency": concurrency}
    others = (each for each in measures.stages if each is not stage and each.served_by == "threads")
    threads = concurrency + sum(math.ceil(min(1.0, each.occupancy * gain) * each.concurrency) for each in others)
    if stage.served_by == "threads" and threads > measures.num_threads:
        limits["num_threads"] = threads
    return limits


def in_words(limits: Mapping[str, int]) -> str:
    return " and ".join(f"`{name}={limit}`" for name, limit in limits.items())


def slots(stage: StageMeasures) -> str:
    slot = "slot" if stage.arguments is None else stage.arguments.slot
    return f"only {slot}" if stage.concurrency == 1 else f"{stage.concurrency} {slot}s"


def in_use(stage: StageMeasures) -> str:
    if stage.pool:
        return f"The {stage.pool} workers of its executor are in use all the time, and items wait for them"
    verb = "is" if stage.concurrency == 1 else "are"
    return f"Its {slots(stage)} {verb} in use {percent(stage.occupancy)} of the time"


def watch_longer(measures: PipelineMeasures) -> str:
    """Return what to do where too little is known."""
    if measures.ending is None:
        return "Watch for longer (`--seconds`)."
    if measures.ending.state == "killed":
        return "Nothing more is to be seen of it: start it again, and watch it while it runs."
    return "Nothing more is to be seen of it: watch the next one while that runs."


def percent(share: float) -> str:
    return f"{100 * min(1.0, share):.0f} %"


def duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.0f} microseconds"  # noqa: PLR2004
