"""A profile as a table, the verdict on it, and what it says to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spdl.cli._common.table import Table
from spdl.cli._common.text import duration, number, share
from spdl.cli._profile.window import ENOUGH, has_choice, window_of_profile
from spdl.observe import Verdict, verdict

if TYPE_CHECKING:
    from spdl.cli._common.console import Console
    from spdl.pipeline import ProfileFailure, ProfileResult

SPARE = 1.2
"""How much faster than the pipeline a stage should be, so that it does not become another limit."""


@dataclass(frozen=True)
class Advice:
    """A recommendation for a pipeline.

    Attributes:
        concurrency: The concurrency of each stage, in the order of the profile.
        num_threads: The threads of the pipeline, so that no stage waits for another's threads.
        items_per_second: The best possible rate at which items leave the source.
        verdict: The limit of the rate.
    """

    concurrency: Sequence[int]
    num_threads: int
    items_per_second: float
    verdict: Verdict


def advise(results: Sequence[ProfileResult], cores: float) -> Advice:
    """Recommend a concurrency for each stage.

    The pipeline is as fast as its slowest stage at its best concurrency. It is slower if the CPU time per item, summed
    over all stages, needs more than the available cores, or if the stages that hold the GIL need more than one
    core. Each stage gets the least concurrency that keeps up with this rate.

    Args:
        results: The profile, with at least one stage.
        cores: How many cores the process may use.
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
    """Print a profile and the advice.

    Args:
        results: The profile, with at least one stage.
        advice: The advice on it.
        cores: How many cores the process may use.
        console: The console to print on.
    """
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
