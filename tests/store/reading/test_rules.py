"""Numeric rules of reading from a server, each by itself: nothing else shows them without a server's delays."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.store._blocks import cut_out, merge_ranges, split_evenly
from spdl.store._http.transport import retry_after
from spdl.store._requests import full_jitter
from spdl.store._server_limits import Gap, Gradient, Latencies

# ---- how many requests at a time ------------------------------------------------------------------------------------


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
def test_gradient_keeps_the_server_busy_and_its_queue_short(workers: int) -> None:
    rate, limits = simulate(Gradient(), workers=workers, seconds=60, callers=600)
    assert rate >= 0.9 * workers / 0.04
    late = limits[len(limits) // 2 :]
    assert max(late) <= 2.2 * workers + 20


def test_gradient_learns_nothing_from_a_few_late_answers_and_refusals() -> None:
    rate, limits = simulate(Gradient(), workers=100, seconds=60, callers=600, share_late=0.01, refused=0.005)
    assert rate >= 0.75 * 100 / 0.04  # A late one takes a place for a second.
    assert min(limits[len(limits) // 2 :]) >= 50


def test_gradient_does_not_rise_while_it_is_not_used() -> None:
    _, limits = simulate(Gradient(), workers=100, seconds=20, callers=3)
    assert max(limits) == limits[0]


@pytest.mark.parametrize("factor", [0.2, 3.0])
def test_gradient_learns_a_server_anew_that_becomes_slower_or_faster(factor: float) -> None:
    gradient = Gradient()
    simulate(gradient, workers=100, seconds=20, callers=600)
    rate, limits = simulate(gradient, workers=100, seconds=60, callers=600, latency=0.04 * factor)
    assert rate >= 0.85 * 100 / (0.04 * factor)
    assert max(limits[len(limits) // 2 :]) <= 240


def test_gradient_falls_fast_and_rises_slowly() -> None:
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


def test_gradient_is_never_less_than_one() -> None:
    gradient = Gradient()
    for _ in range(1000):
        gradient.refused()
    assert gradient.limit == 1
    for _ in range(1000):
        gradient.answered(1e-9, 1)
        gradient.answered(1e9, 1)
    assert 1 <= gradient.limit <= 512


# ---- which ranges are read at once ----------------------------------------------------------------------------------


RANGES = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 300)), max_size=30)
CONTENT = bytes(i * i % 251 for i in range(3300))


@given(ranges=RANGES, gap=st.integers(0, 200), most=st.integers(1, 1000))
def test_merge_ranges_covers_them_with_blocks(ranges: list[tuple[int, int]], gap: int, most: int) -> None:
    starts, lengths = [s for s, _ in ranges], [n for _, n in ranges]
    blocks = merge_ranges(starts, lengths, gap=gap, most=most)
    members = [index for block in blocks for index in block.ranges]
    assert sorted(members) == [i for i, length in enumerate(lengths) if length]
    for block in blocks:
        own = [(starts[i], starts[i] + lengths[i]) for i in block.ranges]
        assert block.start == min(begin for begin, _ in own)
        assert block.start + block.length == max(end for _, end in own)
        assert block.length <= most or len(own) == 1
        # Nothing is read in vain but gaps that are short enough.
        asked = {byte for begin, end in own for byte in range(begin, end)}
        run = 0
        for byte in range(block.start, block.start + block.length):
            run = 0 if byte in asked else run + 1
            assert run <= gap
    contents = (CONTENT[block.start :][: block.length] for block in blocks)
    parts = [bytes(part) for part in cut_out(blocks, contents, starts, lengths)]
    assert parts == [CONTENT[start : start + length] for start, length in ranges]


@given(ranges=RANGES, gap=st.integers(0, 200))
def test_merge_ranges_has_neighbours_share_a_block(ranges: list[tuple[int, int]], gap: int) -> None:
    blocks = merge_ranges([s for s, _ in ranges], [n for _, n in ranges], gap=gap, most=10_000)
    for first, second in itertools.pairwise(blocks):
        assert second.start - (first.start + first.length) > gap


@given(length=st.integers(0, 10**12), parts=st.integers(1, 50))
def test_split_evenly(length: int, parts: int) -> None:
    most = max(1, length // parts)
    found = list(split_evenly(length, most))
    assert found[0][0] == 0
    assert all(a + n == b for (a, n), (b, _) in itertools.pairwise(found))
    assert sum(n for _, n in found) == length
    assert max(n for _, n in found) <= most
    assert max(n for _, n in found) - min(n for _, n in found) <= 1
    assert len(found) == max(1, -(-length // most))


# ---- how long a gap is rather read than skipped ---------------------------------------------------------------------


def test_gap_is_a_guess_at_first() -> None:
    assert Gap().bytes == 1 << 20


@pytest.mark.parametrize(("latency", "bandwidth"), [(0.04, 50e6), (0.01, 10e6), (0.1, 5e6)])
def test_gap_is_bandwidth_times_latency(latency: float, bandwidth: float) -> None:
    gap = Gap()
    for _ in range(5):
        gap.learn(100_000, 9.0, 10.0)
    for _ in range(300):
        gap.learn(100_000, latency, 100_000 / bandwidth)
    assert gap.bytes == pytest.approx(latency * bandwidth, rel=0.02)


def test_gap_has_bounds_and_learns_nothing_from_short_answers() -> None:
    gap = Gap()
    gap.learn(1000, 1.0, 1e-6)
    gap.learn(100_000, 1.0, 0.0)
    assert gap.bytes == 1 << 20
    gap.learn(100_000, 100.0, 1e-3)
    assert gap.bytes == 1 << 23
    for _ in range(1000):
        gap.learn(100_000, 1e-6, 1.0)
    assert gap.bytes == 1 << 14


# ---- how long answers take ------------------------------------------------------------------------------------------


@given(durations=st.lists(st.floats(1e-4, 100), min_size=1, max_size=300), share=st.floats(0.01, 1))
def test_latencies_tell_quantiles_up_to_the_width_of_a_bin(durations: list[float], share: float) -> None:
    latencies = Latencies()
    for seconds in durations:
        latencies.add(seconds)
    exact = sorted(durations)[math.ceil(share * len(durations)) - 1]
    assert exact * 0.999 <= latencies.quantile(share) <= exact * 1.1


def test_latencies_forget_the_old() -> None:
    latencies = Latencies()
    for seconds in [1.0] * 10_000 + [0.01] * 40_000:
        latencies.add(seconds)
    assert latencies.quantile(0.95) < 0.02


@given(st.lists(st.one_of(st.floats(0, 1e-4), st.floats(100, 1e300)), max_size=10))
def test_latencies_take_durations_beyond_the_bins(durations: list[float]) -> None:
    latencies = Latencies()
    for seconds in durations:
        latencies.add(seconds)
    assert 0 <= latencies.quantile(0.5) < 300


# ---- how long to wait before the next attempt -----------------------------------------------------------------------


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@given(failures=st.integers(1, 10_000), number=st.floats(0, 1))
def test_full_jitter_is_bounded(failures: int, number: float) -> None:
    pause = full_jitter(failures, lambda: number)
    assert pause == pytest.approx(number * min(10, 0.1 * 2 ** min(failures - 1, 60)))


@given(seconds=st.integers(-1000, 100_000))
def test_retry_after_names_a_date_or_seconds(seconds: int) -> None:
    date = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert retry_after({"retry-after": date}, lambda: NOW) == min(max(0, seconds), 3600)
    assert retry_after({"retry-after": str(seconds)}, lambda: NOW) == min(max(0, seconds), 3600)


@pytest.mark.parametrize("text", ["3601", "1e8", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_retry_after_is_followed_for_an_hour_at_most(text: str) -> None:
    assert retry_after({"retry-after": text}, lambda: NOW) == 3600.0


@given(text=st.text("0123456789eE+-. :,JanMoGT", max_size=30))
def test_retry_after_that_is_neither_is_no_wish(text: str) -> None:
    found = retry_after({"retry-after": text}, lambda: NOW)
    assert found is None or 0 <= found < float("inf")
    assert retry_after({}, lambda: NOW) is None
