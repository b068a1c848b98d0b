"""Several datasets in one order, each with epochs of its own."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import EpochOrder, EpochSampler, MixedOrder, SequentialOrder, ShuffledOrder, WeightedOrder


def take(order: MixedOrder, epochs: int = 1) -> list[int]:
    return [index for epoch in range(epochs) for index in order.take(epoch, np.arange(len(order))).tolist()]


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5)), min_size=1, max_size=4).filter(
        lambda parts: any(weight for _, weight in parts)
    ),
    st.integers(1, 300),
    st.integers(),
)
def test_each_dataset_yields_all_its_items_before_one_again(
    parts: list[tuple[int, int]], num_samples: int, seed: int
) -> None:
    """Whatever the rounds and the epochs of the mix are."""
    sizes, weights = zip(*parts, strict=True)
    order = MixedOrder(sizes, weights=weights, num_samples=num_samples, seed=seed)
    rounds = order._round
    epochs = -(-2 * rounds // num_samples)
    found = take(order, epochs)[: 2 * rounds]
    counts = Counter(order.locate(index) for index in found)
    for part, (size, weight) in enumerate(parts):
        drawn = [counts[part, index] for index in range(size)]
        assert sum(drawn) * sum(weights) == 2 * rounds * weight
        assert max(drawn) - min(drawn) <= 1
        its_own = [index for of, index in map(order.locate, found) if of == part]
        for begin in range(0, len(its_own), size):
            assert len(set(its_own[begin : begin + size])) == len(its_own[begin : begin + size])


def test_epochs_of_the_mix_go_on_where_the_last_ended() -> None:
    order = MixedOrder([10, 1000], weights=[1, 9], num_samples=50, seed=2)
    longer = MixedOrder([10, 1000], weights=[1, 9], num_samples=5000, seed=2)
    assert take(order, 100) == take(longer)


def test_datasets_do_not_take_turns() -> None:
    chosen = [int(index >= 10_000) for index in take(MixedOrder([10_000, 10_000], weights=[1, 1], seed=3))]
    same = sum(one == other for one, other in itertools.pairwise(chosen))
    assert abs(same - 10_000) < 600


def test_proportions_are_kept_all_the_time() -> None:
    chosen = np.array(take(MixedOrder([10**6, 10**6], weights=[0.7, 0.3], num_samples=200_000, seed=3))) < 10**6
    for begin in range(0, 200_000, 20_000):
        assert abs(chosen[begin : begin + 20_000].mean() - 0.7) < 0.02


def test_without_weights_items_are_equally_likely() -> None:
    order = MixedOrder([300, 100])
    assert len(order) == 400
    assert set(Counter(take(order)).values()) <= {1, 2}
    assert abs(sum(index >= 300 for index in take(order, 10)) - 1000) < 30


def test_small_weights_are_not_forgotten() -> None:
    order = MixedOrder([10**6, 10], weights=[1e9, 1e-9], num_samples=10**6)
    assert sum(index >= 10**6 for index in take(order)) in range(10, 20)


def test_parts_may_have_orders_of_their_own() -> None:
    parts: list[EpochOrder] = [SequentialOrder(4), WeightedOrder([0, 1]), ShuffledOrder(3, seed=9)]
    order = MixedOrder(parts, weights=[4, 1, 3], num_samples=4096)
    found = [order.locate(index) for index in take(order)]
    assert {index for part, index in found if part == 1} == {1}
    assert Counter(part for part, _ in found) == {0: 2048, 1: 512, 2: 1536}
    assert [index for part, index in found if part == 0] == [0, 1, 2, 3] * 512


def test_a_mix_can_be_a_part() -> None:
    inner = MixedOrder([5, 6], weights=[1, 1], seed=1)
    order = MixedOrder([inner, 7], weights=[1, 1], num_samples=2048)
    assert {index for index in take(order) if index < 11} == set(range(11))
    assert order.locate(12) == (1, 1)


def test_many_parts_have_a_short_fingerprint() -> None:
    order = MixedOrder([10] * 500, weights=list(range(500)))
    other = MixedOrder([10] * 499 + [11], weights=list(range(500)))
    assert len(order.fingerprint) < 200
    assert order.fingerprint != other.fingerprint
    assert EpochSampler(order, rank=0, world_size=1).state_dict()


@pytest.mark.parametrize(
    ("parts", "options", "error"),
    [
        ([], {}, ValueError),
        ([0], {}, ValueError),
        ([1.5], {}, TypeError),
        ([3], {"weights": [1, 2]}, ValueError),
        ([3, 4], {"weights": [0, 0]}, ValueError),
        ([3, 4], {"weights": [1, -2]}, ValueError),
        ([3, 4], {"weights": "ab"}, (TypeError, ValueError)),
        ([3], {"num_samples": 0}, ValueError),
        ([2**48, 2**48], {}, ValueError),
        ([3], {"seed": 1.5}, TypeError),
    ],
)
def test_senseless_arguments_are_refused(parts: Any, options: dict[str, Any], error: Any) -> None:
    with pytest.raises(error, match="must be"):
        MixedOrder(parts, **options)


@pytest.mark.parametrize("index", [-1, 7])
def test_indices_of_no_dataset_are_refused(index: int) -> None:
    with pytest.raises(IndexError, match="out of range for 7 items"):
        MixedOrder([3, 4]).locate(index)
