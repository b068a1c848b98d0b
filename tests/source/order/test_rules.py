"""Rules of orders that nothing else shows by itself: how ranks share, and what numbers come from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spdl._ranges import Ranges
from spdl.source import KeyedPermutation
from spdl.source._orders import order as orders
from spdl.source._orders import weighted
from spdl.source._orders.shares import Plan, Sharing

if TYPE_CHECKING:
    import pytest

# ---- how the ranks share an epoch -------------------------------------------------------------------------------


@given(st.data())
def test_plan_taken_by_all_is_what_each_rank_has_taken(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 60))
    delivered = Ranges([(each, each + 1) for each in data.draw(st.sets(st.integers(0, size - 1), max_size=9))])
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
