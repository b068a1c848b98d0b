"""Items of similar length together."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import BucketedOrder, EpochOrder, EpochSampler, ShuffledOrder

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=60)


def take(order: BucketedOrder, epoch: int = 0) -> list[int]:
    indices: list[int] = order.take(epoch, np.arange(len(order))).tolist()
    return indices


@given(LENGTHS, st.integers(1, 9), st.integers(1, 5), st.integers(), st.integers(0, 3))
def test_each_item_comes_once_in_its_window(lengths: list[int], group: int, window: int, seed: int, epoch: int) -> None:
    found = take(BucketedOrder(lengths, group=group, window=window, seed=seed), epoch)
    shuffled = ShuffledOrder(len(lengths), seed=seed).take(epoch, np.arange(len(lengths))).tolist()
    together = group * window
    for begin in range(0, len(lengths), together):
        items = found[begin : begin + together]
        assert sorted(items) == sorted(shuffled[begin : begin + together])
        groups = [sorted(lengths[item] for item in items[at : at + group]) for at in range(0, len(items), group)]
        full = sorted(each for each in groups if len(each) == group)
        # No group of a window reaches into the lengths of another.
        assert all(one[-1] <= other[0] for one, other in itertools.pairwise(full))


def test_less_is_lost_to_padding() -> None:
    random = np.random.default_rng(1)
    lengths = random.lognormal(3, 1, 20_000)

    def lost(order: EpochOrder) -> float:
        sampler = EpochSampler(order, batch_size=16, rank=0, world_size=1)
        padded: float = sum(len(batch) * max(lengths[index] for index in batch) for batch in sampler.batch_sampler)
        return 1 - float(lengths.sum()) / padded

    assert lost(ShuffledOrder(len(lengths), seed=1)) > 0.6
    assert lost(BucketedOrder(lengths.tolist(), group=16, seed=1)) < 0.15


def test_all_ranks_have_similar_lengths_in_a_step() -> None:
    lengths = np.random.default_rng(1).integers(1, 1000, 4000)
    order = BucketedOrder(lengths.tolist(), group=32, seed=1)
    ranks = [list(EpochSampler(order, batch_size=8, rank=rank, world_size=4).batch_sampler) for rank in range(4)]
    spreads = [np.ptp([lengths[index] for batch in step for index in batch]) for step in zip(*ranks, strict=True)]
    assert np.mean(spreads) < 30


def test_groups_come_in_a_random_order() -> None:
    lengths = list(range(1000))
    order = BucketedOrder(lengths, group=10, window=100, seed=1)
    means = np.array(take(order)).reshape(100, 10).mean(axis=1)
    assert abs(np.corrcoef(means, np.arange(100))[0, 1]) < 0.45
    others = np.array(take(order, 1)).reshape(100, 10).mean(axis=1)
    assert abs(np.corrcoef(means, others)[0, 1]) < 0.45


@pytest.mark.parametrize(
    ("lengths", "options", "error"),
    [
        ([], {"group": 2}, ValueError),
        ([1, math.nan], {"group": 2}, ValueError),
        (["a", "b"], {"group": 2}, TypeError),
        ([[1], [2, 3]], {"group": 2}, TypeError),
        ([[1], [2]], {"group": 2}, ValueError),
        ([1, 2], {"group": 0}, ValueError),
        ([1, 2], {"group": 2, "window": 0}, ValueError),
        ([1, 2], {"group": 2, "seed": None}, TypeError),
    ],
)
def test_senseless_arguments_are_refused(lengths: Any, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="must be"):
        BucketedOrder(lengths, **options)
