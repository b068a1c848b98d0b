"""Both samplers: ranks share the indices, each takes its part, and mistakes raise."""

from __future__ import annotations

import warnings
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import DistributedDeterministicSampler, DistributedRandomSampler, SizedIterableWithShuffle

# Tests of how many a rank gets may have more ranks than samples.
pytestmark = pytest.mark.filterwarnings("ignore:Rank .* gets none of the")

SAMPLERS: list[Any] = [DistributedDeterministicSampler, DistributedRandomSampler]
both = pytest.mark.parametrize("sampler", SAMPLERS)
sizes = st.integers(1, 60)


def ranks_of(sampler: Any, n: int, world_size: int, **kwargs: Any) -> list[list[int]]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ items cannot be shared equally")
        samplers = [sampler(n, rank=rank, world_size=world_size, **kwargs) for rank in range(world_size)]
    passes = [list(part) for part in samplers]
    assert [len(part) for part in samplers] == [len(items) for items in passes]
    return passes


@both
@given(n=sizes, world_size=sizes)
def test_without_dropping_each_index_comes_once(sampler: Any, n: int, world_size: int) -> None:
    passes = ranks_of(sampler, n, world_size, ddp_drop_last_distributed_round=False)
    assert sorted(chain(*passes)) == list(range(n))
    assert max(map(len, passes)) - min(map(len, passes)) <= 1


@both
@given(n=sizes, world_size=sizes)
def test_with_dropping_all_ranks_have_equally_many(sampler: Any, n: int, world_size: int) -> None:
    if n < world_size:
        with pytest.raises(ValueError, match="would all be dropped"):
            ranks_of(sampler, n, world_size)
        return
    passes = ranks_of(sampler, n, world_size)
    assert {len(items) for items in passes} == {n // world_size}
    indices = list(chain(*passes))
    assert len(set(indices)) == len(indices)


@given(n=sizes, world_size=sizes)
def test_in_order_ranks_take_turns(n: int, world_size: int) -> None:
    passes = ranks_of(DistributedDeterministicSampler, n, world_size, ddp_drop_last_distributed_round=False)
    assert passes == [list(range(n))[rank::world_size] for rank in range(world_size)]


@given(n=sizes, world_size=st.integers(1, 5), seed=st.integers(0, 2**40), data=st.data())
def test_random_order_is_numpys(n: int, world_size: int, seed: int, data: st.DataObject) -> None:
    draws = data.draw(st.integers(1, n))
    drop_last = draws >= world_size and data.draw(st.booleans())
    # Dropped indices are not drawn.
    size = draws - draws % world_size if drop_last else draws
    drawn = np.random.default_rng(seed).choice(n, size=size, replace=False)
    passes = ranks_of(
        DistributedRandomSampler, n, world_size, num_draws=draws, seed=seed, ddp_drop_last_distributed_round=drop_last
    )
    assert passes == [drawn[rank::world_size].tolist() for rank in range(world_size)]


@given(weights=st.lists(st.floats(0, 1e300), min_size=1, max_size=9).filter(any), draws=st.integers(1, 50))
def test_weights_draw_with_replacement(weights: list[float], draws: int) -> None:
    sampler = DistributedRandomSampler(len(weights), rank=0, world_size=1, weights=weights, num_draws=draws, seed=3)
    indices = list(sampler)
    assert len(indices) == len(sampler) == draws
    assert all(weights[index] > 0 for index in indices)


def test_weights_are_proportions() -> None:
    sampler = DistributedRandomSampler(3, rank=0, world_size=1, weights=[1, 0, 3], num_draws=40_000)
    counts = np.bincount(list(sampler), minlength=3)
    # Some 5 standard deviations.
    assert counts[1] == 0
    assert abs(counts[0] - 10_000) < 450


def test_weights_whose_sum_no_float_holds() -> None:
    sampler = DistributedRandomSampler(3, rank=0, world_size=1, weights=[1.7e308] * 3, num_draws=90)
    assert set(sampler) == {0, 1, 2}


def test_a_pass_is_repeated_until_it_is_shuffled() -> None:
    sampler = DistributedRandomSampler(100, rank=0, world_size=1, seed=1)
    assert isinstance(sampler, SizedIterableWithShuffle)
    first = list(sampler)
    assert list(sampler) == first
    sampler.shuffle(2)
    assert list(sampler) != first
    assert list(sampler) == list(DistributedRandomSampler(100, rank=0, world_size=1, seed=2))
    sampler.shuffle(seed=1)
    assert list(sampler) == first


def test_what_is_left_out_differs_between_passes() -> None:
    samplers = [DistributedRandomSampler(10, rank=rank, world_size=4) for rank in range(4)]
    seen: set[int] = set()
    for epoch in range(20):
        for sampler in samplers:
            sampler.shuffle(epoch)
            seen.update(sampler)
    assert seen == set(range(10))


def test_indices_left_out_of_every_pass_are_warned_of() -> None:
    with pytest.warns(
        UserWarning, match="10 items cannot be shared equally by 4 ranks: the last 2 are left out"
    ) as got:
        DistributedDeterministicSampler(10, rank=0, world_size=4)
    assert got[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DistributedDeterministicSampler(8, rank=0, world_size=4)
        DistributedDeterministicSampler(10, rank=0, world_size=4, ddp_drop_last_distributed_round=False)


@both
@pytest.mark.parametrize(
    ("n", "kwargs", "error", "message"),
    [
        (0, {}, ValueError, "`n` must be an int of at least 1, got 0"),
        (2.5, {}, TypeError, "`n` must be an int of at least 1, got 2.5"),
        (8, {"world_size": 0}, ValueError, "`world_size` must be an int of at least 1, got 0"),
        (8, {"rank": 2}, ValueError, "`rank` must be from 0 to 1 with `world_size=2`, got 2"),
        (8, {"rank": -1}, ValueError, "`rank` must be from 0 to 1 with `world_size=2`, got -1"),
        (8, {"rank": "0"}, TypeError, "`rank` must be an int, got '0'"),
        (8, {"ddp_drop_last_distributed_round": "no"}, TypeError, "must be True or False, got 'no'"),
        (1, {}, ValueError, "`world_size` must be at most 1, the number of"),
    ],
)
def test_mistakes(sampler: Any, n: Any, kwargs: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        sampler(n, **{"rank": 0, "world_size": 2, **kwargs})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"num_draws": 0}, ValueError, "`num_draws` must be an int of at least 1, got 0"),
        ({"num_draws": 4}, ValueError, "`num_draws` must be at most the 3 items of the dataset, got 4"),
        ({"seed": -1}, ValueError, "`seed` must be an int of at least 0, got -1"),
        ({"weights": [1, 2]}, ValueError, "`weights` must be 3 numbers, one for each item, got [1, 2]"),
        ({"weights": [1, -2, 3]}, ValueError, "`weights[1]` must be finite and at least 0, got -2.0"),
        ({"weights": [1, 2, float("nan")]}, ValueError, "`weights[2]` must be finite and at least 0, got nan"),
        ({"weights": [1, 2, float("inf")]}, ValueError, "`weights[2]` must be finite and at least 0, got inf"),
        (
            {"weights": [0, 0, 0]},
            ValueError,
            "`weights` must be numbers, at least one above 0, got [0, 0, 0]",
        ),
        ({"weights": ["a", "b", "c"]}, TypeError, "`weights` must be a sequence of 3 numbers"),
    ],
)
def test_mistakes_of_random_ones(kwargs: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        DistributedRandomSampler(3, rank=0, world_size=1, **kwargs)
    assert message in str(caught.value)
