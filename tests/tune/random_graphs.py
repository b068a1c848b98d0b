"""Random graphs, and how near the tuner comes to the best settings of each."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass

from tests.tune.simulator import TICK, Graph, Machine, Stage, limited, run, tuned_world

__all__ = ["Outcome", "best_slots", "draw", "try_graph"]

_LEVELS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
# How long each graph is tuned.
SECONDS = 20.0
# The slowest graphs are tuned until so many results could have come.
_BATCHES = 200
# So many results tell a rate, and so many where the tuned settings seem worse than the best: the best of several rates
# that are not exact is too high.
_RESULTS = 600
_MANY_RESULTS = 4000
_CLOSE = 0.98


def draw(seed: int) -> Graph:
    """Return a random graph: one to four stages that wait, compute, or hold the GIL."""
    rng = random.Random(seed)
    machine = Machine(cores=rng.choice([1.0, 2.0, 2.0, 4.0, 8.0, 16.0]))
    stages = tuple(_draw_stage(rng) for _ in range(rng.choice([1, 2, 2, 3, 4])))
    if rng.random() < 0.3:
        stages = (*stages[:-1], _batched(stages[-1], rng.choice([2, 4, 8])))
    slow = rng.random()
    return Graph(
        stages,
        source=_log_uniform(rng, 1e-3, 1e-2) if rng.random() < 0.3 else 0.0,
        consumer=_log_uniform(rng, 2e-3, 5e-2) if slow < 0.4 else 0.0,
        machine=machine,
    )


def _draw_stage(rng: random.Random) -> Stage:
    seconds = _log_uniform(rng, 4e-3, 8e-2)
    kind = rng.random()
    # Never 0: ops of exactly the same duration would run in step for ever.
    sigma = rng.choice([0.1, 0.25, 0.5])
    pinned = rng.choice([1, 2, 4, 8]) if rng.random() < 0.2 else None
    if kind < 0.4:
        return Stage(io=seconds, sigma=sigma, pinned=pinned, on_threads=rng.random() < 0.75)
    if kind < 0.65:
        return Stage(native=seconds, sigma=sigma, pinned=pinned)
    if kind < 0.75:
        return Stage(gil=seconds, sigma=sigma, pinned=pinned)
    share = rng.random()
    return Stage(io=share * seconds, native=(1 - share) * seconds, sigma=sigma, pinned=pinned)


def _batched(stage: Stage, size: int) -> Stage:
    return Stage(stage.io, stage.native, stage.gil, stage.on_threads, size, stage.sigma, stage.pinned)


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


# ---- the best settings ----


def _bound(graph: Graph, slots: tuple[int, ...]) -> float:
    """Return the rate of results that no resource allows to be exceeded."""
    limits = limited(graph, slots)
    sizes = [1]
    for stage in reversed(graph.stages):
        sizes.append(sizes[-1] * stage.batch)
    # So many items each stage, and the source, handles for one result.
    visits = sizes[::-1]
    stages = list(zip(graph.stages, visits, slots, strict=False))
    takes = [
        *(visit * stage.seconds / min(each, stage.inner) for stage, visit, each in stages),
        sum(visit * stage.seconds for stage, visit, _ in stages if stage.on_threads) / limits.num_threads,
        sum(visit * (stage.native + stage.gil) for stage, visit, _ in stages) / graph.machine.cores,
        sum(visit * stage.gil for stage, visit, _ in stages),
        visits[0] * graph.source,
        graph.consumer,
    ]
    return 1 / max(takes)


def best_slots(graph: Graph, seed: int) -> tuple[float, tuple[int, ...]]:
    """Return the best simulated rate, and the concurrencies of the stages there.

    Of the settings that the bounds call best among all, the leanest and fullest are simulated, and two between them.

    All settings are ranked by the bounds, which takes microseconds each.
    """
    levels = [(stage.pinned,) if stage.pinned else _LEVELS for stage in graph.stages]
    ranked = sorted(itertools.product(*levels), key=lambda slots: (-round(_bound(graph, slots), 6), sum(slots)))
    roomy = [slots for slots in ranked if _bound(graph, slots) >= 0.999 * _bound(graph, ranked[0])]
    candidates = {roomy[0], roomy[len(roomy) // 4], roomy[len(roomy) // 2], roomy[-1]}
    return max(((_rate(graph, slots, seed), slots) for slots in sorted(candidates)), key=lambda it: it[0])


@dataclass(frozen=True)
class Outcome:
    """How a graph was tuned.

    Attributes:
        seed: What it was drawn from.
        share: The rate in the end, as a share of the best.
        turns: The changes of direction after it had settled first.
        settled_after: Seconds until it had settled first; infinite if it never had.
        slots: The concurrencies of the stages in the end.
        reason: What was decided last.
    """

    seed: int
    share: float
    turns: int
    settled_after: float
    slots: tuple[int, ...]
    reason: str


def try_graph(seed: int) -> Outcome:
    """Draw a graph, tune it, and compare it with its best settings."""
    graph = draw(seed)
    world, session = tuned_world(graph, seed)
    settled_after, turns, last = math.inf, 0, ""
    best, best_by_hand = best_slots(graph, seed)
    for _ in range(round(max(SECONDS, _BATCHES / best) / TICK)):
        world.advance(world.now + TICK)
        move = session.observe(world.observe())
        if session.settled:
            settled_after = min(settled_after, world.now)
        if move:
            world.change(session.limits)
            if last and settled_after < world.now and (move == "raised") != (last == "raised"):
                turns += 1
            last = move
    slots = session.limits.concurrency
    share = _rate(graph, slots, seed) / best
    if share < _CLOSE:
        one, other = (_rate(graph, each, seed + 1, _MANY_RESULTS) for each in (slots, best_by_hand))
        share = one / other
    return Outcome(seed, share, turns, settled_after, slots, session.reason)


def _rate(graph: Graph, slots: tuple[int, ...], seed: int, results: int = _RESULTS) -> float:
    """Return the simulated rate of results."""
    seconds = results / _bound(graph, slots)
    return run(graph, limited(graph, slots), seconds, seed, settling=max(0.5, 0.1 * seconds))
