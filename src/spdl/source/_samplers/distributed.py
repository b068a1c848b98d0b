"""Indices in ascending order, shared among the ranks of a job and the workers of a rank."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from spdl._check import check_flag, check_int, positive, refuse, show
from spdl._locate import warn_caller
from spdl._not_here import refuses


def warn_of_idle_rank(rank: int, world_size: int, count: int, called: str, remedy: str) -> None:
    warn_caller(f"Rank {rank} of {world_size} gets none of the {count} {called}. {remedy}")


# A state that was taken within a step lists a range for each rank.
_MOST_RANKS = 1 << 20


def find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the rank of this process and the number of ranks, which are looked for if both are None."""
    if (rank is None) != (world_size is None):
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        refuse(ValueError, missing, f"given together with `{given}`", None, "Leave out both to have them found.")
    if rank is None or world_size is None:
        return find_in_torch() or _read_environment() or (0, 1)
    return _check_rank(rank, world_size, _MOST_RANKS)


def _check_rank(rank: int, world_size: int, most: int | None = None) -> tuple[int, int]:
    world_size = check_int("world_size", world_size, least=1, most=most)
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
    if not 0 <= rank < world_size <= _MOST_RANKS:
        raise ValueError(
            "The environment variables RANK and WORLD_SIZE must be a number of a process, from 0, and the number of "
            f"processes, at most {_MOST_RANKS}, got {show(texts[0])} and {show(texts[1])}. {remedy}"
        )
    return rank, world_size


def make_shard(size: int, rank: int, world_size: int, *, drop_last: bool, unit: str) -> range:
    rank, world_size = _check_rank(rank, world_size)
    if not drop_last:
        if rank >= size:
            warn_of_idle_rank(rank, world_size, size, unit, "Take fewer ranks, or share the items by an EpochSampler.")
        return range(rank, size, world_size)
    if size < world_size:
        remedy = "Pass `ddp_drop_last_distributed_round=False` to let some ranks take nothing."
        accepted = f"at most {size}, the number of {unit}: fewer than one for each rank would all be dropped"
        refuse(ValueError, "world_size", accepted, world_size, remedy)
    return range(rank, size - size % world_size, world_size)


def warn_of_dropped(size: int, world_size: int, unit: str) -> None:
    if dropped := size % world_size:
        warn_caller(
            f"{size} {unit} cannot be shared equally by {world_size} ranks: the last {dropped} are left out of every "
            "pass. Pass `ddp_drop_last_distributed_round=False` to keep them, where ranks may take one item less than "
            "others.",
            UserWarning,
        )


_MOST_WORKERS = 1 << 20


def find_part(rank: int | None, world_size: int | None, worker: int | None, num_workers: int | None) -> tuple[int, int]:
    """Return the number of this worker among the workers of all ranks, and how many they are.

    Without a rank, `find_rank` looks for it; without a worker, PyTorch's DataLoader is asked.
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
    # A program that has not imported it is not one of its workers.
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


class DistributedDeterministicSampler:
    """The indices of a dataset in ascending order. Each rank takes every ``world_size``-th.

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

    @refuses({"num_replicas": "use `world_size`"})
    def __init__(self, n: int, /, *, rank: int, world_size: int, ddp_drop_last_distributed_round: bool = True) -> None:
        n = positive("n", n)
        drop_last = check_flag("ddp_drop_last_distributed_round", ddp_drop_last_distributed_round)
        self._indices = make_shard(n, rank, world_size, drop_last=drop_last, unit="items")
        if drop_last:
            warn_of_dropped(n, world_size, "items")

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)
