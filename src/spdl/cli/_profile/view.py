"""A profile as a window that the verdict judges, as a table, and what it says to do."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spdl.cli._common.text import Table, duration, number, share
from spdl.observe import StageWindow, Verdict, Window, verdict
from spdl.observe._window.window_of import LONG

if TYPE_CHECKING:
    from spdl.cli._common.console import Console
    from spdl.pipeline import ProfileFailure, ProfileResult, ProfileStats


ENOUGH = 0.9
"""The share of a stage's best rate that is enough. More threads for the rest are not worth their contention."""

# Ops wait for each other if the profile finds one of these.
_FOR_EACH_OTHER = ("holds", "partly", "takes turns")


def has_choice(result: ProfileResult) -> bool:
    return len(result.stats) > 1


def window_of_profile(results: Sequence[ProfileResult], rates: Sequence[float], rate: float, cores: float) -> Window:
    """Return what the whole pipeline does at a rate, as far as measurements of each stage alone tell.

    Each stage is as it was measured at the least concurrency above 1 that is about as fast as any: there ops show
    whether they wait for each other. `rates` are the source items per second that each stage keeps up with at best.
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
        consumer_waits=1.0,
        delivered=rate,
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
        occupancy=min(1.0, rate / best) if best else 0.0,
        rate=rate * result.flow,
        seconds=seconds,
        cpu=cpu,
        lost=stats.num_failures / stats.num_inputs if stats.num_inputs else 0.0,
        # A thread that waits for neither computes, or would if a core was free.
        runs=max(0.0, 1 - waits - for_each_other),
        waits_for_thread=for_each_other,
        waits=waits,
        alone=1.0 if for_each_other else 0.0,
        sleeps=stats.sleeps if seconds >= LONG else None,
    )


SPARE = 1.2
"""How much faster than the pipeline a stage should be, so that it does not become another limit."""


@dataclass(frozen=True)
class Advice:
    """A concurrency for each stage, threads for all of them, the best rate of the source, and what limits it."""

    concurrency: Sequence[int]
    num_threads: int
    items_per_second: float
    verdict: Verdict


def advise(results: Sequence[ProfileResult], cores: float) -> Advice:
    """Recommend a concurrency for each stage.

    The pipeline is as fast as its slowest stage at its best concurrency. It is slower if the CPU time per item, summed
    over all stages, needs more than the available cores, or if the stages that hold the GIL need more than one
    core. Each stage gets the least concurrency that keeps up with this rate.
    """
    rates = [_rates(result) for result in results]
    best = [max(it.values()) for it in rates]
    cpu = [cpu_per_item(result) for result in results]
    held = [it if result.gil == "holds" else 0.0 for it, result in zip(cpu, results, strict=True)]
    limit = min(*best, _quotient(cores, sum(cpu)), _quotient(1.0, sum(held)))
    concurrency = [_needed(it, limit, _useful(result, cores)) for it, result in zip(rates, results, strict=True)]
    threads = sum(
        it for it, result in zip(concurrency, results, strict=True) if has_choice(result) and not result.is_async
    )
    found = verdict(window_of_profile(results, best, limit, cores))
    return Advice(concurrency, max(1, threads), limit, _with_cost_of_processes(found, results))


def _rates(result: ProfileResult) -> dict[int, float]:
    """Return the source items per second that the stage keeps up with, by concurrency, rising."""
    found = {
        it.concurrency: max(1, it.num_inputs) / it.seconds / result.flow if it.seconds and result.flow else math.inf
        for it in result.stats
    }
    return dict(sorted(found.items()))


def cpu_per_item(result: ProfileResult) -> float:
    """Return the stage's CPU seconds per source item without contention."""
    least = min(result.stats, key=lambda it: it.concurrency)
    return result.flow * least.cpu_seconds / max(1, least.num_inputs)


def _quotient(value: float, by: float) -> float:
    return value / by if by > 0 else math.inf


def _useful(result: ProfileResult, cores: float) -> float:
    """Return the concurrency above which the ops only wait for each other: for the GIL, or for a core."""
    computing_at_once = {"holds": 1.0, "partly": cores, "releases": cores}.get(result.gil, math.inf)
    return computing_at_once / result.cpu_share if result.cpu_share else math.inf


