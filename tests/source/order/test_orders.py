"""What all orders have in common: they are pure functions of the epoch and the position."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

from spdl.source import (
    BlockShuffledOrder,
    BucketedOrder,
    EpochOrder,
    EpochSampler,
    MixedOrder,
    PackedOrder,
    SequentialOrder,
    ShuffledOrder,
    WeightedOrder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = [(37 * number) % 101 for number in range(500)]

MAKERS: dict[str, Callable[[int], EpochOrder]] = {
    "sequential": lambda seed: SequentialOrder(500 + 0 * seed),
    "shuffled": lambda seed: ShuffledOrder(500, seed=seed),
    "shuffled, large": lambda seed: ShuffledOrder(9000, seed=seed),
    "blocks": lambda seed: BlockShuffledOrder(500, block=7, window=5, seed=seed),
    "blocks of sizes": lambda seed: BlockShuffledOrder(10, block=[1, 4, 2, 3], window=2, seed=seed),
    "weighted": lambda seed: WeightedOrder(LENGTHS, seed=seed),
    "weighted, once": lambda seed: WeightedOrder(LENGTHS, num_draws=300, replacement=False, seed=seed),
    "bucketed": lambda seed: BucketedOrder(LENGTHS, group=8, window=6, seed=seed),
    "packed": lambda seed: PackedOrder(LENGTHS, 128, seed=seed),
    "packed, first-fit": lambda seed: PackedOrder(LENGTHS, 64, algorithm="first-fit", align=4, window=90, seed=seed),
    "packed, concat": lambda seed: PackedOrder(LENGTHS, 50, algorithm="concat", window=150, seed=seed),
    "bucketed, budget": lambda seed: BucketedOrder(LENGTHS, tokens_per_batch=220, group=3, seed=seed),
    "mixed": lambda seed: MixedOrder([300, 20, WeightedOrder([1, 2, 3])], weights=[5, 2, 0.5], seed=seed),
    "mixed, by tokens": lambda seed: MixedOrder(
        [500, 20], weights=[5, 2], unit="tokens", lengths=[LENGTHS, range(20)], seed=seed
    ),
    "mixed, packed": lambda seed: MixedOrder([300, PackedOrder(LENGTHS, 128, seed=seed)], weights=[1, 3], seed=seed),
}
RANDOM = [name for name in MAKERS if name != "sequential"]


def take(order: EpochOrder, epoch: int = 0) -> list[int]:
    indices: list[int] = order.take(epoch, np.arange(len(order))).tolist()
    return indices


@pytest.mark.parametrize("name", MAKERS)
def test_it_does_not_matter_how_positions_are_asked_for(name: str) -> None:
    order = MAKERS[name](3)
    assert isinstance(order, EpochOrder)
    random = np.random.default_rng(0)
    for epoch in (0, 5, 1, 5):
        whole = np.array(take(MAKERS[name](3), epoch))
        assert whole.dtype == np.int64
        for count in (1, 10, 200):
            positions = random.integers(0, len(order), count)
            found = order.take(epoch, positions)
            assert found.dtype == np.int64
            assert found.tolist() == whole[positions].tolist()
        assert order.take(epoch, np.empty(0, np.int64)).shape == (0,)
    assert take(pickle.loads(pickle.dumps(order)), 5) == take(order, 5)  # noqa: S301 - our own.
    assert repr(order)


@pytest.mark.parametrize("name", RANDOM)
def test_seeds_and_epochs_make_other_orders(name: str) -> None:
    orders = {(seed, epoch): tuple(take(MAKERS[name](seed), epoch)) for seed in range(3) for epoch in range(3)}
    expected = 9 if name != "blocks of sizes" else 6
    assert len(set(orders.values())) >= expected
    assert len({MAKERS[name](seed).fingerprint for seed in range(3)}) == 3
    assert MAKERS[name](1).fingerprint == MAKERS[name](1).fingerprint


@pytest.mark.parametrize("name", MAKERS)
def test_resumption_works_above_them(name: str) -> None:
    batched = getattr(MAKERS[name](2), "makes_batches", False)

    def make(rank: int, world_size: int, batch_size: int) -> EpochSampler:
        size = 1 if batched else batch_size
        return EpochSampler(MAKERS[name](2), batch_size=size, rank=rank, world_size=world_size)

    def all_of(samplers: list[EpochSampler]) -> list[int]:
        return [index for sampler in samplers for batch in sampler.batch_sampler for index in batch]

    expected = sorted(all_of([make(0, 1, 1)]))
    samplers = [make(rank, 2, 3) for rank in range(2)]
    iterators = [iter(sampler.batch_sampler) for sampler in samplers]
    got = [index for _ in range(1) for iterator in iterators for index in next(iterator)]
    state = json.loads(json.dumps(samplers[1].state_dict()))
    assert len(json.dumps(state)) < 1000
    others = [make(rank, 3, 4) for rank in range(3)]
    for other in others:
        other.load_state_dict(state)
    left = all_of(others)
    for index in expected:
        (got if index in got else left).remove(index)
    # Ranks that would have nothing in the last step repeat another's item, or batch of at most 220.
    assert not got
    assert len(left) < len(others) * (220 if batched else 1)


@pytest.mark.parametrize("name", MAKERS)
def test_positions_beyond_the_end_are_refused(name: str) -> None:
    order = MAKERS[name](0)
    for position in (-1, len(order)):
        with pytest.raises(IndexError, match="positions must be from 0 to"):
            order.take(0, np.array([position]))


def test_states_of_another_order_name_both() -> None:
    state = EpochSampler(WeightedOrder(LENGTHS), rank=0, world_size=1).state_dict()
    sampler = EpochSampler(WeightedOrder([*LENGTHS[1:], 5]), rank=0, world_size=1)
    with pytest.raises(ValueError, match=r"of weighted\(500 of 500 by weights \w+.* this sampler is of weighted\("):
        sampler.load_state_dict(state)
