"""The part of a sequence that one of several processes takes: every ``world_size``-th item, from its rank on."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from spdl._check import check_int, positive, refuse
from spdl.source._samplers.idle_rank import warn_of_idle_rank

__all__ = ["Shard", "make_shard"]


class Shard(NamedTuple):
    """The positions ``range(rank, total, world_size)``."""

    rank: int
    total: int
    world_size: int

    @property
    def positions(self) -> range:
        """The positions that this rank takes."""
        return range(*self)


def make_shard(size: int, rank: int, world_size: int, *, drop_last: bool, unit: str) -> Shard:
    """Return one rank's part of `size` items.

    Args:
        size: The number of items that all ranks share.
        rank: The number of this rank.
        world_size: The number of ranks.
        drop_last: Whether to leave out the last few items, so that all ranks take the same number.
        unit: The name of the items in messages.
    """
    world_size = positive("world_size", world_size)
    rank = check_int("rank", rank, least=None)
    if not 0 <= rank < world_size:
        refuse(ValueError, "rank", f"from 0 to {world_size - 1} with `world_size={world_size}`", rank)
    if not drop_last:
        if rank >= size:
            warn_of_idle_rank(rank, world_size, size, unit, "Take fewer ranks, or share the items by an EpochSampler.")
        return Shard(rank, size, world_size)
    if size < world_size:
        remedy = "Pass `ddp_drop_last_distributed_round=False` to let some ranks take nothing."
        accepted = f"at most {size}, the number of {unit}: fewer than one for each rank would all be dropped"
        refuse(ValueError, "world_size", accepted, world_size, remedy)
    return Shard(rank, size - size % world_size, world_size)


def warn_of_dropped(size: int, world_size: int, unit: str) -> None:
    """Warn of the items that are left out of every pass, if any."""
    if dropped := size % world_size:
        warnings.warn(
            f"{size} {unit} cannot be shared equally by {world_size} ranks: the last {dropped} are left out of every "
            "pass. Pass `ddp_drop_last_distributed_round=False` to keep them, where ranks may take one item less than "
            "others.",
            stacklevel=3,
        )
