"""A program for several ranks: each loader that should, and those that do not, deliver each sample once.

It is called with a folder and with numbers of samples and batch sizes, as ``5x2``, and writes for each rank what it has
received and what the ranks have counted together.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler

from spdl.dataloader import ArrayLoader, DataLoader, PyTorchDataLoader
from spdl.source import DistributedDeterministicSampler, DistributedRandomSampler, EpochSampler, shard


def rows(count: int) -> list[dict[str, Any]]:
    """Return samples whose labels are their numbers."""
    return [{"file": {"image": np.full(2, number)}, "label": number} for number in range(count)]


def batches_of(count: int, size: int) -> dict[str, Any]:
    """Return for each way to share samples what this rank gets, as lists of their numbers."""

    def labels(**options: Any) -> list[list[int]]:
        return [batch.label.tolist() for batch in ArrayLoader(rows(count), size, num_threads=2, **options)]

    def batched(source: Any) -> list[list[int]]:
        return list(DataLoader(source, batch_size=size, output_order="input", num_threads=1))

    def like_torch(sampler: Any) -> list[list[int]]:
        return [batch.tolist() for batch in PyTorchDataLoader(range(count), size, sampler=sampler, num_workers=2)]

    rank, world_size = dist.get_rank(), dist.get_world_size()
    even = EpochSampler(count, batch_size=size, shuffle=False)
    uneven = EpochSampler(count, batch_size=size, shuffle=False, even_batches=False)
    place: dict[str, Any] = {"rank": rank, "world_size": world_size, "ddp_drop_last_distributed_round": False}
    return {
        "media": labels(),
        "media, shuffled": labels(shuffle=True, seed=count),
        "media, uneven": labels(even_batches=False),
        "media, uneven, shuffled": labels(even_batches=False, shuffle=True, seed=count),
        "items": batched(even),
        "items, uneven": batched(uneven),
        "items, all": batched(range(count)),
        "torch, uneven": like_torch(uneven),
        "torch, its sampler": like_torch(DistributedSampler(range(count), shuffle=False)),
        "torch, all": like_torch(None),
        "round, in order": batched(DistributedDeterministicSampler(count, **place)),
        "round, random": batched(DistributedRandomSampler(count, **place)),
        "shard": list(shard(range(count))),
        "shard, padded": list(shard(range(count), stop="pad")),
        "slice": list(islice(range(count), rank, None, world_size)),
    }


def count_by_index(count: int, size: int) -> int:
    """Return how many samples the ranks have seen, each counted once, in equal steps with a collective in each."""
    seen = torch.zeros(count, dtype=torch.int64)
    for batch in ArrayLoader(rows(count), size, shuffle=True, num_threads=2):
        seen[batch.index] = 1
        dist.all_reduce(torch.zeros(1))
    dist.all_reduce(seen, op=dist.ReduceOp.MAX)
    return int(seen.sum())


def count_at_the_end(count: int, size: int) -> tuple[int, int]:
    """Return the number of samples and the sum of their labels, summed once over all ranks."""
    counts = torch.zeros(2, dtype=torch.int64)
    for _, numbers in ArrayLoader(rows(count), size, even_batches=False, num_threads=2):
        counts += torch.tensor([len(numbers), numbers.sum()])
    dist.all_reduce(counts)
    total, summed = counts.tolist()
    return total, summed


def main() -> None:
    """Read all that the arguments ask for."""
    warnings.simplefilter("error")
    # With fewer samples than ranks, a rank without any is told.
    warnings.filterwarnings("ignore", r"Rank \d+ of \d+ gets none of the")
    warnings.filterwarnings("ignore", r"The source of the pipeline \('\w+'\) has yielded nothing")
    dist.init_process_group("gloo")
    found = {}
    for case in sys.argv[2:]:
        count, size = map(int, case.split("x"))
        found[case] = {
            **batches_of(count, size),
            "repeats": EpochSampler(count, batch_size=size).num_repeats,
            "by index": count_by_index(count, size),
            "at the end": count_at_the_end(count, size),
        }
    Path(sys.argv[1], f"{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
    # A thread of gloo may let go of a Python object when the interpreter has ended, which aborts the process.
    os._exit(0)


if __name__ == "__main__":
    main()
