"""Quantiles are those of the durations, up to the width of a bin."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from spdl.store._reading.latencies import Latencies


@given(durations=st.lists(st.floats(1e-4, 100), min_size=1, max_size=300), share=st.floats(0.01, 1))
def test_quantiles(durations: list[float], share: float) -> None:
    latencies = Latencies()
    for seconds in durations:
        latencies.add(seconds)
    exact = sorted(durations)[math.ceil(share * len(durations)) - 1]
    assert exact * 0.999 <= latencies.quantile(share) <= exact * 1.1


def test_the_old_is_forgotten() -> None:
    latencies = Latencies()
    for seconds in [1.0] * 10_000 + [0.01] * 40_000:
        latencies.add(seconds)
    assert latencies.quantile(0.95) < 0.02


@given(st.lists(st.one_of(st.floats(0, 1e-4), st.floats(100, 1e300)), max_size=10))
def test_durations_beyond_the_bins(durations: list[float]) -> None:
    latencies = Latencies()
    for seconds in durations:
        latencies.add(seconds)
    assert 0 <= latencies.quantile(0.5) < 300
