"""The process's place among those that train together, and the threads that it may use."""

from __future__ import annotations

import os
from typing import NamedTuple

from spdl._cores import available_cores
from spdl.source._samplers.world import find_in_torch, find_rank

__all__ = ["World", "default_threads", "find_world", "may_find_world"]


class World(NamedTuple):
    """One of several processes that share a dataset."""

    rank: int
    size: int


def find_world(rank: int | None, world_size: int | None) -> World:
    """Return the arguments if they are given; else what torch.distributed or the environment says.

    Raises:
        TypeError: If an argument is no int.
        ValueError: If one of them is given alone, or a number is out of range, also in the environment.
    """
    return World(*find_rank(rank, world_size))


def may_find_world() -> bool:
    """Return whether `find_world` can say more than that the environment has only half of what it should.

    A launcher such as that of Lightning's Trainer sets WORLD_SIZE and no RANK, and torch.distributed will know both
    when the loader is used.
    """
    return ("RANK" in os.environ) == ("WORLD_SIZE" in os.environ) or find_in_torch() is not None


def default_threads() -> int:
    """Return the cores that this process may use, shared among the processes that torchrun started on this machine.

    Raises:
        ValueError: If the environment variable LOCAL_WORLD_SIZE is no number.
    """
    share = os.environ.get("LOCAL_WORLD_SIZE", "1")
    if not (share.isascii() and share.isdigit() and int(share)):
        msg = f"the environment variable LOCAL_WORLD_SIZE must be the number of processes on a machine, got {share!r}"
        raise ValueError(msg)
    return max(1, int(available_cores() / int(share) + 0.5))
