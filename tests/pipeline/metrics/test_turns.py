"""How many more ops threads end that take turns for a part of each: beside what a simulation of them counts."""

from __future__ import annotations

import heapq
import random

import pytest

from spdl.pipeline._metrics.turns import gain_of_threads


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
def test_the_gain_is_that_of_a_simulation(now: int, then: int, part: float) -> None:
    rate, waits = simulated(now, part)
    assert gain_of_threads(now, then, waits) == pytest.approx(simulated(then, part)[0] / rate, rel=0.1)


def test_threads_that_never_wait_are_as_many_times_faster_as_there_are_more_of_them() -> None:
    assert gain_of_threads(2, 8, 0.0) == pytest.approx(4.0, rel=0.05)


def test_threads_that_wait_all_the_time_gain_nothing() -> None:
    assert gain_of_threads(4, 16, 0.75) == pytest.approx(1.0, rel=0.01)