def _needed(rates: dict[int, float], limit: float, useful: float) -> int:
    """Return the least concurrency that keeps up with the limit, as far as it can be told."""
    target = min(ENOUGH * max(rates.values()), SPARE * limit)
    slots, rate = 0, 0.0
    needed = float(max(rates))
    for following, its_rate in rates.items():
        if its_rate >= target:
            # Between two measurements, assume that each slot does as much as it did at the lower concurrency.
            needed = min(following, slots * target / rate) if slots else following
            break
        slots, rate = following, its_rate
    return max(1, math.ceil(min(needed, useful)))


SLIGHT = 0.05
"""What handing an item over to a process takes, as a share of the op's time, is worth no remark below this."""
WORTH = 1.5
"""Processes that make a stage faster by less than this factor are not worth it."""

UNKNOWN = (
    "may hold the GIL or not: it was measured too shortly (raise --num-inputs), or the machine was busy with other"
    " work, or does not tell how long threads wait for cores."
)


def print_profile(results: Sequence[ProfileResult], advice: Advice, cores: float, console: Console) -> None:
    console.print()
    console.table(profile_table(results, advice))
    for result in results:
        for failure in result.failures:
            console.print(_failure(result, failure))
        if has_choice(result) and result.gil == "unknown":
            console.print(f"{result.name!r} {UNKNOWN}")
    console.print(advice.verdict.sentence())
    console.print(f"Expect {number(advice.items_per_second)} items/s from the source at best, on {cores:g} cores.")
    console.print(f"Recommended: num_threads={advice.num_threads}, and each stage's concurrency as in the table.")


def _with_cost_of_processes(found: Verdict, results: Sequence[ProfileResult]) -> Verdict:
    """Return a verdict with what limits processes as a remedy, if something does."""
    result = next((it for it in results if it.name == found.stage and found.kind == "GIL"), None)
    if result is None or result.hand_over_seconds is None:
        return found
    alone = min(result.stats, key=lambda it: it.concurrency)
    op, hand_over = alone.busy_seconds / max(1, alone.num_inputs), result.hand_over_seconds
    if hand_over < SLIGHT * op:
        return found
    pickling = f"this process pickles each item and unpickles each result, {duration(hand_over)} of its own time, and"
    said = f"But processes make it at most {op / hand_over:.1f} times faster: {pickling} the op takes {duration(op)}."
    if op < WORTH * hand_over:
        said = (
            f"But processes gain little here: {pickling} the op takes {duration(op)}. Let the op return less, or"
            " arrays instead of many objects."
        )
    bound = None if found.bound is None else min(found.bound, max(1.0, op / hand_over))
    return replace(found, remedy=f"{found.remedy} {said}", bound=bound)


def profile_table(results: Sequence[ProfileResult], advice: Advice) -> Table:
    """Return the table of the stages: rates by concurrency, cost of an item, GIL, and recommended concurrency."""
    concurrencies = sorted({it.concurrency for result in results for it in result.stats})
    header = ["stage", *(f"at {it}" for it in concurrencies), "computes", "CPU/item", "GIL", "concurrency", "failed"]
    table = Table("Each stage alone: results per second at a concurrency", header, rare=("failed",))
    for result, recommended in zip(results, advice.concurrency, strict=True):
        rates = {it.concurrency: number(it.qps) for it in result.stats}
        row = [result.name, *(rates.get(it, "") for it in concurrencies)]
        if has_choice(result):
            least = min(result.stats, key=lambda it: it.concurrency)
            cost = duration(least.cpu_seconds / max(1, least.num_inputs))
            row += [share(result.cpu_share), cost, result.gil, str(recommended)]
        else:
            row += ["", "", "", "1"]
        table.rows.append([*row, _failed(result)])
    return table


def _failure(result: ProfileResult, failure: ProfileFailure) -> str:
    place = f" ({failure.place})" if failure.place else ""
    return f"{result.name!r} failed on {failure.num_items:,} of its {result.num_items:,} items: {failure.error}{place}"


def _failed(result: ProfileResult) -> str:
    tried, failed = sum(it.num_inputs for it in result.stats), sum(it.num_failures for it in result.stats)
    return f"{failed / tried:.1%}" if failed else ""
