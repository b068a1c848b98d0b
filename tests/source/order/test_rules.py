"""Rules of orders that nothing else shows by itself: sets of positions, how ranks share, and what numbers come from."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import KeyedPermutation
from spdl.source._orders import order as orders
from spdl.source._orders import weighted
from spdl.source._orders.shares import EMPTY, Plan, Runs, Sharing

if TYPE_CHECKING:
    import pytest

# ---- sets of positions, compared with Python's sets -------------------------------------------------------------

SETS = st.one_of(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 10**9), max_size=5))
RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)))


def make(numbers: set[int]) -> Runs:
    return Runs((number, number + 1) for number in numbers)


@given(RANGES)
def test_runs_join_ranges(ranges: list[tuple[int, int]]) -> None:
    runs = Runs(ranges)
    expected = {number for start, stop in ranges for number in range(start, stop)}
    assert list(runs) == sorted(expected)
    assert runs == make(expected)
    assert hash(runs) == hash(make(expected))
    assert all(one[1] < other[0] for one, other in zip(runs.ranges, runs.ranges[1:], strict=False))


@given(SETS)
def test_runs_know_their_positions(numbers: set[int]) -> None:
    runs = make(numbers)
    assert list(runs) == sorted(numbers)
    assert runs.count == len(numbers)
    assert runs.stop == max(numbers, default=-1) + 1
    assert runs.watermark == next(number for number in range(len(numbers) + 1) if number not in numbers)
    for number in [*list(numbers)[:20], *range(45)]:
        assert (number in runs) == (number in numbers)
        assert runs.count_below(number) == sum(each < number for each in numbers)


@given(SETS, SETS)
def test_runs_union(one: set[int], other: set[int]) -> None:
    assert make(one).union(make(other)) == make(one | other)
    assert make(one).union(make(other), EMPTY, make({3})) == make(one | other | {3})


@given(st.sets(st.integers(0, 40)), st.integers(0, 45))
def test_runs_complement(numbers: set[int], size: int) -> None:
    assert make(numbers).complement(size) == make(set(range(size)) - numbers)


@given(SETS, st.integers(0, 45), st.integers(0, 45))
def test_runs_part(numbers: set[int], start: int, stop: int) -> None:
    assert list(make(numbers).part(start, stop)) == sorted(numbers)[start:stop]


@given(SETS, st.data())
def test_runs_select(numbers: set[int], data: st.DataObject) -> None:
    if not numbers:
        return
    ranks = data.draw(st.lists(st.integers(0, len(numbers) - 1)))
    selected = make(numbers).select(np.array(ranks, dtype=np.int64))
    assert selected.tolist() == [sorted(numbers)[rank] for rank in ranks]


@given(SETS)
def test_runs_to_gaps_says_everything(numbers: set[int]) -> None:
    gaps = json.loads(json.dumps(make(numbers).to_gaps()))
    assert Runs.from_gaps(gaps) == make(numbers)
    assert len(gaps) <= 2 * len(make(numbers).ranges) + 1


# ---- how the ranks share an epoch -------------------------------------------------------------------------------


@given(st.data())
def test_plan_taken_by_all_is_what_each_rank_has_taken(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 60))
    delivered = Runs([(each, each + 1) for each in data.draw(st.sets(st.integers(0, size - 1), max_size=9))])
    sharing = Sharing(
        data.draw(st.integers(1, 12)), data.draw(st.integers(1, 7)), data.draw(st.booleans()), data.draw(st.booleans())
    )
    plan = Plan(size, delivered, sharing)
    rank = data.draw(st.integers(0, sharing.world_size - 1))
    turns = data.draw(st.integers(0, plan.count(rank)))
    each = [plan.same_steps(rank, turns, other) for other in range(sharing.world_size)]
    assert plan.taken_by_all(rank, turns) == plan.taken(each)


# ---- what numbers come from -------------------------------------------------------------------------------------


@given(st.lists(st.floats(5e-324, 1), min_size=1, max_size=20))
def test_weighted_order_has_logarithms_exact_to_the_last_bits(values: list[float]) -> None:
    found = weighted._log(np.array(values))
    for value, logarithm in zip(values, found.tolist(), strict=True):
        assert math.isclose(logarithm, math.log(value), rel_tol=1e-14, abs_tol=1e-16)


def test_keyed_permutation_of_few_numbers_by_the_network_yields_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few numbers are a table otherwise: here all sizes of the network's sides are tried."""
    monkeypatch.setattr(orders, "_LARGEST_TABLE", 0)
    for n in [*range(1, 200), 1000]:
        assert np.array_equal(np.sort(KeyedPermutation(n, seed=n)[:]), np.arange(n))
