"""The process's place among those that train together, and the threads that it may use."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from spdl._check import check_int, positive, refuse
from spdl._cores import available_cores

__all__ = ["World", "default_threads", "find_world"]


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
    if rank is not None or world_size is not None:
        if rank is None or world_size is None:
            name, other = ("rank", "world_size") if rank is None else ("world_size", "rank")
            refuse(ValueError, name, f"given with `{other}`, or both left out", None)
        return _check(rank, world_size)
    # A process that has not imported it has not initialised it.
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return World(distributed.get_rank(), distributed.get_world_size())
    texts = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if None in texts:
        return World(0, 1)
    return _check(*(_read(name, text) for name, text in zip(("RANK", "WORLD_SIZE"), texts, strict=True)))


def default_threads() -> int:
    """Return the cores that this process may use, shared among the processes that torchrun started on this machine."""
    share = os.environ.get("LOCAL_WORLD_SIZE")
    processes = 1 if share is None else max(_read("LOCAL_WORLD_SIZE", share), 1)
    return max(1, int(available_cores() / processes + 0.5))


def _check(rank: int, world_size: int) -> World:
    world_size = positive("world_size", world_size)
    accepted = f"an int from 0 to {world_size - 1} with `world_size={world_size}`"
    return World(check_int("rank", rank, least=0, most=world_size - 1, accepted=accepted), world_size)


def _read(name: str, text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdigit()):
        msg = f"the environment variable {name} must be a whole number, got {text!r}"
        raise ValueError(msg)
    return int(text)
