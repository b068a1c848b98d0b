"""Draws by weight, compared with the probabilities that they should have."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import WeightedOrder

NUMBERS = st.one_of(st.just(0.0), st.floats(0, 1e300), st.floats(1e-5, 10))
WEIGHTS = st.lists(NUMBERS, min_size=1, max_size=30).filter(lambda weights: any(weight > 0 for weight in weights))


def draws(order: WeightedOrder, epoch: int = 0) -> list[int]:
    indices: list[int] = order.take(epoch, np.arange(len(order))).tolist()
    return indices


@given(WEIGHTS, st.integers(), st.integers(1, 50))
def test_with_replacement_items_without_weight_never_come(weights: list[float], seed: int, num_draws: int) -> None:
    drawn = draws(WeightedOrder(weights, num_draws=num_draws, seed=seed))
    assert len(drawn) == num_draws
    assert all(weights[index] > 0 for index in drawn)


@given(WEIGHTS, st.integers())
def test_without_replacement_each_item_with_weight_comes_once(weights: list[float], seed: int) -> None:
    drawn = draws(WeightedOrder(weights, replacement=False, seed=seed))
    assert sorted(drawn) == [index for index, weight in enumerate(weights) if weight]


def test_shares_are_those_of_the_weights() -> None:
    weights = [1.0, 0, 2.5, 0.25, 6]
    n = 200_000
    counts = Counter(draws(WeightedOrder(weights, num_draws=n, seed=3), epoch=2))
    chi2 = sum((counts[k] - n * w / 9.75) ** 2 / (n * w / 9.75) for k, w in enumerate(weights) if w)
    assert chi2 < 20  # 3 degrees of freedom.
    assert counts[1] == 0


def test_draws_are_independent() -> None:
    drawn = np.array(draws(WeightedOrder([1, 1, 1, 1], num_draws=100_000, seed=3)))
    pairs = Counter(itertools.pairwise(drawn.tolist()))
    expected = (len(drawn) - 1) / 16
    assert sum((pairs[one, other] - expected) ** 2 / expected for one in range(4) for other in range(4)) < 45
    other = np.array(draws(WeightedOrder([1, 1, 1, 1], num_draws=100_000, seed=3), epoch=1))
    assert abs(int((drawn == other).sum()) - 25_000) < 600


def test_orders_without_replacement_are_those_of_draws_one_by_one() -> None:
    weights = [1.0, 2.0, 4.0, 0.5]
    samples = 24_000
    drawn = WeightedOrder(weights, replacement=False, seed=7)
    counts: Counter[tuple[int, ...]] = Counter(tuple(draws(drawn, epoch)) for epoch in range(samples))
    chi2 = 0.0
    for order in itertools.permutations(range(4)):
        left, likely = sum(weights), 1.0
        for index in order:
            likely *= weights[index] / left
            left -= weights[index]
        chi2 += (counts[order] - samples * likely) ** 2 / (samples * likely)
    assert abs(chi2 - 23) < 4.5 * math.sqrt(46)


def test_draws_never_change() -> None:
    """Runs are resumed with other versions and on other machines: these numbers stay as they are."""
    assert draws(WeightedOrder([1, 2, 3, 4], num_draws=8, seed=1)) == [3, 1, 3, 1, 3, 0, 3, 3]
    assert draws(WeightedOrder([1, 2, 3, 4, 5], replacement=False, seed=1), 3) == [3, 4, 1, 2, 0]


@pytest.mark.parametrize(
    ("weights", "options", "error"),
    [
        ([], {}, ValueError),
        ([0, 0], {}, ValueError),
        ([1, -1], {}, ValueError),
        ([1, math.nan], {}, ValueError),
        ([1, math.inf], {}, ValueError),
        ([[1], [2]], {}, ValueError),
        (["a"], {}, TypeError),
        (None, {}, (TypeError, ValueError)),
        ([1, 2], {"num_draws": 0}, ValueError),
        ([1, 0], {"num_draws": 2, "replacement": False}, ValueError),
        ([1, 2], {"seed": 0.5}, TypeError),
        ([1, 2], {"replacement": None}, TypeError),
    ],
)
def test_senseless_arguments_are_refused(weights: Any, options: dict[str, Any], error: Any) -> None:
    with pytest.raises(error, match="must be"):
        WeightedOrder(weights, **options)
