"""One rank of `test_equal_steps_of_processes`: loads its part of many shardings, and waits for others in each step."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.distributed as dist

from spdl.dataloader import DataLoader
from spdl.io import load_npy
from spdl.source import EpochSampler, Refill

if TYPE_CHECKING:
    from pathlib import Path

_FILES = 64


def write_files(folder: Path) -> None:
    """Write a whole and a corrupt form of each file."""
    for index in range(_FILES):
        path = folder / f"{index}.npy"
        np.save(path, np.full(3, index))
        (folder / f"{index}.corrupt").write_bytes(path.read_bytes()[: 5 + index])


def load_parts(folder: Path, rank: int, ranks: int, shardings: int) -> tuple[dict[int, int], int]:
    """Return the number of steps of each sharding that it took part in, and how many corrupt files were replaced."""
    logging.disable()
    torch.set_num_threads(1)
    if rank == 0:
        write_files(folder)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks, timeout=timedelta(seconds=120)
    )
    dist.barrier()
    groups = {world_size: dist.new_group(list(range(world_size))) for world_size in range(2, ranks + 1)}
    draws = random.Random(7)  # noqa: S311 - no secret.
    steps = {}
    replaced = 0
    for number in range(shardings):
        n, world_size, batch_size = draws.randint(1, _FILES), draws.randint(2, ranks), draws.randint(1, 9)
        drop_last = draws.random() < 0.5 and n >= world_size * batch_size
        unlucky, share = draws.randrange(world_size), draws.random()
        corrupt = {index for index in range(n) if draws.random() < share}
        corrupt.discard(draws.randrange(n))
        if rank >= world_size:
            continue

        def load(index: int, *, bad: set[int] = corrupt if rank == unlucky else set()) -> float:
            suffix = "corrupt" if index in bad else "npy"
            # Not np.load, which parses by `ast`: that fails now and then in several threads before Python 3.11.8.
            return float(load_npy((folder / f"{index}.{suffix}").read_bytes()).sum())

        sampler = EpochSampler(
            n, batch_size=batch_size, drop_last=drop_last, seed=number, rank=rank, world_size=world_size
        )
        op = Refill(load, n, seed=number, attempts=n)
        loader: DataLoader[int, list[float]] = DataLoader(
            sampler, preprocessor=op, batch_size=batch_size, num_threads=2, buffer_size=1
        )
        count = 0
        for batch in loader:
            # What a training step does: it waits for the gradients of all ranks.
            total = torch.tensor([float(len(batch)), 1.0])
            dist.all_reduce(total, group=groups[world_size])
            assert total[1] == world_size
            assert total[0] <= world_size * batch_size
            count += 1
        # A rank that takes one step more than others would meet this in place of their step.
        most = torch.tensor([float(count), -1000.0])
        dist.all_reduce(most, op=dist.ReduceOp.MAX, group=groups[world_size])
        assert most[0] == count, f"sharding {number}: {count} steps and {most[0]}"
        assert most[1] == -1000, f"sharding {number}: another rank is in a step"
        assert (
            count
            == sampler.num_batches
            == (n // (world_size * batch_size) if drop_last else -(-n // (world_size * batch_size)))
        )
        assert op.count == 0 or rank == unlucky, f"sharding {number}: {op.failures}"
        steps[number] = count
        replaced += op.count
    dist.destroy_process_group()
    return steps, replaced
