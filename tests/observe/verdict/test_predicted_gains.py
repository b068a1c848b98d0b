"""The gain that is predicted where ops compute is what the remedy gains: in virtual time, so no machine is too busy."""

from __future__ import annotations

import dataclasses
import heapq
import random
from typing import TYPE_CHECKING

import pytest
from tests.tune.simulator import Graph, Machine, Stage, World, run

from spdl.observe import SourceWindow, StageWindow, Window
from spdl.observe import verdict as decide
from spdl.observe._verdict.verdict import gain_of_threads
from spdl.tune._limits import Limits

if TYPE_CHECKING:
    from spdl.observe import Verdict

SETTLING, SECONDS = 0.5, 5.0
NAMES = ("read", "work", "check")
WORK = NAMES.index("work")


def measured(graph: Graph, limits: Limits) -> Window:
    """Return what is seen of a graph that runs for some seconds."""
    world = World(graph, limits, seed=0)
    world.advance(SETTLING)
    before = world.observe()
    world.advance(SETTLING + SECONDS)
    after = world.observe()
    busy = [b.busy_seconds - a.busy_seconds for a, b in zip(before.stages, after.stages, strict=True)]
    done = [b.completed - a.completed for a, b in zip(before.stages, after.stages, strict=True)]
    stages = []
    for name, stage, concurrency, seconds, count in zip(
        NAMES, graph.stages, limits.concurrency, busy, done, strict=True
    ):
        computes = count * (stage.native + stage.gil) / seconds
        waits = count * stage.io / seconds
        stages.append(
            StageWindow(
                name=name,
                op=name,
                gathers=False,
                served_by="threads",
                adjustable=True,
                concurrency=concurrency,
                pool=0,
                occupancy=min(1.0, seconds / SECONDS / concurrency),
                rate=count / SECONDS,
                seconds=seconds / count,
                cpu=computes,
                failing=0.0,
                lost=0.0,
                held=0.0,
                buffered=0,
                oldest=seconds / count,
                runs=computes,
                waits_for_thread=max(0.0, 1 - computes - waits) if stage.gil else 0.0,
                waits=waits,
            )
        )
    return Window(
        seconds=SECONDS,
        num_threads=limits.num_threads,
        busy_threads=sum(busy) / SECONDS,
        cores=graph.machine.cores,
        gil=True,
        cores_used=(after.cpu_seconds - before.cpu_seconds) / SECONDS,
        cores_used_by_others=0.0,
        cores_waited_for=(after.core_seconds - before.core_seconds) / SECONDS,
        consumer_waits=(after.consumer_waited - before.consumer_waited) / SECONDS,
        consumer_waits_for=0.0,
        delivered=(after.delivered - before.delivered) / SECONDS,
        sink_size=0,
        sink_capacity=limits.buffer_size,
        sink_fill=0.0,
        sources=(
            SourceWindow(
                "src",
                (after.sources[0].busy_seconds - before.sources[0].busy_seconds) / SECONDS,
                done[0] / SECONDS,
                0.0,
            ),
        ),
        stages=tuple(stages),
    )


def gain_of(graph: Graph, limits: Limits, verdict: Verdict) -> float:
    """Return how many times faster the graph is with the remedy that the verdict names."""
    stage, concurrency = graph.stages[WORK], list(limits.concurrency)
    if verdict.kind == "GIL":
        # In a process of its own, Python code holds no GIL that matters to others.
        processes = verdict.settings["processes"]
        stage = dataclasses.replace(stage, native=stage.native + stage.gil, gil=0.0, on_threads=False, inner=processes)
        concurrency[WORK] = 2 * processes
    else:
        concurrency[WORK] = verdict.settings.get("concurrency", concurrency[WORK])
    stages = (*graph.stages[:WORK], stage, *graph.stages[WORK + 1 :])
    remedied = Limits(
        max(limits.num_threads, verdict.settings.get("num_threads", 0)), tuple(concurrency), limits.buffer_size
    )
    after = run(dataclasses.replace(graph, stages=stages), remedied, SECONDS, settling=SETTLING)
    return after / run(graph, limits, SECONDS, settling=SETTLING)


