"""Of fewer samples than ranks, a rank that gets none is told: by each source and loader in the same words."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

from spdl.dataloader import ImageLoader
from spdl.source import DistributedDeterministicSampler, DistributedRandomSampler, EpochSampler, shard

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT, RANKS = 3, 5
PHOTOS = [(b"P6 1 1 255 abc", 0)] * COUNT


def _sampler(kind: Any) -> Callable[[int], list[Any]]:
    return lambda rank: list(kind(COUNT, rank=rank, world_size=RANKS, ddp_drop_last_distributed_round=False))


def _epoch_sampler(rank: int) -> list[Any]:
    return list(EpochSampler(COUNT, batch_size=2, rank=rank, world_size=RANKS, even_batches=False))


def _loader(rank: int) -> list[Any]:
    loader = ImageLoader(PHOTOS, 2, size=8, output="numpy", rank=rank, world_size=RANKS, even_batches=False)
    return [batch.index for batch in loader]


WAYS: dict[str, tuple[Callable[[int], list[Any]], str, str]] = {
    "EpochSampler": (_epoch_sampler, "items", "even_batches"),
    "ImageLoader": (_loader, "samples of an epoch", "even_batches"),
    "deterministic": (_sampler(DistributedDeterministicSampler), "items", "EpochSampler"),
    "random": (_sampler(DistributedRandomSampler), "draws", "EpochSampler"),
    "shard of a sequence": (lambda rank: list(shard(range(COUNT), rank, RANKS)), "items", "stop='pad'"),
    "shard of an iterable": (lambda rank: list(shard(iter(range(COUNT)), rank, RANKS)), "items", "stop='pad'"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_that_gets_nothing_is_told_and_no_other(way: str) -> None:
    read, called, remedy = WAYS[way]
    idle = 0
    for rank in range(RANKS):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = read(rank)
        texts = [str(warning.message) for warning in caught]
        if found:
            assert texts == []
            continue
        idle += 1
        (text,) = texts
        assert text.startswith(f"Rank {rank} of {RANKS} gets none of the {COUNT} {called}. Take fewer ranks, or ")
        assert remedy in text
        assert (caught[0].category, caught[0].filename) == (RuntimeWarning, __file__)
    # `shard` leaves out a round that is not full.
    assert idle == (RANKS if way.startswith("shard") else RANKS - COUNT)


def test_each_rank_with_something_is_told_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rank in range(RANKS):
            assert len(EpochSampler(COUNT, rank=rank, world_size=RANKS)) == 1
            assert list(shard(range(COUNT), rank, RANKS, stop="pad"))
            assert list(shard([], rank, RANKS)) == []
            assert len(list(ImageLoader(PHOTOS, 2, size=8, output="numpy", rank=rank, world_size=RANKS))) == 1
