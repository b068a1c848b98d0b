"""A set of ranges is the set of its positions."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.ray._leases.ranges import Ranges, ranges_from_state

_RUN = st.tuples(st.integers(0, 40), st.integers(0, 40))


@given(st.lists(st.tuples(st.booleans(), _RUN), max_size=30))
def test_it_is_the_set_of_its_positions(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    ranges, model = Ranges(), set[int]()
    for adds, (start, stop) in steps:
        if adds:
            ranges.add(start, stop)
            model |= set(range(start, stop))
        else:
            removed = {each for first, last in ranges.remove(start, stop) for each in range(first, last)}
            assert removed == model & set(range(start, stop))
            model -= removed
        runs = list(ranges)
        assert {each for first, last in runs for each in range(first, last)} == model
        assert all(before[1] < behind[0] for before, behind in pairwise(runs))
        assert len(ranges) == len(model)
        assert ranges.first == min(model, default=None)


@given(st.lists(_RUN, max_size=10), st.integers(1, 9), st.none() | st.integers(1, 9))
def test_the_first_run_is_taken(runs: list[tuple[int, int]], most: int, align: int | None) -> None:
    ranges = Ranges(runs)
    expected = [each for first, last in ranges for each in range(first, last)]
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


@pytest.mark.parametrize("state", [None, 1, [[1]], [[2, 1]], [[0, 2], [1, 3]], [[0, True]], ["ab"], [[-1, 2]]])
def test_what_are_no_ranges_is_refused(state: object) -> None:
    with pytest.raises(ValueError, match="ranges"):
        ranges_from_state(state)
