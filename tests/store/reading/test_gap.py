"""The gap is bandwidth times latency."""

from __future__ import annotations

import pytest

from spdl.store._reading.gap import Gap


def test_a_guess_at_first() -> None:
    assert Gap().bytes == 1 << 20


@pytest.mark.parametrize(("latency", "bandwidth"), [(0.04, 50e6), (0.01, 10e6), (0.1, 5e6)])
def test_it_follows_what_is_measured(latency: float, bandwidth: float) -> None:
    gap = Gap()
    for _ in range(5):
        gap.learn(100_000, 9.0, 10.0)
    for _ in range(300):
        gap.learn(100_000, latency, 100_000 / bandwidth)
    assert gap.bytes == pytest.approx(latency * bandwidth, rel=0.02)


def test_it_has_bounds_and_short_answers_say_nothing() -> None:
    gap = Gap()
    gap.learn(1000, 1.0, 1e-6)
    gap.learn(100_000, 1.0, 0.0)
    assert gap.bytes == 1 << 20
    gap.learn(100_000, 100.0, 1e-3)
    assert gap.bytes == 1 << 23
    for _ in range(1000):
        gap.learn(100_000, 1e-6, 1.0)
    assert gap.bytes == 1 << 14
