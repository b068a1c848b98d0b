"""Indices in ascending order, shared among processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import check_flag, positive
from spdl.source._samplers.shard import make_shard, warn_of_dropped

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DistributedDeterministicSampler"]


class DistributedDeterministicSampler:
    """The indices of a dataset in ascending order, of which each rank takes every ``world_size``-th.

    Args:
        n: The size of the dataset, at least 1.
        rank: The number of this process, from 0.
        world_size: How many processes share the dataset.
        ddp_drop_last_distributed_round: Whether to yield the same number of indices in all ranks, which collective
            operations of distributed training need. The last ``n % world_size`` indices are then left out, with a
            warning. Otherwise every index is yielded by some rank, and some ranks yield one more than others.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or `n` is less than `world_size`, so that all would be dropped.

    Example:
        >>> from spdl.source import DistributedDeterministicSampler
        >>> list(DistributedDeterministicSampler(6, rank=1, world_size=2))
        [1, 3, 5]
    """

    def __init__(self, n: int, /, *, rank: int, world_size: int, ddp_drop_last_distributed_round: bool = True) -> None:
        n = positive("n", n)
        drop_last = check_flag("ddp_drop_last_distributed_round", ddp_drop_last_distributed_round)
        self._indices = make_shard(n, rank, world_size, drop_last=drop_last, unit="items").positions
        if drop_last:
            warn_of_dropped(n, world_size, "items")

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)
