"""Watches pipelines of other processes from one epoch to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from time import perf_counter, sleep
from typing import Any

from spdl.observe._page import ObservedPipeline, PageError, find_pipelines
from spdl.observe._window.seen import SHORTEST, Seen, look_at
from spdl.observe._window.window import SourceWindow, StageWindow, Window
from spdl.observe._window.window_of import window_of
from spdl.pipeline._report.page_file import pid_namespace, started_ticks
from spdl.pipeline._report.sample import Counts

# Seconds between two searches for the next pipeline.
_AGAIN = 0.02
# This share of the time says as much as all of it.
_ENOUGH = 0.5
# A pipeline that is watched from its start counts beside the others from this number of seconds on.
_PART = 0.05


@dataclass(frozen=True, slots=True)
class Watched:
    pipelines: Sequence[ObservedPipeline]
    seen: Sequence[Seen]


def watch_epochs(
    pipeline: ObservedPipeline,
    seconds: float,
    longest: float,
    claim: Callable[[ObservedPipeline], bool],
    pause: Callable[[float], object] = sleep,
) -> Watched:
    """Watch a pipeline for some time. If it ends soon, go on with those like it that follow in its process.

    That may take `longest` seconds, the time between two pipelines included. `claim` returns whether a following
    pipeline should be watched here, and not elsewhere. `pause` raises to give up.

    Raises:
        PageError: If the page of the pipeline holds nothing yet, or is damaged.
    """
    deadline = perf_counter() + longest
    first = look_at(pipeline, seconds, pause)
    # Pipelines that ended too soon, and are known since their start, and parts of the others.
    whole, parts = ([(pipeline, first)], []) if first.state else ([], [(pipeline, first)])
    while pipeline.state() == "ended" and (watched := _seconds(parts)) < _ENOUGH * seconds:
        following = _next(pipeline, deadline, claim, pause)
        left = min(seconds - watched, deadline - perf_counter())
        if following is None or left < min(_PART, _ENOUGH * seconds):
            break
        pipeline = following
        if (seen := _watch(pipeline, left, pause)) is not None:
            (whole if seen.state else parts).append((pipeline, seen))
    # Less than that tells no more than one that was seen as a whole.
    if whole and _seconds(parts) < min(SHORTEST, _ENOUGH * seconds):
        parts = [max(whole, key=lambda each: each[1].seconds)]
    return Watched([pipeline for pipeline, _ in parts], [seen for _, seen in parts])


def _seconds(parts: Sequence[tuple[ObservedPipeline, Seen]]) -> float:
    return sum(seen.seconds for _, seen in parts)


def _watch(pipeline: ObservedPipeline, seconds: float, pause: Callable[[float], object]) -> Seen | None:
    """Return what a pipeline does from its start; None if its page tells nothing before it ends, or for too long."""
    deadline = perf_counter() + seconds
    while pipeline.state() == "running" and (left := deadline - perf_counter()) > 0:
        try:
            return look_at(pipeline, left, pause, shortest=_PART)
        except PageError:
            # It has only begun.
            pause(_AGAIN)
    return None


def _next(
    pipeline: ObservedPipeline,
    deadline: float,
    claim: Callable[[ObservedPipeline], bool],
    pause: Callable[[float], object],
) -> ObservedPipeline | None:
    """Return the next pipeline of the same stages in a process as soon as it runs; None if none comes in time."""
    head = pipeline.head
    while perf_counter() < deadline:
        for other in find_pipelines(head.pid, folder=pipeline.path.parent):
            like = (other.head.sources, other.head.stages, other.head.loader, other.head.started_ticks)
            if (
                other.head.pipeline > head.pipeline
                and like == (head.sources, head.stages, head.loader, head.started_ticks)
                and other.state() == "running"
                and claim(other)
            ):
                return other
        if head.pid_namespace == pid_namespace() and started_ticks(head.pid) != head.started_ticks:
            return None
        pause(_AGAIN)
    return None


# Means over the time. Others are means over the ops, and the rest is the value of the last one.
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
