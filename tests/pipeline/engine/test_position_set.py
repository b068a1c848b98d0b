"""Test the compressed set of positions against a plain set."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._engine.position_set import PositionSet


def make(positions: list[int]) -> PositionSet:
    made = PositionSet()
    for position in positions:
        made.add(position)
    return made


@given(st.lists(st.integers(0, 20)), st.permutations(range(6)), st.sets(st.integers(0, 10_000)))
def test_it_holds_what_was_added(sizes: list[int], order: list[int], holes: set[int]) -> None:
    # Runs of blocks, in any order, with holes.
    runs = [range(each * 1500, each * 1500 + 1200 + 13 * sum(sizes[:each])) for each in order]
    positions = list(dict.fromkeys(position for run in runs for position in run if position not in holes))
    half = len(positions) // 2
    made, other = make(positions[:half]), make(positions[half:])
    made.take_over(other)
    assert list(made) == sorted(positions)
    assert len(made) == len(positions)


def test_contiguous_positions_cost_nothing() -> None:
    made = make(list(range(200_000)))
    content = [value for name in PositionSet.__slots__ if isinstance(value := getattr(made, name), dict)]
    assert sum(sys.getsizeof(value) for value in content) < 1_000
    assert sum(len(value) for value in content) <= 3
