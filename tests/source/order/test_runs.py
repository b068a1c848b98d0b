"""Sets of ranges, compared with Python's sets."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spdl.source._order.runs import EMPTY, Runs

SETS = st.one_of(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 10**9), max_size=5))
RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)))


def make(numbers: set[int]) -> Runs:
    return Runs((number, number + 1) for number in numbers)


@given(RANGES)
def test_ranges_are_joined(ranges: list[tuple[int, int]]) -> None:
    runs = Runs(ranges)
    expected = {number for start, stop in ranges for number in range(start, stop)}
    assert list(runs) == sorted(expected)
    assert runs == make(expected)
    assert hash(runs) == hash(make(expected))
    assert all(one[1] < other[0] for one, other in zip(runs.ranges, runs.ranges[1:], strict=False))


@given(SETS)
def test_a_set_knows_its_positions(numbers: set[int]) -> None:
    runs = make(numbers)
    assert list(runs) == sorted(numbers)
    assert runs.count == len(numbers)
    assert runs.stop == max(numbers, default=-1) + 1
    assert runs.watermark == next(number for number in range(len(numbers) + 1) if number not in numbers)
    for number in [*list(numbers)[:20], *range(45)]:
        assert (number in runs) == (number in numbers)
        assert runs.count_below(number) == sum(each < number for each in numbers)


@given(SETS, SETS)
def test_a_union_has_the_positions_of_both(one: set[int], other: set[int]) -> None:
    assert make(one).union(make(other)) == make(one | other)
    assert make(one).union(make(other), EMPTY, make({3})) == make(one | other | {3})


@given(st.sets(st.integers(0, 40)), st.integers(0, 45))
def test_a_complement_has_the_others(numbers: set[int], size: int) -> None:
    assert make(numbers).complement(size) == make(set(range(size)) - numbers)


@given(SETS, st.integers(0, 45), st.integers(0, 45))
def test_a_part_has_the_positions_of_some_ranks(numbers: set[int], start: int, stop: int) -> None:
    assert list(make(numbers).part(start, stop)) == sorted(numbers)[start:stop]


@given(SETS, st.data())
def test_positions_are_selected_by_rank(numbers: set[int], data: st.DataObject) -> None:
    if not numbers:
        return
    ranks = data.draw(st.lists(st.integers(0, len(numbers) - 1)))
    selected = make(numbers).select(np.array(ranks, dtype=np.int64))
    assert selected.tolist() == [sorted(numbers)[rank] for rank in ranks]


@given(SETS)
def test_gaps_say_everything(numbers: set[int]) -> None:
    gaps = json.loads(json.dumps(make(numbers).to_gaps()))
    assert Runs.from_gaps(gaps) == make(numbers)
    assert len(gaps) <= 2 * len(make(numbers).ranges) + 1
