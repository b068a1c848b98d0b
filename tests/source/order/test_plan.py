"""Positions of an epoch are shared without effort, however many ranks there are."""

from __future__ import annotations

import pytest
from tests.source.calls import calls_of

from spdl.source import EpochSampler

MOST = 1 << 20


def make(n: int, world_size: int, batch_size: int) -> EpochSampler:
    return EpochSampler(n, batch_size=batch_size, shuffle=False, rank=0, world_size=world_size)


@pytest.mark.parametrize(
    ("n", "world_size", "batch_size", "received"),
    [
        (30, MOST, 3, 1),
        (10**9, MOST, 3, 30),
        # Within a step, of which there is a range for each rank.
        (10**9, 2**14, 3, 31),
        (3 * 2**14, 2**14, 9, 2),
    ],
)
def test_a_million_ranks_are_no_effort(n: int, world_size: int, batch_size: int, received: int) -> None:
    sampler = make(n, world_size, batch_size)
    state = sampler.advance_state(sampler.state_dict(), received)
    # It takes many for each rank if each is looked at by itself.
    ranges = world_size if world_size < MOST else 0
    assert calls_of(lambda: make(n, 2, 4).load_state_dict(state)) < 1000 + 10 * ranges


def test_one_rank_whose_items_come_out_of_order_is_no_effort() -> None:
    sampler = make(2**40, 1, 1)
    state = sampler.advance_state(sampler.state_dict(), 0, [(1, 2**39)])
    resumed = make(2**40, 2, 1)
    assert calls_of(lambda: resumed.load_state_dict(state)) < 1000
    assert next(iter(resumed)) == 0


@pytest.mark.parametrize("world_size", [MOST + 1, 10**12, 10**30])
def test_more_ranks_are_refused(world_size: int) -> None:
    with pytest.raises(ValueError, match=f"`world_size` must be an int from 1 to 1048576, got {world_size}"):
        make(30, world_size, 1)
