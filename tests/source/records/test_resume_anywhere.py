"""Loaders over random records, cut at random and gone on with, on other ranks too, against plain lists.

A few are drawn here. `SPDL_TEST_SEEDS=500` draws as many.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from tests.source.records.drawn_files import KINDS, plain

from spdl.dataloader import DataLoader
from spdl.pipeline import PipelineBuilder
from spdl.source import (
    BlockShuffledOrder,
    BucketedOrder,
    EpochSampler,
    SequentialOrder,
    ShuffledOrder,
    WeightedOrder,
    merge_states,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEDS = int(os.environ.get("SPDL_TEST_SEEDS", "24"))


class Loaders(NamedTuple):
    """Makes loaders of the same records in the same order, for any number of ranks."""

    source: Any
    order: Any
    threads: int

    def make(self, rank: int, world_size: int, batch_size: int) -> DataLoader[int, list[str]]:
        """Return the loader of a rank."""
        data = self.source.fingerprint()
        sampler = EpochSampler(self.order, batch_size=batch_size, rank=rank, world_size=world_size, data=data)

        def load(positions: list[int]) -> list[str]:
            return [repr(plain(each)) for each in self.source.__getitems__(positions)]

        return DataLoader(
            sampler, batch_size=batch_size, aggregator=load, output_order="input", num_threads=self.threads
        )


def draw_order(rng: random.Random, count: int, blocks: list[int]) -> Any:
    """Return an order of so many records."""
    seed = rng.randrange(1000)
    weights = [1 + number % 3 for number in range(count)]
    orders: list[Callable[[], Any]] = [
        lambda: SequentialOrder(count),
        lambda: ShuffledOrder(count, seed=seed),
        lambda: BlockShuffledOrder(count, block=blocks, window=rng.randrange(1, 5), seed=seed),
        lambda: BlockShuffledOrder(count, block=rng.randint(1, count), window=2, seed=seed),
        lambda: WeightedOrder(weights, replacement=rng.random() < 0.5, seed=seed),
        lambda: BucketedOrder(weights, group=rng.randrange(1, 20), seed=seed),
    ]
    return rng.choice(orders)()


def draw_loaders(rng: random.Random, folder: Path) -> tuple[Loaders, list[str]]:
    """Write files of any kind, and return loaders of them, and the records."""
    records: list[Any] = []
    make: Any = None
    data = folder
    while not records or None in records:
        data = folder / f"data{rng.randrange(10**9)}"
        data.mkdir()
        make, records = KINDS[rng.choice(list(KINDS))](rng, data, rng.randrange(1, 4))
    source = make(f"{data}/", cache=folder)
    order = draw_order(rng, len(records), source.block_sizes)
    return Loaders(source, order, rng.choice([1, 3])), list(map(repr, records))


def take(loader: Any, count: int | None = None) -> list[list[str]]:
    """Return batches of one pass, at most so many."""
    return [list(batch) for batch in itertools.islice(loader, count)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_follows_a_cut_is_what_is_left(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    loaders, records = draw_loaders(rng, tmp_path)
    world, batch = rng.choice([1, 1, 2, 3, 5]), rng.choice([1, 2, 3, 8])
    ranks = [loaders.make(rank, world, batch) for rank in range(world)]
    whole, later = ([take(loader) for loader in ranks] for _ in range(2))
    expected = Counter(records[position] for position in loaders.order.take(0, np.arange(len(loaders.order))))
    assert_share(whole, expected)

    # Behind the last batch it would matter whether the loop has seen the end, which has a test of its own.
    cut = rng.randrange(len(whole[0]))
    before = [loaders.make(rank, world, batch) for rank in range(world)]
    assert [take(loader, cut) for loader in before] == [batches[:cut] for batches in whole]
    states = [json.loads(json.dumps(loader.state_dict())) for loader in before]

    rank = rng.randrange(world)
    again = loaders.make(rank, world, batch)
    again.load_state_dict(states[rng.choice([rank, rng.randrange(world)])])
    assert (take(again), take(again)) == (whole[rank][cut:], later[rank])

    state = merge_states(states) if rng.random() < 0.5 else rng.choice(states)
    others = rng.choice([1, 2, 3, 4])
    size = rng.choice([1, 2, 5])
    elsewhere = [loaders.make(rank, others, size) for rank in range(others)]
    for loader in elsewhere:
        loader.load_state_dict(state)
    taken = Counter(itertools.chain.from_iterable(each for batches in whole for each in batches[:cut]))
    assert not taken - expected
    assert_share([take(loader) for loader in elsewhere], expected - taken)


def assert_share(ranks: list[list[list[str]]], expected: Counter[str]) -> None:
    """Check that ranks took as many batches each, and all of what is expected, less than one each twice."""
    assert len({len(batches) for batches in ranks}) == 1
    found = Counter(itertools.chain.from_iterable(batch for batches in ranks for batch in batches))
    assert not expected - found
    assert (found - expected).total() < len(ranks)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_pipeline_goes_on_within_its_source(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    loaders, records = draw_loaders(rng, tmp_path)
    received: list[str] = []
    state: dict[str, Any] | None = None
    while True:
        builder = PipelineBuilder().add_source(loaders.source).pipe(plain, concurrency=3, output_order="input")
        pipeline = builder.add_sink(rng.randrange(1, 4)).build(num_threads=3)
        if state is not None:
            pipeline.load_state_dict(state)
        count = rng.randint(1, len(records))
        with pipeline.auto_stop():
            some = list(map(repr, itertools.islice(pipeline, count)))
            received += some
            state = json.loads(json.dumps(pipeline.state_dict()))
        if len(some) < count:
            break
    assert received == records
