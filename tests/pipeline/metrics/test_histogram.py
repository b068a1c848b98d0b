"""Test that percentiles from a histogram are within 10 % of the exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._metrics.histogram import Histogram, bin_of, percentile

DURATIONS = st.floats(min_value=2e-9, max_value=1e5)
# Many durations of the same size, as ops have, and arbitrary ones.
MIXTURES = st.lists(
    st.one_of(DURATIONS, st.floats(min_value=0.9e-3, max_value=1.1e-3), st.sampled_from([1e-6, 4e-3, 2.0])),
    min_size=1,
    max_size=300,
)


def histogram(durations: Any) -> Histogram:
    made = Histogram()
    for duration in durations:
        made.add(float(duration))
    return made


@given(durations=MIXTURES, share=st.floats(min_value=0, max_value=1))
def test_percentiles_are_those_of_numpy_within_a_tenth(durations: list[float], share: float) -> None:
    exact = float(np.percentile(durations, 100 * share))
    assert percentile(histogram(durations).counts, share) == pytest.approx(exact, rel=0.1)


@given(durations=MIXTURES, later=MIXTURES)
def test_the_difference_of_two_snapshots_is_what_came_between(durations: list[float], later: list[float]) -> None:
    made = histogram(durations)
    before = made.counts.copy()
    for duration in later:
        made.add(duration)
    between = [now - then for now, then in zip(made.counts, before, strict=True)]
    assert between == histogram(later).counts


@given(durations=MIXTURES, weight=st.integers(min_value=2, max_value=1000))
def test_one_may_stand_for_several(durations: list[float], weight: int) -> None:
    heavy = Histogram()
    for duration in durations:
        heavy.add(duration, weight)
    repeated = [count * weight for count in histogram(durations).counts]
    assert heavy.counts == repeated


@given(duration=DURATIONS)
def test_one_is_counted_in_the_bin_that_it_belongs_to(duration: float) -> None:
    counts = histogram([duration]).counts
    assert counts.index(1) == bin_of(duration)
    assert sum(counts) == 1


@given(first=DURATIONS, second=DURATIONS)
def test_bins_are_in_order(first: float, second: float) -> None:
    assert (bin_of(first) <= bin_of(second)) or first > second


def test_nothing_and_no_time_at_all() -> None:
    assert percentile(Histogram().counts, 0.9) == 0
    assert percentile(histogram([0.0] * 9).counts, 0.9) == 0
    assert percentile(histogram([0.0] * 8 + [1.0, 1.0]).counts, 0.95) == pytest.approx(1, rel=0.1)


def test_beyond_its_range_it_counts_the_longest() -> None:
    for duration in (1e6, 1e300):
        counts = histogram([duration]).counts
        assert counts[-1] == 1
    assert percentile(histogram([1e9]).counts, 0.5) == pytest.approx(2.0**17, rel=0.15)


def test_an_octave_has_eight_bins() -> None:
    assert [bin_of(factor * 1e-3) - bin_of(1e-3) for factor in (1, 2, 4, 0.5, 2**20)] == [0, 8, 16, -8, 160]
