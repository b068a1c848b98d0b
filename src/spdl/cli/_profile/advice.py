"""Advice from a profile: how fast the pipeline can be, and the concurrency that each stage needs for that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdl.cli._common.text import duration, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline import ProfileResult

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
    over all stages, needs more than the available cores, or if that of the stages that hold the GIL needs more than one
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
