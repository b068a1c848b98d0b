"""One rank of `test_equal_steps_of_processes`: many uneven parts, and a step that waits for all ranks."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from spdl.pipeline import PipelineBuilder
from spdl.source import EqualSteps, agree_over_torch, shard

if TYPE_CHECKING:
    from pathlib import Path


def agree_to_stop(folder: Path, rank: int, ranks: int, shardings: int) -> dict[int, int]:
    """Return the number of steps of each sharding that it took part in."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/stop", rank=rank, world_size=ranks, timeout=timedelta(seconds=120)
    )
    agree = {
        world_size: (group, agree_over_torch(dist.new_group(list(range(world_size)))))
        for world_size in range(2, ranks + 1)
        for group in [dist.new_group(list(range(world_size)))]
    }
    draws = random.Random(11)  # noqa: S311 - no secret.
    steps = {}
    for number in range(shardings):
        n, world_size = draws.randint(0, 40), draws.randint(2, ranks)
        lost = [{index for index in range(n) if draws.random() < 0.2} for _ in range(ranks)]
        if rank >= world_size:
            continue
        group, over_torch = agree[world_size]
        if number % 10 == 0:
            # A whole pipeline that drops items, other ones on each rank.
            def keep(item: int, *, bad: set[int] = lost[rank]) -> int | None:
                return None if item in bad else item

            pipeline = PipelineBuilder().add_source(range(n)).pipe(keep).add_sink(2).build(num_threads=1)
            with pipeline.auto_stop():
                count = take_steps(EqualSteps(pipeline, over_torch) if n else [], group, world_size)
            expected = min(n - len(each) for each in lost[:world_size])
        else:
            part = [index for index in range(rank, n, world_size) if index not in lost[rank]]
            count = take_steps(shard(part, 0, 1, stop="agree", agree=over_torch), group, world_size)
            expected = min(
                sum(index not in lost[each] for index in range(each, n, world_size)) for each in range(world_size)
            )
        assert count == expected, f"sharding {number}: {count} steps in place of {expected}"
        steps[number] = count
    dist.destroy_process_group()
    return steps


def take_steps(parts: object, group: object, world_size: int) -> int:
    """Wait for all ranks in each step, and return how many there were."""
    count = 0
    for _ in parts:  # type: ignore[attr-defined]
        total = torch.tensor([1.0])
        dist.all_reduce(total, group=group)
        assert total[0] == world_size
        count += 1
    most = torch.tensor([float(count), -1000.0])
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    assert most[0] == count, f"{count} steps and {most[0]}"
    assert most[1] == -1000, "another rank is in a step"
    return count
