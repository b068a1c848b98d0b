"""Watches the pipelines that a program makes one after the other, such as one for each epoch."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter, sleep
from typing import TYPE_CHECKING

from spdl.observe._page.find_pipelines import find_pipelines
from spdl.observe._page.page_head import PageError
from spdl.pipeline._report.page_file import pid_namespace, started_ticks

from .seen import SHORTEST, look_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.observe._page.observed_pipeline import ObservedPipeline

    from .seen import Seen

__all__ = ["Watched", "watch_epochs"]

# The next pipeline is looked for so often, in seconds.
_AGAIN = 0.02
# This share of the time says as much as all of it.
_ENOUGH = 0.5
# Of one that is watched from its start, so many seconds are worth something beside those of others.
_PART = 0.05


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of a pipeline, or of several that followed each other.

    Attributes:
        pipelines: They, in order.
        seen: What each of them did.
    """

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

    Args:
        pipeline: The pipeline.
        seconds: How long to watch.
        longest: How long that may take, the time between two pipelines included.
        claim: What says whether one that follows is to be watched here, and not elsewhere.
        pause: What waits for some seconds. It raises to give up.

    Raises:
        PageError: If the page of the pipeline holds nothing yet, or is damaged.
    """
    deadline = perf_counter() + longest
    first = look_at(pipeline, seconds, pause)
    # Those that ended too soon, of which all that they did is known since their start, and parts of the others.
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
    """Return the next pipeline of the same stages in a process as soon as it runs; None if there is none in time."""
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
