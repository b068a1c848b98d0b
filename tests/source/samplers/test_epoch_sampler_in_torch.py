"""The sampler of epochs inside PyTorch's own loader."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from spdl.source import EpochSampler

torch_data = pytest.importorskip("torch.utils.data")


def make(rank: int, world_size: int) -> EpochSampler:
    return EpochSampler(23, batch_size=4, seed=2, rank=rank, world_size=world_size)


def batches(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_as_sampler_and_as_batch_sampler(num_workers: int) -> None:
    dataset = list(range(100, 123))
    for rank in range(2):
        expected = [[100 + index for index in batch] for batch in make(rank, 2).batch_sampler]
        by_batch = torch_data.DataLoader(dataset, batch_sampler=make(rank, 2).batch_sampler, num_workers=num_workers)
        by_item = torch_data.DataLoader(dataset, batch_size=4, sampler=make(rank, 2), num_workers=num_workers)
        assert len(by_batch) == len(by_item) == len(expected)
        assert batches(by_batch) == batches(by_item) == expected
        assert batches(by_batch) != expected  # The next epoch.


def test_a_loop_in_this_process_resumes_by_the_samplers_state() -> None:
    sampler = make(0, 1)
    loader = torch_data.DataLoader(range(23), batch_sampler=sampler.batch_sampler)
    whole = batches(loader)
    sampler.set_epoch(0)
    begun = [batch.tolist() for batch in islice(loader, 2)]
    # Without workers the loader asks for a batch when the loop does, so what was yielded was received.
    state = sampler.state_dict()
    resumed = make(0, 1)
    resumed.load_state_dict(state)
    assert begun + batches(torch_data.DataLoader(range(23), batch_sampler=resumed.batch_sampler)) == whole
    ranks = [make(rank, 3) for rank in range(3)]
    rest = []
    for rank in ranks:
        rank.load_state_dict(state)
        rest += [
            index
            for batch in batches(torch_data.DataLoader(range(23), batch_sampler=rank.batch_sampler))
            for index in batch
        ]
    assert sorted([index for batch in begun for index in batch] + rest) == list(range(23))