def planted(kind: str, seed: int) -> tuple[Graph, Limits]:
    """Return a graph whose middle stage computes and is the limit: with the GIL, or in too few slots without it."""
    draw = random.Random(f"{kind} {seed}")
    cores = draw.choice([2, 4, 8])
    seconds = draw.uniform(0.002, 0.02)
    slots = draw.randint(2, 2 * cores) if kind == "GIL" else draw.randint(1, cores // 2)
    # What one item takes in the stage, however many it works on at once.
    each = seconds if kind == "GIL" else seconds / slots
    work = Stage(gil=seconds, sigma=0.1) if kind == "GIL" else Stage(native=seconds, sigma=0.1)
    read, check = (Stage(native=draw.uniform(0.01, 0.4) * each, sigma=0.1) for _ in range(2))
    graph = Graph(
        (read, work, check),
        source=draw.uniform(0.0, 0.3) * each,
        consumer=draw.uniform(0.0, 0.6) * each,
        machine=Machine(cores=cores),
    )
    return graph, Limits(slots + 2, (1, slots, 1), 4)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["CPU", "GIL"])
def test_the_predicted_gain_is_what_the_remedy_gains(kind: str, seed: int) -> None:
    graph, limits = planted(kind, seed)
    verdict = decide(measured(graph, limits))
    assert (verdict.kind, verdict.stage) == (kind, "work"), verdict.sentence()
    assert verdict.bound == pytest.approx(gain_of(graph, limits, verdict), rel=0.25), verdict.sentence()


def partly(share: float, seed: int) -> tuple[Graph, Limits]:
    """Return a graph whose middle stage holds the GIL for a share of what it computes, in several slots."""
    draw = random.Random(f"{share} {seed}")
    cores = draw.choice([2, 4, 8])
    seconds = draw.uniform(0.002, 0.02)
    slots = draw.randint(2, cores)
    work = Stage(gil=share * seconds, native=(1 - share) * seconds, sigma=0.1)
    read, check = (Stage(native=draw.uniform(0.01, 0.2) * seconds / slots, sigma=0.1) for _ in range(2))
    graph = Graph((read, work, check), source=0.0, consumer=0.1 * seconds / slots, machine=Machine(cores=cores))
    return graph, Limits(slots + 2, (1, slots, 1), 4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_of_ops_that_hold_the_gil_for_a_part_none_is_predicted_that_does_not_come(share: float, seed: int) -> None:
    graph, limits = partly(share, seed)
    verdict = decide(measured(graph, limits))
    assert verdict.stage in ("work", ""), verdict.sentence()
    if verdict.bound is not None:
        assert verdict.bound == pytest.approx(gain_of(graph, limits, verdict), rel=0.25), verdict.sentence()


def simulated(threads: int, part: float, ops: int = 60_000) -> tuple[float, float]:
    """Return how many ops end in the time of one, and which share of the time threads wait for their turn.

    The parts of an op with and without the turn take exponentially distributed times.
    """
    draw = random.Random(f"{threads} {part}")
    # When each thread asks for its turn next.
    asks = [draw.expovariate(1.0) for _ in range(threads)]
    heapq.heapify(asks)
    free_at = waited = 0.0
    for _ in range(ops):
        asked = heapq.heappop(asks)
        begins = max(asked, free_at)
        waited += begins - asked
        free_at = begins + draw.expovariate(1 / part)
        heapq.heappush(asks, free_at + draw.expovariate(1 / (1 - part)))
    return ops / free_at, waited / (threads * free_at)


@pytest.mark.parametrize(("now", "then"), [(2, 3), (2, 8), (4, 8), (8, 16)])
@pytest.mark.parametrize("part", [0.1, 0.3, 0.6, 0.9])
def test_the_gain_of_threads_that_take_turns_is_that_of_a_simulation(now: int, then: int, part: float) -> None:
    rate, waits = simulated(now, part)
    assert gain_of_threads(now, then, waits) == pytest.approx(simulated(then, part)[0] / rate, rel=0.1)


def test_threads_that_never_wait_are_as_many_times_faster_as_there_are_more_of_them() -> None:
    assert gain_of_threads(2, 8, 0.0) == pytest.approx(4.0, rel=0.05)


def test_threads_that_wait_all_the_time_gain_nothing() -> None:
    assert gain_of_threads(4, 16, 0.75) == pytest.approx(1.0, rel=0.01)
