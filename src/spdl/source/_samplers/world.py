"""Which rank this process is, and of how many."""

from __future__ import annotations

import os
import sys

from spdl._check import check_int, refuse, show

__all__ = ["MOST_RANKS", "check_rank_found", "find_in_torch", "find_rank"]

# A state that was taken within a step lists a range for each rank. One that was damaged must not take all memory.
MOST_RANKS = 1 << 20


def find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the rank of this process and the number of ranks.

    Args:
        rank: The rank, or None to look for it.
        world_size: The number of ranks, or None to look for it.

    Raises:
        TypeError: If one is given and is no int.
        ValueError: If only one is given or found, or if they do not fit each other.
    """
    if (rank is None) != (world_size is None):
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        refuse(ValueError, missing, f"given together with `{given}`", None, "Leave out both to have them found.")
    if rank is None or world_size is None:
        return find_in_torch() or _read_environment() or (0, 1)
    world_size = check_int("world_size", world_size, least=1, most=MOST_RANKS)
    rank = check_int("rank", rank, least=None)
    if not 0 <= rank < world_size:
        refuse(ValueError, "rank", f"from 0 to {world_size - 1} with `world_size={world_size}`", rank)
    return rank, world_size


def check_rank_found(rank: int, world_size: int) -> None:
    """Raise RuntimeError if the process has another rank by now than the one that `find_rank` found."""
    found = find_rank(None, None)
    if found != (rank, world_size):
        raise RuntimeError(
            f"This sampler was made for rank {rank} of {world_size}, and the process is now rank {found[0]} of "
            f"{found[1]}: make it after torch.distributed.init_process_group(), or pass `rank` and `world_size`."
        )


def find_in_torch() -> tuple[int, int] | None:
    """Return the rank and the number of ranks of torch.distributed; None if the program has not initialised it."""
    # A program that has not imported it has no process group.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _read_environment() -> tuple[int, int] | None:
    texts = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if texts == (None, None):
        return None
    remedy = "Launchers such as torchrun set both; otherwise pass `rank` and `world_size`, or unset both."
    if None in texts:
        name, other = ("RANK", "WORLD_SIZE") if texts[1] is None else ("WORLD_SIZE", "RANK")
        raise ValueError(f"The environment variable {name} is set and {other} is not. {remedy}")
    try:
        rank, world_size = int(texts[0] or ""), int(texts[1] or "")
    except ValueError:
        rank, world_size = -1, 0
    if not 0 <= rank < world_size <= MOST_RANKS:
        raise ValueError(
            "The environment variables RANK and WORLD_SIZE must be a number of a process, from 0, and the number of "
            f"processes, at most {MOST_RANKS}, got {show(texts[0])} and {show(texts[1])}. {remedy}"
        )
    return rank, world_size
