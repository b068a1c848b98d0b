"""Sets of ints in runs, compared with Python's sets."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl._ranges import Ranges

SETS = st.one_of(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 10**9), max_size=5))
RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)))


def make(numbers: set[int]) -> Ranges:
    return Ranges((number, number + 1) for number in numbers)


@given(RANGES)
def test_ranges_join_ranges(ranges: list[tuple[int, int]]) -> None:
    found = Ranges(ranges)
    expected = {number for start, stop in ranges for number in range(start, stop)}
    assert list(found) == sorted(expected)
    assert found == make(expected)
    assert all(one[1] < other[0] for one, other in zip(found.runs, found.runs[1:], strict=False))


@given(SETS)
def test_ranges_know_their_positions(numbers: set[int]) -> None:
    found = make(numbers)
    assert list(found) == sorted(numbers)
    assert len(found) == len(numbers)
    assert found.stop == max(numbers, default=-1) + 1
    assert found.watermark == next(number for number in range(len(numbers) + 1) if number not in numbers)
    for number in [*list(numbers)[:20], *range(45)]:
        assert (number in found) == (number in numbers)
        assert found.count_below(number) == sum(each < number for each in numbers)


@given(SETS, SETS)
def test_ranges_union(one: set[int], other: set[int]) -> None:
    assert make(one).union(make(other)) == make(one | other)
    assert make(one).union(make(other), Ranges(), make({3})) == make(one | other | {3})


@given(st.sets(st.integers(0, 40)), st.integers(0, 45))
def test_ranges_complement(numbers: set[int], size: int) -> None:
    assert make(numbers).complement(size) == make(set(range(size)) - numbers)


@given(SETS, st.integers(0, 45), st.integers(0, 45))
def test_ranges_part(numbers: set[int], start: int, stop: int) -> None:
    assert list(make(numbers).parts([(start, stop)])) == sorted(numbers)[start:stop]


@given(SETS, st.data())
def test_ranges_select(numbers: set[int], data: st.DataObject) -> None:
    if not numbers:
        return
    ranks = data.draw(st.lists(st.integers(0, len(numbers) - 1)))
    selected = make(numbers).select(np.array(ranks, dtype=np.int64))
    assert selected.tolist() == [sorted(numbers)[rank] for rank in ranks]


@given(SETS)
def test_ranges_to_state_says_everything(numbers: set[int]) -> None:
    state = json.loads(json.dumps(make(numbers).to_state()))
    assert Ranges.from_state(state) == make(numbers)
    assert len(state) <= 2 * len(make(numbers).runs) + 1


_RUN = st.tuples(st.integers(0, 40), st.integers(0, 40))


@given(st.lists(st.tuples(st.booleans(), _RUN), max_size=30))
def test_ranges_are_the_set_of_their_positions(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    ranges, model = Ranges(), set[int]()
    for adds, (start, stop) in steps:
        if adds:
            ranges.add(start, stop)
            model |= set(range(start, stop))
        else:
            removed = {each for first, last in ranges.remove(start, stop) for each in range(first, last)}
            assert removed == model & set(range(start, stop))
            model -= removed
        runs = ranges.runs
        assert {each for first, last in runs for each in range(first, last)} == model
        assert all(one[1] < following[0] for one, following in pairwise(runs))
        assert len(ranges) == len(model)
        assert ranges.first == min(model, default=None)


@given(st.lists(_RUN, max_size=10), st.integers(1, 9), st.none() | st.integers(1, 9))
def test_ranges_give_their_first_run(runs: list[tuple[int, int]], most: int, align: int | None) -> None:
    ranges = Ranges(runs)
    expected = list(ranges)
    got: list[int] = []
    while (taken := ranges.first_run(most, align=align)) is not None:
        start, stop = taken
        if align is None:
            assert stop - start <= most
        else:
            assert start // align == (stop - 1) // align
        ranges.remove(start, stop)
        got += range(start, stop)
    assert got == expected


@pytest.mark.parametrize("state", [None, 1, [[1]], [True], ["ab"], [-1, 2], [1.0], (1, 2)])
def test_ranges_refuse_an_invalid_state(state: object) -> None:
    with pytest.raises(ValueError, match="a list of ints of at least 0"):
        Ranges.from_state(state)
