"""Whether a loader's workers are threads or processes, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from torch.utils.data import IterableDataset

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .thread_dangers import find_danger

if TYPE_CHECKING:
    from .any_loader import AnyLoader

__all__ = ["WorkerChoice", "choose_workers"]


class WorkerChoice(NamedTuple):
    """What the workers of a loader are.

    Attributes:
        kind: ``"thread"`` or ``"process"``; ``"caller"`` if there are none, and the loop loads by itself.
        reason: Why, in words.
    """

    kind: Literal["thread", "process", "caller"]
    reason: str


def choose_workers(loader: AnyLoader) -> WorkerChoice:  # noqa: PLR0911 - one for each reason.
    """Return what the workers are to be."""
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
    danger = find_danger(loader.dataset, "dataset") or find_danger(loader.collate_fn, "collate_fn")
    if danger is not None:
        return WorkerChoice("process", f"{danger}; workers='thread' says that threads may share it")
    return WorkerChoice("thread", "the dataset is map-style, and nothing in it speaks against threads")
