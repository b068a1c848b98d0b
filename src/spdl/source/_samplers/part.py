"""Which worker of which rank this is, and of how many in all."""

from __future__ import annotations

import sys

from spdl._check import check_int, refuse
from spdl.source._samplers.world import find_rank

__all__ = ["find_part"]

_MOST_WORKERS = 1 << 20


def find_part(rank: int | None, world_size: int | None, worker: int | None, num_workers: int | None) -> tuple[int, int]:
    """Return the number of this worker among those of all ranks, and how many these are.

    Args:
        rank: The rank, or None to look for it; see `find_rank`.
        world_size: The number of ranks.
        worker: The number of the worker, or None to ask PyTorch's DataLoader.
        num_workers: The number of workers of each rank.

    Raises:
        TypeError: If one is given and is no int.
        ValueError: If only one of a pair is given, or if they do not fit each other.
    """
    rank, world_size = find_rank(rank, world_size)
    if (worker is None) != (num_workers is None):
        given, missing = ("worker", "num_workers") if num_workers is None else ("num_workers", "worker")
        refuse(ValueError, missing, f"given together with `{given}`", None, "Leave out both to have them found.")
    if worker is None or num_workers is None:
        worker, num_workers = _ask_torch()
    num_workers = check_int("num_workers", num_workers, least=1, most=_MOST_WORKERS)
    worker = check_int("worker", worker, least=0, most=num_workers - 1)
    # So a rank has the same archives whatever the number of its workers is.
    return rank + world_size * worker, world_size * num_workers


def _ask_torch() -> tuple[int, int]:
    # A program that has not imported it is none of its workers.
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)
