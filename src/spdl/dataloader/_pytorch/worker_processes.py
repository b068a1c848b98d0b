"""PyTorch's worker processes: what runs in them, and an iterator over their batches."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data._utils import worker as torch_worker
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from spdl.dataloader._pytorch.fetching import BatchRequest, MapFetch, StreamFetch, StreamOptions, as_it_is
from spdl.dataloader._pytorch.loader_iterators import TrackedIterator
from spdl.dataloader._pytorch.state import IterableEpoch, Position, StreamStep
from spdl.pipeline._elsewhere.memory import AnonymousMemory


class PickledOnce:
    """The pickle of a dataset in shared memory. A copy that was sent to a child process leads to the same memory.

    The gate lets in as many processes at once as may unpickle it.
    """

    def __init__(self, dataset: Any, gate: AbstractContextManager[Any] | None) -> None:
        pickled = pickle.dumps(dataset, protocol=5)
        self._gate = gate
        self._size = len(pickled)
        self._memory = AnonymousMemory(self._size)
        self._memory.back(0, self._size)
        with memoryview(self._memory.map()) as view:
            view[:] = pickled

    def load(self) -> Any:
        try:
            with self._gate or nullcontext(), memoryview(self._memory.map()) as view:
                return pickle.loads(view)  # noqa: S301 - from our own parent process.
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the memory. It is freed when the last process has."""
        self._memory.close()


class Delivery(NamedTuple):
    """A batch on its way to the consumer's process, or how loading has failed, as torch sends it.

    The source is the number of the batch, or that of the worker of an iterable dataset, whose state comes with it.
    """

    source: int
    batch: Any
    state: Any
    failure: Any

    def pin_memory(self, device: str | None = None) -> Delivery:
        """PyTorch calls this."""
        return self._replace(batch=pin_memory(self.batch, device))


def _failure() -> Any:
    return ExceptionWrapper(where=f"in DataLoader worker process {_worker_id()}")


def _worker_id() -> int:
    info = get_worker_info()
    assert info is not None
    return int(info.id)


class WorkerDataset:
    """Stands for a map-style dataset in torch's worker: looks up requests and returns deliveries."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], *, batched: bool) -> None:
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._batched = batched
        self._fetch: MapFetch | None = None

    def open(self) -> Any:
        dataset = self._dataset.load() if isinstance(self._dataset, PickledOnce) else self._dataset
        self._fetch = MapFetch(dataset, self._collate_fn, batched=self._batched)
        return dataset

    def __getitem__(self, request: BatchRequest) -> Delivery:
        assert self._fetch is not None
        try:
            return Delivery(request.number, self._fetch(request.index), None, None)
        except Exception:  # noqa: BLE001 - it is raised where the batch is wanted.
            return Delivery(request.number, None, None, _failure())


class WorkerStream(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Stands for an iterable dataset in torch's worker: yields deliveries, from the positions of the workers on."""

    def __init__(self, dataset: Any, options: StreamOptions, positions: Sequence[Position]) -> None:
        self._dataset = dataset
        self._options = options
        self._positions = positions

    def open(self) -> Any:
        return self._dataset

    def __iter__(self) -> Iterator[Delivery]:
        worker = _worker_id()
        fetch = StreamFetch(self._dataset, self._options, self._positions[worker])
        # An epoch that persistent workers continue with begins at the beginning.
        self._positions = [type(it)(0, None) for it in self._positions]
        return _deliver(worker, fetch)

    def __repr__(self) -> str:
        return repr(self._dataset)


def _deliver(worker: int, fetch: StreamFetch) -> Iterator[Delivery]:
    while True:
        try:
            batch, state = fetch()
            yield Delivery(worker, batch, state, None)
        except StopIteration:
            return
        except Exception:  # noqa: BLE001 - it is raised where the batch is wanted.
            yield Delivery(worker, None, fetch.state(), _failure())


def start_worker(worker_init_fn: Callable[[int], object] | None, worker: int) -> None:
    """Stand for ``worker_init_fn`` in torch's worker: open the user's dataset, and put it into the worker's info."""
    info = get_worker_info()
    assert info is not None
    # Nobody else is in this process: the name is torch's, and it is what its function returns.
    torch_worker._worker_info = _replaced(info, info.dataset.open())  # noqa: SLF001
    if worker_init_fn is not None:
        worker_init_fn(worker)


def _replaced(info: Any, dataset: Any) -> Any:
    if dataclasses.is_dataclass(info):
        return dataclasses.replace(info, dataset=dataset)  # type: ignore[type-var]
    return type(info)(id=info.id, num_workers=info.num_workers, seed=info.seed, dataset=dataset)


class ProcessIterator(_MultiProcessingDataLoaderIter, TrackedIterator):  # type: ignore[misc] # mypy sees no types.
    """torch's own worker processes, which tell with each batch which one it is.

    torch starts the processes, seeds them, sends them what to load, waits for them and ends them. The dataset that it
    sends them is our wrapper around the user's.
    """

    def __init__(self, loader: DataLoader) -> None:
        self._pickled: PickledOnce | None = None
        self._process = os.getpid()
        try:
            super().__init__(loader)
        finally:
            # The workers have their own memory.
            if self._pickled is not None:
                self._pickled.close()

    def _shutdown_workers(self) -> None:
        # A forked child has a copy of this iterator, and no workers: those are its parent's, which continues with them.
        if self._process == os.getpid():
            super()._shutdown_workers()

    def _prepare(self, loader: DataLoader) -> None:
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
        # Deliveries are collated already.
        self._collate_fn = as_it_is
        self._auto_collation = False

    @property
    def _worker_init_fn(self) -> Callable[[int], object]:
        return partial(start_worker, self._users_init_fn)

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
        self._handed = StreamStep(progress.turn, delivery.source, delivery.state) if iterable else delivery.source
        if delivery.failure is not None:
            progress.receive(self._handed)
            delivery.failure.reraise()
        return delivery.batch


def _pickle_once(loader: DataLoader) -> PickledOnce | None:
    """Return the dataset's pickle, if the loader wants that and its processes unpickle the dataset at all."""
    context = loader.multiprocessing_context or torch.multiprocessing
    if loader._pickles_once is None or context.get_start_method() == "fork":  # noqa: SLF001 - the classes belong together.
        return None
    at_once = loader._pickles_once  # noqa: SLF001
    return PickledOnce(loader.dataset, context.BoundedSemaphore(at_once) if at_once else None)
