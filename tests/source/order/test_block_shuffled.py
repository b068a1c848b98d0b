"""Shuffling in blocks: each item once, and few blocks at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import BlockShuffledOrder

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=20)


def blocks_of(order: BlockShuffledOrder, bounds: np.ndarray[Any, Any], epoch: int = 0) -> list[int]:
    """Return the block of each item of an epoch, in its order."""
    indices = order.take(epoch, np.arange(len(order)))
    assert sorted(indices.tolist()) == list(range(len(order)))
    blocks: list[int] = np.searchsorted(bounds, indices, side="right").tolist()
    return blocks


def check(order: BlockShuffledOrder, sizes: list[int], window: int, epoch: int) -> None:
    blocks = blocks_of(order, np.cumsum(sizes), epoch)
    # Windows of blocks: each block within one of them, and the windows one after the other.
    remaining = list(blocks)
    seen: set[int] = set()
    while remaining:
        here: set[int] = set()
        count = 0
        for block in remaining:
            if block in here or (len(here) < window and block not in seen):
                here.add(block)
                count += 1
            else:
                break
        items = Counter(remaining[:count])
        assert all(items[block] == sizes[block] for block in here)
        assert len(here) == window or count == len(remaining)
        seen |= here
        remaining = remaining[count:]


@given(SIZES, st.integers(1, 6), st.integers(0, 3), st.integers())
def test_blocks_of_any_sizes(sizes: list[int], window: int, epoch: int, seed: int) -> None:
    check(BlockShuffledOrder(sum(sizes), block=sizes, window=window, seed=seed), sizes, window, epoch)
    check(BlockShuffledOrder(sum(sizes), block=np.array(sizes), window=window, seed=seed), sizes, window, epoch)


@given(st.integers(1, 100), st.integers(1, 30), st.integers(1, 6), st.integers(0, 3), st.integers())
def test_blocks_of_one_size(n: int, block: int, window: int, epoch: int, seed: int) -> None:
    sizes = [block] * (n // block) + [n % block] * bool(n % block)
    check(BlockShuffledOrder(n, block=block, window=window, seed=seed), sizes, window, epoch)


def test_the_short_block_comes_anywhere() -> None:
    places: Counter[int] = Counter()
    for seed in range(300):
        blocks = blocks_of(BlockShuffledOrder(31, block=10, window=1, seed=seed), np.array([10, 20, 30, 31]))
        places[blocks.index(3) // 10] += 1
    assert sorted(places) == [0, 1, 2, 3]
    assert min(places.values()) > 40


@pytest.mark.parametrize("block", [4, [4, 4, 4]])
def test_all_orders_of_blocks_and_items_come(block: Any) -> None:
    orders = Counter(
        tuple(blocks_of(BlockShuffledOrder(12, block=block, window=1, seed=seed), np.array([4, 8, 12]))[::4])
        for seed in range(600)
    )
    assert len(orders) == 6
    assert min(orders.values()) > 60
    firsts = Counter(
        int(BlockShuffledOrder(12, block=block, window=3, seed=seed).take(0, np.arange(1))[0]) for seed in range(600)
    )
    assert len(firsts) == 12
    assert min(firsts.values()) > 20


def test_a_huge_one_takes_no_time() -> None:
    order = BlockShuffledOrder(10**12 + 5, block=1000, window=64, seed=1)
    found = order.take(3, np.arange(10**11, 10**11 + 5000))
    assert len(set(found.tolist())) == 5000
    assert len({index // 1000 for index in found.tolist()}) <= 128


@pytest.mark.parametrize(
    ("n", "options", "error"),
    [
        (10, {"block": 0}, ValueError),
        (10, {"block": 2.5}, TypeError),
        (10, {"block": [5, 4]}, ValueError),
        (10, {"block": [5, 0, 5]}, ValueError),
        (10, {"block": []}, (TypeError, ValueError)),
        (10, {"block": [[5], [5]]}, TypeError),
        (10, {"block": [[5], [5, 5]]}, TypeError),
        (10, {"block": [5.0, 5.0]}, TypeError),
        (10, {"block": "10"}, TypeError),
        (10, {"block": 2, "window": 0}, ValueError),
        (0, {"block": 2}, ValueError),
        (10, {"block": 2, "seed": "1"}, TypeError),
    ],
)
def test_senseless_arguments_are_refused(n: int, options: dict[str, Any], error: Any) -> None:
    with pytest.raises(error, match="must be"):
        BlockShuffledOrder(n, **options)
