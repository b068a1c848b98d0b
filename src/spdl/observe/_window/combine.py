"""Puts together the windows of pipelines that were watched one after the other."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from spdl.pipeline._report.sample import Counts

from .window_of import window_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .watch_epochs import Watched
    from .window import SourceWindow, StageWindow, Window

__all__ = ["window_of_all"]

# What is a mean over the time; all else is that of the last one, but for what is a mean over the ops.
_OF_PIPELINE = (
    "busy_threads",
    "cores_used",
    "cores_used_by_others",
    "cores_waited_for",
    "cores_idle",
    "consumer_waits",
    "delivered",
    "sink_fill",
    "short_of_bytes",
)
_OF_SOURCE = ("busy", "rate")
_OF_STAGE = ("occupancy", "rate", "held", "blocked", "runs", "waits_for_thread", "waits", "alone")
_OF_OPS = ("seconds", "failing", "lost")


def window_of_all(watched: Watched) -> Window:
    """Return the window of all that was seen: of the time that was watched, without that between two pipelines."""
    found = [window_of(each.head, seen) for each, seen in zip(watched.pipelines, watched.seen, strict=True)]
    return found[0] if len(found) == 1 else _combined(found)


def _combined(found: Sequence[Window]) -> Window:
    last, seconds = found[-1], [each.seconds for each in found]
    region = max(found, key=lambda each: each.region_cores)
    return replace(
        last,
        seconds=sum(seconds),
        sources=tuple(_source(sources, seconds) for sources in zip(*(each.sources for each in found), strict=True)),
        stages=tuple(_stage(stages, seconds) for stages in zip(*(each.stages for each in found), strict=True)),
        peak_bytes=max(each.peak_bytes for each in found),
        is_stopped=all(each.is_stopped for each in found),
        region=region.region,
        region_cores=region.region_cores,
        **_means(_OF_PIPELINE, found, seconds),
    )


def _source(found: Sequence[SourceWindow], seconds: Sequence[float]) -> SourceWindow:
    return replace(found[-1], per_second=_per_second(found, seconds), **_means(_OF_SOURCE, found, seconds))


def _stage(found: Sequence[StageWindow], seconds: Sequence[float]) -> StageWindow:
    ops = [each.rate * time for each, time in zip(found, seconds, strict=True)]
    busy = [count * each.seconds for each, count in zip(found, ops, strict=True)]
    return replace(
        found[-1],
        pool=max(each.pool for each in found),
        per_second=_per_second(found, seconds),
        sleeps=None if any(each.sleeps is None for each in found) else _means(("sleeps",), found, seconds)["sleeps"],
        **_means(_OF_STAGE, found, seconds),
        **_means(_OF_OPS, found, ops),
        **_means(("cpu",), found, busy),
    )


def _per_second(found: Sequence[SourceWindow | StageWindow], seconds: Sequence[float]) -> Counts:
    names = [each.name for each in fields(Counts)]
    return Counts(**_means(names, [each.per_second for each in found], seconds))


def _means(names: Sequence[str], found: Sequence[object], weights: Sequence[float]) -> dict[str, Any]:
    """Return the weighted means of some attributes; the plain ones if no weight is known."""
    weights = weights if any(weights) else [1.0] * len(found)
    return {
        name: sum(getattr(each, name) * weight for each, weight in zip(found, weights, strict=True)) / sum(weights)
        for name in names
    }
