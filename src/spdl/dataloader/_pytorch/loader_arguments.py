"""What the arguments of `PyTorchDataLoader` change of the pipeline in which its worker threads load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.utils.data import IterableDataset

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.pipeline._metrics.loader_arguments import LoaderArguments, StageArguments

if TYPE_CHECKING:
    from .any_loader import AnyLoader

__all__ = ["arguments_of"]

# A batch of a few kilobytes takes so many seconds of CPU time more from torch's processes than from threads.
_CROSSING = 6e-4


def arguments_of(loader: AnyLoader, num_workers: int) -> LoaderArguments:
    """Return what a user may change of a loader that has so many worker threads."""
    iterable = isinstance(loader.dataset, IterableDataset)
    load = StageArguments(
        unit="item" if loader.batch_size is None and loader.batch_sampler is None else "batch",
        slot="worker",
        several="num_workers",
        value=num_workers,
        note="The dataset has to share itself among them (`get_worker_info`)." if iterable else "",
        processes='workers="process"',
        crossing=_CROSSING,
    )
    idle = (
        "Workers wait for the loop to ask for more: it asks for `prefetch_factor` batches for each of them. If some "
        "batches take far longer than others, a greater `prefetch_factor` lets workers go on meanwhile."
    )
    return LoaderArguments(type(loader).__name__, (load,), on_demand=True, idle=idle)
