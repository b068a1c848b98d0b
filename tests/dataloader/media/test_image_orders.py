"""Each epoch of an image loader has its order, of which each rank has its share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.dataloader.media.image_loading import COUNT, Backwards, contents, make

from spdl.source import EpochSampler, ImageFolder


def test_each_epoch_has_its_order_and_repeats_with_the_seed(photos: ImageFolder) -> None:
    def orders(seed: int) -> list[list[int]]:
        loader = make(photos, shuffle=True, seed=seed)
        return [[index for index, _ in contents(loader)] for _ in range(3)]

    first = orders(3)
    assert all(sorted(order) == list(range(COUNT)) for order in first)
    assert len({tuple(order) for order in [*first, *orders(4)]}) == 6
    assert orders(3) == first
    loader = make(photos, shuffle=True, seed=3)
    loader.set_epoch(2)
    assert [index for index, _ in contents(loader)] == first[2]
    assert loader.epoch == 3


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_ranks_share_an_epoch_in_equal_steps(
    photos: ImageFolder,
    world_size: int,
    drop_last: bool,  # noqa: FBT001
    batch_size: int,
) -> None:
    together = batch_size * world_size
    options: dict[str, Any] = {"world_size": world_size, "drop_last": drop_last, "shuffle": True, "num_threads": 1}
    if drop_last and together > COUNT:
        with pytest.raises(ValueError, match=f"{batch_size} on each of {world_size} ranks"):
            make(photos, batch_size, rank=0, **options)
        return
    loaders = [make(photos, batch_size, rank=rank, **options) for rank in range(world_size)]
    batches = [list(loader) for loader in loaders]
    steps = COUNT // together if drop_last else -(-COUNT // together)
    assert [len(each) for each in batches] == [len(loader) for loader in loaders] == [steps] * world_size
    indices = [index for each in batches for index, _ in contents(each)]
    left = 0 if drop_last else COUNT % together
    repeated = world_size - left if 0 < left < world_size else 0
    assert len(indices) == COUNT - (COUNT % together if drop_last else 0) + repeated
    assert len(set(indices)) == len(indices) - repeated


def test_a_place_in_torch_distributed_or_the_environment(photos: ImageFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = make(photos, batch_size=3)
    assert (loader.rank, loader.world_size, len(loader)) == (1, 2, 4)
    assert next(iter(loader)).index.tolist() == [3, 4, 5]
    assert make(photos, rank=0, world_size=1).world_size == 1
    # What is initialised counts more, also if it is initialised after the loader was made.
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    assert (loader.rank, loader.world_size) == (2, 4)
    monkeypatch.undo()
    monkeypatch.setenv("RANK", "one")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"RANK and WORLD_SIZE must be a number of a process.*'one'"):
        make(photos)
    monkeypatch.undo()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "none")
    with pytest.raises(ValueError, match="LOCAL_WORLD_SIZE must be the number of processes"):
        list(make(photos, num_threads=None))


@pytest.mark.parametrize(("batch_size", "world_size", "drop_last"), [(1, 1, False), (4, 3, False), (3, 5, True)])
def test_samples_are_shared_as_the_sampler_shares_them(
    photos: ImageFolder,
    batch_size: int,
    world_size: int,
    drop_last: bool,  # noqa: FBT001
) -> None:
    options: dict[str, Any] = {"batch_size": batch_size, "world_size": world_size, "drop_last": drop_last}
    for rank in range(world_size):
        sampler = EpochSampler(COUNT, shuffle=True, seed=4, rank=rank, **options)
        loader = make(photos, shuffle=True, seed=4, rank=rank, **options)
        for _ in range(2):
            assert [batch.index.tolist() for batch in loader] == [list(map(int, it)) for it in sampler.batch_sampler]


class Dogs:
    """Only the second class, each image twice."""

    fingerprint = "dogs"

    def __len__(self) -> int:
        return 28

    def take(self, epoch: int, positions: Any, /) -> Any:
        return 9 + (positions + epoch) % 14


def test_an_order_of_ones_own(photos: ImageFolder) -> None:
    loader = make(photos, order=Dogs())
    for epoch in range(2):
        batches = list(loader)
        assert len(batches) == len(loader) == 7
        assert [label for batch in batches for label in batch.label.tolist()] == [1] * 28
        assert batches[0].index.tolist() == [9 + epoch, 10 + epoch, 11 + epoch, 12 + epoch]
    with pytest.raises(ValueError, match="order='dogs', and this loader has order='sequential"):
        make(photos).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
def test_half_an_environment_is_an_error_when_the_place_is_needed(
    photos: ImageFolder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for it in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(it, raising=False)
    monkeypatch.setenv(name, "2")
    # torch.distributed may be initialised after it, and knows both.
    loader = make(photos)
    uses: list[Any] = [lambda it: next(iter(it)), len, lambda it: it.rank]
    for use in uses:
        with pytest.raises(ValueError, match=f"{name} is set and .* is not"):
            use(loader)
    monkeypatch.delenv(name)
    assert len(loader) == 6
    assert make(photos, rank=1, world_size=2).rank == 1


def test_an_order_may_be_of_any_class(photos: ImageFolder) -> None:
    loader = make(photos, order=Backwards(COUNT))
    assert [index for batch in loader for index in batch.index.tolist()] == list(range(COUNT))[::-1]
    assert loader.state_dict()["order"] == "backwards"
