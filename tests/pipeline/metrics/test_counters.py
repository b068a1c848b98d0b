"""The numbers that the engine keeps, and what is made of them: percentiles and waits for cores."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.support import wait_until

from spdl.pipeline._report.counters import StageCounters
from spdl.pipeline._report.perf_stats import BOUNDS, Histogram, bin_of, cumulative, percentile
from spdl.pipeline._report.sample import TOLD, StageSample
from spdl.pipeline._report.threads import CoreWaits


def test_every_counter_is_told() -> None:
    # The counters need these for themselves: clocks, the choice of what is measured next, and what is told otherwise.
    own = {"got_at", "queue", "sample_at", "sampling", "times", "waiting_for", "waiting_since", "waits", "weight"}
    assert {each.name for each in fields(StageSample)} >= set(StageCounters.__slots__) - own
    # Failed items are told one by one.
    assert set(TOLD) == set(StageCounters.__slots__) - own - {"failed"}


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


@given(st.lists(st.floats(0, 1e6)))
def test_the_counts_are_those_of_the_durations(durations: list[float]) -> None:
    histogram = Histogram()
    for seconds in durations:
        histogram.add(seconds)
    expected = [(bound, sum(seconds < bound for seconds in durations)) for bound in BOUNDS]
    assert cumulative(histogram.counts) == (*expected, (2.0**17, len(durations)))


def test_the_bounds_are_from_a_microsecond_to_a_minute() -> None:
    assert 0.9e-6 < BOUNDS[0] < 1e-6
    assert BOUNDS[-1] == 64


linux = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs a kernel that counts it")


class Threads:
    """Threads that do the same until they are told to stop."""

    def __init__(self, count: int, *, busy: bool) -> None:
        self._stopped = threading.Event()
        body = self._compute if busy else self._stopped.wait
        self.threads = [threading.Thread(target=body) for _ in range(count)]

    def _compute(self) -> None:
        data = bytes(1 << 20)
        while not self._stopped.is_set():
            # Without the GIL, for some milliseconds.
            hashlib.sha256(data).digest()

    def __enter__(self) -> list[threading.Thread]:
        for thread in self.threads:
            thread.start()
        return self.threads

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self.threads:
            thread.join()


@linux
def test_too_many_threads_for_the_cores_wait() -> None:
    cores = len(os.sched_getaffinity(0))
    with Threads(2 * cores + 2, busy=True) as threads:
        waits = CoreWaits()
        begun = waits.read(threads)
        assert wait_until(lambda: waits.read(threads) - begun > 0.2)


@linux
def test_threads_that_sleep_wait_for_no_core() -> None:
    with Threads(4, busy=False) as threads:
        waits = CoreWaits()

        def waited() -> float:
            first = waits.read(threads)
            time.sleep(0.3)
            return waits.read(threads) - first

        # On a busy machine they wait for a core until they sleep.
        assert wait_until(lambda: waited() < 0.05)


def test_threads_that_have_not_begun_are_skipped() -> None:
    assert CoreWaits().read([threading.Thread(target=sys.exit)]) == 0.0
    assert CoreWaits().read([]) == 0.0


@linux
def test_of_many_threads_some_are_read() -> None:
    with Threads(50, busy=False) as threads:
        waits = CoreWaits()
        waits.read(threads)
        assert 0 < len(waits._seen) <= 16
