"""An iterator over the batches that torch's worker processes load."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .in_worker import StartWorker, WorkerDataset, WorkerStream, take_as_it_is
from .iterable_epoch import IterableEpoch
from .pickled_once import PickledOnce
from .positions import Step
from .stream_fetch import StreamOptions
from .tracked_iterator import TrackedIterator

if TYPE_CHECKING:
    from collections.abc import Callable

    from .any_loader import AnyLoader
    from .in_worker import Delivery

__all__ = ["ProcessIterator"]


class ProcessIterator(_MultiProcessingDataLoaderIter, TrackedIterator):  # type: ignore[misc] # mypy sees no types.
    """torch's own worker processes, which tell with each batch which one it is.

    torch starts the processes, seeds them, sends them what to load, waits for them and ends them. The dataset that it
    sends them is one of ours, around the user's.

    Args:
        loader: The loader.
    """

    def __init__(self, loader: AnyLoader) -> None:
        self._pickled: PickledOnce | None = None
        self._process = os.getpid()
        try:
            super().__init__(loader)
        finally:
            # The workers have memory of their own.
            if self._pickled is not None:
                self._pickled.close()

    def _shutdown_workers(self) -> None:
        # A forked child has a copy of this iterator, and no workers: those are its parent's, which goes on with them.
        if self._process == os.getpid():
            super()._shutdown_workers()

    def _prepare(self, loader: AnyLoader) -> None:
        epoch = self._epoch
        self._dataset: WorkerStream | WorkerDataset
        if isinstance(epoch, IterableEpoch):
            options = StreamOptions(loader.collate_fn, loader.batch_size, self._drop_last)
            self._dataset = WorkerStream(loader.dataset, options, epoch.begins)
        else:
            batched = loader.batch_sampler is not None
            dataset = self._pickled = _pickle_once(loader)
            if dataset is None:
                dataset = loader.dataset
            self._dataset = WorkerDataset(dataset, loader.collate_fn, batched=batched)
        self._collate_fn = take_as_it_is
        self._auto_collation = False

    @property
    def _worker_init_fn(self) -> StartWorker:
        return StartWorker(self._users_init_fn)

    @_worker_init_fn.setter
    def _worker_init_fn(self, worker_init_fn: Callable[[int], object] | None) -> None:
        self._users_init_fn = worker_init_fn

    def _try_put_index(self) -> None:
        if self._send_idx == 0 and isinstance(self._epoch, IterableEpoch):
            # torch asks its workers in turns, and begins with the first.
            turns = range(self._num_workers)
            first = self._epoch.first_worker
            self._worker_queue_idx_cycle = itertools.cycle([*turns[first:], *turns[:first]])
        super()._try_put_index()

    def _next_data(self) -> Any:
        delivery: Delivery = super()._next_data()
        progress = self._epoch.progress
        iterable = isinstance(self._epoch, IterableEpoch)
        self._handed = Step(progress.turn, delivery.source, delivery.state) if iterable else delivery.source
        if delivery.failure is not None:
            progress.receive(self._handed)
            delivery.failure.reraise()
        return delivery.batch


def _pickle_once(loader: AnyLoader) -> PickledOnce | None:
    """Return the dataset's pickle, if the loader wants that and its processes unpickle the dataset at all."""
    context = loader.multiprocessing_context or torch.multiprocessing
    if loader._pickles_once is None or context.get_start_method() == "fork":  # noqa: SLF001 - the classes belong together.
        return None
    at_once = loader._pickles_once  # noqa: SLF001
    return PickledOnce(loader.dataset, context.BoundedSemaphore(at_once) if at_once else None)
