"""A profile in readable form: a table and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spdl.cli._common.table import Table
from spdl.cli._common.text import duration, number, share
from spdl.cli._profile.advice import cpu_per_item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.cli._common.console import Console
    from spdl.cli._profile.advice import Advice
    from spdl.pipeline import ProfileFailure, ProfileResult

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
        " its limit, or native code that waits without releasing the GIL."
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
