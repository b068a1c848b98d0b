"""How many workers a loader has, whether they are threads or processes, and why."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from torch.utils.data import DataLoader, IterableDataset

from spdl.dataloader._thread_safety.search import find_obstacle


def worker_counts(loader: DataLoader) -> tuple[int, int]:
    """Return how many workers there are, and how many batches are loaded or ready for each. True is 1, as for torch."""
    if loader.prefetch_factor < 1:
        raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
    return len(range(loader.num_workers)), len(range(loader.prefetch_factor))


_SAMPLERS = ("torch.utils.data.", "spdl.source.", "builtins")


class WorkerChoice(NamedTuple):
    """The kind of a loader's workers.

    Attributes:
        kind: ``"thread"`` or ``"process"``; ``"caller"`` if there are no workers, and the loop loads by itself.
        reason: Why, in words.
    """

    kind: Literal["thread", "process", "caller"]
    reason: str


def choose_workers(loader: DataLoader) -> WorkerChoice:  # noqa: PLR0911 - one for each reason.
    if loader.num_workers == 0:
        return WorkerChoice("caller", "num_workers is 0")
    if loader.workers is not None:
        return WorkerChoice(loader.workers, f"workers={loader.workers!r} was asked for")
    if isinstance(loader.dataset, IterableDataset):
        return WorkerChoice("process", "each worker of an IterableDataset needs a copy of its own to iterate")
    if loader.worker_init_fn is not None:
        return WorkerChoice("process", "worker_init_fn was given, which usually changes the state of a whole process")
    if loader.multiprocessing_context is not None:
        return WorkerChoice("process", "multiprocessing_context was given")
    obstacle = find_obstacle(
        loader.dataset, loader.collate_fn, _own_samplers(loader), batched=loader.batch_sampler is not None
    )
    if obstacle is not None:
        return WorkerChoice("process", f"{obstacle}; workers='thread' says that threads may share it")
    return WorkerChoice("thread", "the code that loads an item only reads what threads share")


def _own_samplers(loader: DataLoader) -> list[Any]:
    """Return the user's own samplers. PyTorch's and ours yield numbers, and change nothing but themselves."""
    samplers = [loader.batch_sampler, loader.sampler, getattr(loader.batch_sampler, "sampler", None)]
    return [it for it in samplers if it is not None and not type(it).__module__.startswith(_SAMPLERS)]
