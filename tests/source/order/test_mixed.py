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
    st.lists(st.tuples(st.integers(1, 14), st.integers(0, 5)), min_size=1, max_size=3).filter(
        lambda parts: any(weight for _, weight in parts)
    ),
    st.integers(1, 40),
    st.integers(),
)
def test_each_dataset_yields_all_its_items_before_one_again(
    parts: list[tuple[int, int]], epochs: int, seed: int
) -> None:
    """Whatever the rounds and the epochs of the mix are."""
    sizes, weights = zip(*parts, strict=True)
    turns: Any = MixedOrder(sizes, weights=weights, num_samples=1, seed=seed)._turns
    rounds: int = turns.round
    order = MixedOrder(sizes, weights=weights, num_samples=-(-2 * rounds // epochs), seed=seed)
    found = [order.locate(index) for index in take(order, epochs)[: 2 * rounds]]
    counts = Counter(found)
    for part, (size, weight) in enumerate(parts):
        drawn = [counts[part, index] for index in range(size)]
        assert sum(drawn) * sum(weights) == 2 * rounds * weight
        assert max(drawn) - min(drawn) <= 1
        its_own = [index for of, index in found if of == part]
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
        (3, {}, TypeError),
        ([3, 4], {"sizes": 7}, TypeError),
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


class Chosen:
    """Some positions of a dataset, in order."""

    def __init__(self, chosen: list[int]) -> None:
        self.chosen = np.array(chosen)
        self.fingerprint = f"chosen({chosen})"

    def __len__(self) -> int:
        return len(self.chosen)

    def take(self, epoch: int, positions: Any) -> Any:
        return self.chosen[positions]


def test_the_indices_of_a_dataset_follow_all_items_of_the_one_before() -> None:
    drawn = WeightedOrder(np.ones(1000), num_draws=50, seed=3)
    without = WeightedOrder([1, 0, 1], replacement=False)
    nested = MixedOrder([100, 5], num_samples=7)
    for part, size in ((drawn, 1000), (without, 3), (nested, 105)):
        order = MixedOrder([part, 10], weights=[1, 1], num_samples=400)
        found = [order.locate(index) for index in take(order)]
        assert {index for number, index in found if number == 1} == set(range(10))
        assert {index for number, index in found if number == 0} <= set(range(size))
        assert order.num_items == size + 10


def test_the_size_of_a_dataset_is_given_where_an_order_chooses_from_it() -> None:
    chosen = Chosen([1, 4, 7])
    order = MixedOrder([chosen, 10], sizes=[8, 10], weights=[1, 1], num_samples=60)
    found = Counter(map(order.locate, take(order)))
    assert {index for number, index in found if number == 0} == {1, 4, 7}
    assert {index for number, index in found if number == 1} == set(range(10))
    # Otherwise they would be those of the next dataset.
    with pytest.raises(IndexError, match=r"parts\[0\] \(chosen.*\) yielded the index \d, .* 3 items\. Give `sizes`"):
        take(MixedOrder([chosen, 10], weights=[1, 1], num_samples=60))
    assert order.fingerprint != MixedOrder([chosen, 10], sizes=[9, 10], weights=[1, 1], num_samples=60).fingerprint


@pytest.mark.parametrize("sizes", [[3], [3, 0], [3, "x"], [3, 4, 5]])
def test_sizes_are_one_number_for_each_part(sizes: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="`sizes"):
        MixedOrder([3, 4], sizes=sizes)
