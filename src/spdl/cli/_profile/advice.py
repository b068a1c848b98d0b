"""What to make of a profile: how fast the pipeline can be, and which concurrency each stage needs for that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdl.cli._common.text import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline import ProfileResult

ENOUGH = 0.9
"""More threads that bring less than the rest of a stage's best rate are not worth their contention."""

SPARE = 1.2
"""How much faster than the pipeline a stage should be so as not to be another limit."""


@dataclass(frozen=True)
class Advice:
    """What is recommended.

    Attributes:
        concurrency: For each stage, in the order of the profile.
        num_threads: For the pipeline: so that no stage waits for another's threads.
        items_per_second: What comes out of the source per second, at best.
        limit: A sentence: what does not allow for more.
    """

    concurrency: Sequence[int]
    num_threads: int
    items_per_second: float
    limit: str


def advise(results: Sequence[ProfileResult], cores: float) -> Advice:
    """Recommend a concurrency for each stage.

    The pipeline is as fast as its slowest stage at its best concurrency, unless the stages' CPU time per item, added
    up, needs more than the cores, or that of the stages that hold the GIL more than one. Each stage needs the least
    concurrency at which it keeps up with that.

    Args:
        results: The profile; at least one stage.
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
    """Source items per second that the stage keeps up with, by concurrency, rising."""
    found = {
        it.concurrency: max(1, it.num_inputs) / it.seconds / result.flow if it.seconds and result.flow else math.inf
        for it in result.stats
    }
    return dict(sorted(found.items()))


def cpu_per_item(result: ProfileResult) -> float:
    """CPU seconds in the stage per source item, where nothing contends."""
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
    """The concurrency above which the ops only wait for each other: for the GIL, or for a core."""
    computing_at_once = {"holds": 1.0, "partly": cores, "releases": cores}.get(result.gil, math.inf)
    return computing_at_once / result.cpu_share if result.cpu_share else math.inf


def _needed(rates: dict[int, float], limit: float, useful: float) -> int:
    """The least concurrency that keeps up with the limit, as far as it can be told."""
    target = min(ENOUGH * max(rates.values()), SPARE * limit)
    slots, rate = 0, 0.0
    needed = float(max(rates))
    for following, its_rate in rates.items():
        if its_rate >= target:
            # Between two measurements: as many as it takes if each slot does what it did with fewer of them.
            needed = min(following, slots * target / rate) if slots else following
            break
        slots, rate = following, its_rate
    return max(1, math.ceil(min(needed, useful)))


def duration(seconds: float) -> str:
    """Return a short time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds * 1e6)} us"
