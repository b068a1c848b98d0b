"""Test how the positions of an epoch are shared, however many ranks there are."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import EpochSampler
from spdl.source._order.plan import Plan, Sharing
from spdl.source._order.runs import Runs

MOST = 1 << 20


@given(st.data())
def test_what_all_ranks_have_taken_is_what_each_of_them_has(data: st.DataObject) -> None:
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


def make(n: int, world_size: int, batch_size: int) -> EpochSampler:
    return EpochSampler(n, batch_size=batch_size, shuffle=False, rank=0, world_size=world_size)


@pytest.mark.parametrize(
    ("n", "world_size", "batch_size", "received"),
    [
        (30, MOST, 3, 1),
        (10**9, MOST, 3, 30),
        # Within a step, of which there is a range for each rank.
        (10**9, 2**17, 3, 31),
        (3 * 2**17, 2**17, 9, 2),
    ],
)
def test_a_million_ranks_are_no_effort(n: int, world_size: int, batch_size: int, received: int) -> None:
    sampler = make(n, world_size, batch_size)
    state = sampler.advance_state(sampler.state_dict(), received)
    begin = time.process_time()
    make(n, 2, 4).load_state_dict(state)
    # It takes 3 to 26 seconds if each rank is looked at by itself.
    assert time.process_time() - begin < 2.5


def test_one_rank_whose_items_come_out_of_order_is_no_effort() -> None:
    sampler = make(2**40, 1, 1)
    state = sampler.advance_state(sampler.state_dict(), 0, [(1, 2**39)])
    begin = time.process_time()
    resumed = make(2**40, 2, 1)
    resumed.load_state_dict(state)
    assert time.process_time() - begin < 5
    assert next(iter(resumed)) == 0


@pytest.mark.parametrize("world_size", [MOST + 1, 10**12, 10**30])
def test_more_ranks_are_refused(world_size: int) -> None:
    with pytest.raises(ValueError, match=f"`world_size` must be an int from 1 to 1048576, got {world_size}"):
        make(30, world_size, 1)
    message = f"its 'world_size' must be an int of at least 1 and at most 1048576, got {world_size}"
    with pytest.raises(ValueError, match=message):
        make(30, 2, 1).load_state_dict({**make(30, 2, 1).state_dict(), "world_size": world_size})
