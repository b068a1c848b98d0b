"""The verdict on a pipeline of another process, and on one of this process by its counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import sleep
from typing import TYPE_CHECKING

from spdl.observe._page import PageError, find_pipelines
from spdl.observe._verdict.decide import verdict
from spdl.observe._verdict.verdict import Verdict, percent
from spdl.observe._window.seen import look_at, look_once, since_the_start
from spdl.observe._window.window import Window
from spdl.observe._window.window_of import window_of
from spdl.pipeline._report.counters import StoreCounts
from spdl.pipeline._report.sample import Sample

if TYPE_CHECKING:
    from spdl.observe._page import ObservedPipeline
    from spdl.pipeline._report.statistics import PageHead


# As many looks at the threads, and seconds before each.
_LOOKS, _BETWEEN = 5, 0.001
# With these, nothing waits for what is read.
_NOT_OF_READING = ("slow consumer", "CPU", "memory budget")
# Fewer requests than this say nothing.
_ENOUGH = 20
# From this share on, requests that were sent again or twice, or what a cache could not keep, are spoken of.
_MANY_AGAIN = 0.03
_MANY_TWICE = 0.03
_MANY_UNCACHED = 0.1

_COUNTED = ("requests", "retries", "hedges", "misses", "uncached")
_TOO = "that it read: they are too large for its max_bytes, the disk is full, or they have no etag."
_KINDS = {
    "throttled": "the server was too busy (429, 503)",
    "broken": "the server or the network failed",
    "cut": "the answer was cut",
    "wrong": "the answer was not what was asked for",
    "late": "nothing was heard for too long",
}


def sentence(head: PageHead, sample: Sample, stores: Sequence[StoreCounts]) -> str:
    """Return what limits a pipeline, by what it has counted since its start, and how one can tell."""
    if not any(source.emitted for source in sample.sources):
        return "Nothing has run yet."
    seen = since_the_start(head, sample)
    found = verdict(window_of(head, seen))
    if found.kind == "unclear" and not sample.stopped_at:
        found = verdict(window_of(head, replace(seen, glimpse=_glimpse(head))))
    return found.sentence() + ("" if found.kind in _NOT_OF_READING else trouble(stores))


def _glimpse(head: PageHead) -> list[Sample]:
    """Look at the threads of a pipeline of this process for some milliseconds, unless it has no page."""
    looks = []
    for pipeline in find_pipelines(head.pid):
        if pipeline.head.pipeline == head.pipeline:
            with suppress(PageError):
                for _ in range(_LOOKS):
                    # The moment at which an item has just arrived is not like others.
                    sleep(_BETWEEN)
                    looks.append(look_once(pipeline))
    return looks


def trouble(stores: Sequence[StoreCounts]) -> str:
    """Return a sentence on what makes reading from the stores slow, with a space before it, or ''."""
    found = []
    for store in stores:
        name, (requests, retries, hedges, misses, uncached) = store.name, map(store.counts.get, _COUNTED, 5 * (0,))
        of_requests = f"of the {requests:,.0f} requests of {name} were"
        for part, whole, many, before, behind in (
            (retries, requests, _MANY_AGAIN, "", f"{of_requests} tried again{_why(store.counts)}."),
            (hedges, requests, _MANY_TWICE, "", f"{of_requests} so late that they were sent twice."),
            (uncached, misses, _MANY_UNCACHED, f"{name} could not keep ", f"of the {misses:,.0f} objects {_TOO}"),
        ):
            if whole >= _ENOUGH and part >= many * whole:
                found.append((part / whole, f" Reading is slowed down: {before}{percent(part / whole)} {behind}"))
    return max(found)[1] if found else ""


def _why(counts: Mapping[str, float]) -> str:
    """Return what requests have failed by most of all."""
    kind = max(_KINDS, key=lambda kind: counts.get(kind, 0))
    times = counts.get(kind, 0)
    return f"; {times:,.0f} time{'s' if times != 1 else ''} {_KINDS[kind]}" if times else ""


SECONDS = 1.2


def watch(pipeline: ObservedPipeline, seconds: float = SECONDS) -> Window:
    """Watch a pipeline for a while, and return what it did.

    Args:
        pipeline: The pipeline, of any process of this user.
        seconds: How many seconds to watch it. Of one that has ended, the window is all of its life.

    Raises:
        PageError: If its page holds nothing yet, or is damaged.

    Example:
        >>> import os
        >>> from spdl.observe import find_pipelines, verdict, watch
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(1000)).pipe(str).add_sink(2).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     item = pipeline.get_item()
        ...     window = watch(find_pipelines(os.getpid())[0], seconds=0.2)
        >>> [stage.name for stage in window.stages]
        ['str']
        >>> # If other programs have the cores, the kind is another one.
        >>> verdict(window).kind  # doctest: +SKIP
        'slow consumer'
    """
    return window_of(pipeline.head, look_at(pipeline, seconds))


def diagnose(pipeline: ObservedPipeline, seconds: float = SECONDS) -> Verdict:
    """Watch a pipeline for a while, and return what limits it: the `verdict` on what `watch` returns.

    Args:
        pipeline: The pipeline, of any process of this user.
        seconds: How many seconds to watch it. Ops that take as long as that ask for more.

    Raises:
        PageError: If its page holds nothing yet, or is damaged.

    Example:
        >>> import os, time
        >>> from spdl.observe import diagnose, find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(1000)).add_sink(2).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     item = pipeline.get_item()
        ...     verdict = diagnose(find_pipelines(os.getpid())[0], seconds=0.2)
        >>> # If other programs have the cores, the kind is another one.
        >>> verdict.kind  # doctest: +SKIP
        'slow consumer'
        >>> isinstance(verdict.sentence(), str)
        True
    """
    return verdict(watch(pipeline, seconds))
