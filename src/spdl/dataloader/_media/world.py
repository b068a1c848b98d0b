"""The process's place among those that train together, and the threads that it may use."""

from __future__ import annotations

import os
from typing import NamedTuple

from spdl._cores import cores_per_process
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
    """Return the cores that this process may use, as a number of threads.

    Raises:
        ValueError: If the environment variable LOCAL_WORLD_SIZE is no number.
    """
    return max(1, int(cores_per_process() + 0.5))
