"""The limit follows a simulated server: as many requests as it serves without a queue."""

from __future__ import annotations

import heapq
import random

import pytest

from spdl.store._reading.gradient import Gradient


def simulate(
    gradient: Gradient,
    *,
    workers: int,
    seconds: float,
    callers: int,
    share_late: float = 0.0,
    refused: float = 0.0,
    latency: float = 0.04,
) -> tuple[float, list[int]]:
    """Return the answers per second in the last half, and the limits after each answer.

    The server serves `workers` requests at a time, each in `latency` seconds; others wait in its queue.
    """
    generator = random.Random(1)  # noqa: S311 - a script.
    now, under_way, answered = 0.0, 0, 0
    free = [0.0] * workers
    ends: list[tuple[float, float, bool]] = []
    limits = []
    while now < seconds:
        while under_way < min(gradient.limit, callers):
            if generator.random() < refused:
                end, ok = now + 0.005, False
            else:
                end, ok = max(now, heapq.heappop(free)) + latency, True
                heapq.heappush(free, end)
                end += generator.random() < share_late
            heapq.heappush(ends, (end, now, ok))
            under_way += 1
        end, start, ok = heapq.heappop(ends)
        now = end
        if ok:
            gradient.answered(end - start, under_way)
            answered += now > seconds / 2
        else:
            gradient.refused()
        under_way -= 1
        limits.append(gradient.limit)
    return answered / (seconds / 2), limits


@pytest.mark.parametrize("workers", [1, 4, 20, 100, 300])
def test_the_server_is_busy_and_has_a_short_queue(workers: int) -> None:
    rate, limits = simulate(Gradient(), workers=workers, seconds=60, callers=600)
    assert rate >= 0.9 * workers / 0.04
    late = limits[len(limits) // 2 :]
    assert max(late) <= 2.2 * workers + 20


def test_a_few_late_answers_and_refusals_say_nothing() -> None:
    rate, limits = simulate(Gradient(), workers=100, seconds=60, callers=600, share_late=0.01, refused=0.005)
    assert rate >= 0.75 * 100 / 0.04  # A late one takes a place for a second.
    assert min(limits[len(limits) // 2 :]) >= 50


def test_what_is_not_used_does_not_rise() -> None:
    _, limits = simulate(Gradient(), workers=100, seconds=20, callers=3)
    assert max(limits) == limits[0]


@pytest.mark.parametrize("factor", [0.2, 3.0])
def test_a_server_that_becomes_slower_or_faster_is_learnt_anew(factor: float) -> None:
    gradient = Gradient()
    simulate(gradient, workers=100, seconds=20, callers=600)
    rate, limits = simulate(gradient, workers=100, seconds=60, callers=600, latency=0.04 * factor)
    assert rate >= 0.85 * 100 / (0.04 * factor)
    assert max(limits[len(limits) // 2 :]) <= 240


def test_it_falls_fast_and_rises_slowly() -> None:
    gradient = Gradient()
    simulate(gradient, workers=100, seconds=20, callers=600)
    before = gradient.limit
    for _ in range(40):
        if gradient.limit > before / 8:
            gradient.refused()
    assert gradient.limit <= before / 8
    low = gradient.limit
    for _ in range(10 * max(16, low)):
        gradient.answered(0.04, gradient.limit)
    assert low < gradient.limit <= low + 10


def test_it_is_never_less_than_one() -> None:
    gradient = Gradient()
    for _ in range(1000):
        gradient.refused()
    assert gradient.limit == 1
    for _ in range(1000):
        gradient.answered(1e-9, 1)
        gradient.answered(1e9, 1)
    assert 1 <= gradient.limit <= 512
