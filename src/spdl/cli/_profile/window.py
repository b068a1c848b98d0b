"""A pipeline as its stages were measured alone: the window that the verdict on a profile judges."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spdl.observe import StageWindow, Window
from spdl.observe._window.window_of import LONG

if TYPE_CHECKING:
    from spdl.pipeline import ProfileResult, ProfileStats

ENOUGH = 0.9
"""The share of a stage's best rate that is enough. More threads for the rest are not worth their contention."""

# Ops wait for each other if the profile finds one of these.
_FOR_EACH_OTHER = ("holds", "partly", "takes turns")


def has_choice(result: ProfileResult) -> bool:
    """Return whether a stage was measured at several concurrencies."""
    return len(result.stats) > 1


def window_of_profile(results: Sequence[ProfileResult], rates: Sequence[float], rate: float, cores: float) -> Window:
    """Return what the whole pipeline does at a rate, as far as measurements of each stage alone tell.

    Each stage is as it was measured at the least concurrency above 1 that is about as fast as any: there ops show
    whether they wait for each other.

    Args:
        results: The profile, with at least one stage.
        rates: The source items per second that each stage keeps up with at best.
        rate: The source items per second that the pipeline can do.
        cores: How many cores the process may use.
    """
    stages = [_stage(result, rate, best) for result, best in zip(results, rates, strict=True)]
    in_threads = [stage for stage in stages if stage.served_by == "threads"]
    used = sum(stage.occupancy * stage.concurrency * stage.cpu for stage in stages)
    threads = sum(stage.concurrency for stage in in_threads)
    fullest = max(zip(stages, results, strict=True), key=lambda pair: pair[0].occupancy)[1]
    return Window(
        seconds=sum(stats.seconds for result in results for stats in result.stats),
        num_threads=threads,
        # If the cores are all in use, all threads are in ops and wait for one.
        busy_threads=threads
        if used >= ENOUGH * cores
        else sum(each.occupancy * each.concurrency for each in in_threads),
        cores=cores,
        gil=getattr(sys, "_is_gil_enabled", lambda: True)(),
        cores_used=min(used, cores),
        cores_used_by_others=0.0,
        cores_waited_for=0.0,
        consumer_waits=1.0,
        consumer_waits_for=0.0,
        delivered=rate,
        sink_size=0,
        sink_capacity=1,
        sink_fill=0.0,
        sources=(),
        stages=tuple(stages),
        looked=not has_choice(fullest) or fullest.gil != "unknown",
        profiled=True,
    )


def telling(result: ProfileResult) -> ProfileStats:
    """Return the measurement of the least concurrency above 1 that is about as fast as any of these."""
    several = sorted((it for it in result.stats if it.concurrency > 1), key=lambda it: it.concurrency)
    least = ENOUGH * max((_items(it) for it in several), default=0.0)
    return next((it for it in several if _items(it) >= least), result.stats[-1])


def _items(stats: ProfileStats) -> float:
    return max(1, stats.num_inputs) / stats.seconds if stats.seconds else 0.0


def _stage(result: ProfileResult, rate: float, best: float) -> StageWindow:
    stats, alone = telling(result), min(result.stats, key=lambda it: it.concurrency)
    seconds, seconds_alone = (it.busy_seconds / max(1, it.num_inputs) for it in (stats, alone))
    cpu = min(1.0, stats.cpu_seconds / stats.busy_seconds) if stats.busy_seconds else 0.0
    # One op alone waits as long for what is no other op's.
    waits = (1 - result.cpu_share) * min(1.0, seconds_alone / seconds) if seconds and has_choice(result) else 1 - cpu
    for_each_other = max(0.0, 1 - cpu - waits) if result.gil in _FOR_EACH_OTHER else 0.0
    return StageWindow(
        name=result.name,
        op=result.name,
        gathers=not has_choice(result),
        served_by="loop" if result.is_async else "threads",
        adjustable=has_choice(result),
        concurrency=stats.concurrency,
        pool=0,
        occupancy=min(1.0, rate / best) if best else 0.0,
        rate=rate * result.flow,
        seconds=seconds,
        cpu=cpu,
        failing=0.0,
        lost=stats.num_failures / stats.num_inputs if stats.num_inputs else 0.0,
        held=0.0,
        buffered=0,
        oldest=0.0,
        # A thread that waits for neither computes, or would if a core was free.
        runs=max(0.0, 1 - waits - for_each_other),
        waits_for_thread=for_each_other,
        waits=waits,
        alone=1.0 if for_each_other else 0.0,
        sleeps=stats.sleeps if seconds >= LONG else None,
    )
