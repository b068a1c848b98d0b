"""A profile as a table, and what it says to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spdl.cli._common.table import Table
from spdl.cli._common.text import duration, number, share
from spdl.observe._verdict.verdict import OF_A_LOCK

if TYPE_CHECKING:
    from spdl.cli._common.console import Console
    from spdl.pipeline import ProfileFailure, ProfileResult

ENOUGH = 0.9
"""The share of a stage's best rate that is enough. More threads for the rest are not worth their contention."""

SPARE = 1.2
"""How much faster than the pipeline a stage should be, so that it does not become another limit."""


@dataclass(frozen=True)
class Advice:
    """A recommendation for a pipeline.

    Attributes:
        concurrency: The concurrency of each stage, in the order of the profile.
        num_threads: The threads of the pipeline, so that no stage waits for another's threads.
        items_per_second: The best possible rate at which items leave the source.
        limit: A sentence that names what limits the rate.
    """

    concurrency: Sequence[int]
    num_threads: int
    items_per_second: float
    limit: str


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
    slowest = min(range(len(best)), key=best.__getitem__)
    limits = [
        (best[slowest], _of_stage(results[slowest].name, best[slowest])),
        (_quotient(cores, sum(cpu)), _of_cpu(results, cpu, cores)),
        (_quotient(1.0, sum(held)), _of_gil(results, held)),
    ]
    limit, sentence = min(limits, key=lambda it: it[0])
    concurrency = [_needed(it, limit, _useful(result, cores)) for it, result in zip(rates, results, strict=True)]
    threads = sum(
        it for it, result in zip(concurrency, results, strict=True) if len(result.stats) > 1 and not result.is_async
    )
    return Advice(concurrency, max(1, threads), limit, sentence)


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


def _of_stage(name: str, rate: float) -> str:
    return f"Stage {name!r} is the limit: alone it keeps up with {number(rate)} items/s at best."


def _of_cpu(results: Sequence[ProfileResult], cpu: Sequence[float], cores: float) -> str:
    most = max(range(len(cpu)), key=cpu.__getitem__)
    return (
        f"The CPU is the limit: the stages take {duration(sum(cpu))} of it per item, most in {results[most].name!r},"
        f" and there are {cores:g} cores."
    )


def _of_gil(results: Sequence[ProfileResult], held: Sequence[float]) -> str:
    most = max(range(len(held)), key=held.__getitem__)
    return f"The GIL is the limit: it is held for {duration(sum(held))} per item, most in {results[most].name!r}."


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


NEGLIGIBLE = 0.02
"""A stage that holds the GIL for less than this share of the time keeps no other waiting."""

SLIGHT = 0.05
"""What handing an item over to a process takes, as a share of the op's time, is worth no remark below this."""
WORTH = 1.5
"""Processes that make a stage faster by less than this factor are not worth it."""

REMEDIES: Final = {
    "holds": (
        "holds the GIL: its ops compute one after the other, whatever the concurrency. Threads do not make it faster;"
        " processes do (pipe(..., executor=ProcessPoolExecutor())), and so do libraries that release the GIL."
    ),
    "partly": "holds the GIL part of the time: more threads help up to a point, if at all.",
    "takes turns": (
        "hardly computes, yet more threads get no more done: look for a lock, a connection that all share, a device at"
        f" its limit, or native code that waits without releasing the GIL. {OF_A_LOCK}"
    ),
    "unknown": (
        "may hold the GIL or not: it was measured too shortly (raise --num-inputs), or the machine was busy with other"
        " work, or does not tell how long threads wait for cores."
    ),
}
"""The remark on a stage besides its figures, by how it shares the GIL."""


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
        if _has_choice(result) and result.gil in REMEDIES:
            console.print(f"{result.name!r} {_remark(result, advice)}")
    console.print(advice.limit)
    console.print(f"Expect {number(advice.items_per_second)} items/s from the source at best, on {cores:g} cores.")
    console.print(f"Recommended: num_threads={advice.num_threads}, and each stage's concurrency as in the table.")


def _remark(result: ProfileResult, advice: Advice) -> str:
    held = advice.items_per_second * cpu_per_item(result)
    if result.gil == "holds" and held < NEGLIGIBLE:
        return f"holds the GIL, but not for long: {held:.1%} of the time at the rate expected below."
    if result.hand_over_seconds is not None:
        return f"{REMEDIES[result.gil]}{_of_processes(result, result.hand_over_seconds)}"
    return REMEDIES[result.gil]


def _of_processes(result: ProfileResult, hand_over: float) -> str:
    """Return what limits processes as a remedy, if something does."""
    alone = min(result.stats, key=lambda it: it.concurrency)
    op = alone.busy_seconds / max(1, alone.num_inputs)
    if hand_over < SLIGHT * op:
        return ""
    pickling = f"this process pickles each item and unpickles each result, {duration(hand_over)} of its own time, and"
    if op < WORTH * hand_over:
        return (
            f" But processes gain little here: {pickling} the op takes {duration(op)}. Let the op return less, or "
            "arrays instead of many objects."
        )
    return f" But processes make it at most {op / hand_over:.1f} times faster: {pickling} the op takes {duration(op)}."


def profile_table(results: Sequence[ProfileResult], advice: Advice) -> Table:
    """Return the table of the stages: rates by concurrency, cost of an item, GIL, and recommended concurrency."""
    concurrencies = sorted({it.concurrency for result in results for it in result.stats})
    header = ["stage", *(f"at {it}" for it in concurrencies), "computes", "CPU/item", "GIL", "concurrency", "failed"]
    table = Table("Each stage alone: results per second at a concurrency", header, rare=("failed",))
    for result, recommended in zip(results, advice.concurrency, strict=True):
        rates = {it.concurrency: number(it.qps) for it in result.stats}
        row = [result.name, *(rates.get(it, "") for it in concurrencies)]
        if _has_choice(result):
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


def _has_choice(result: ProfileResult) -> bool:
    return len(result.stats) > 1
