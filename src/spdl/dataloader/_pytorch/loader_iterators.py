"""Iterators of PyTorch's kind that note what the consumer has received, and load in its thread or in worker threads."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from spdl.dataloader._pytorch.fetching import (
    BatchOutcome,
    BatchRequest,
    MapFetch,
    Pinning,
    StreamFetch,
    StreamOptions,
    in_this_process,
    own_copy,
)
from spdl.dataloader._pytorch.state import IterableEpoch, MapEpoch, StreamStep
from spdl.dataloader._pytorch.thread_workers import ThreadWorkers, WorkerSlots, arguments_of, note_sharing

_NEVER: Any = object()


class TrackedIterator(_BaseDataLoaderIter):  # type: ignore[misc] # mypy sees no types of torch's.
    """The part that all iterators of our loader share.

    torch's class draws the seed of the workers, starts the sampler, and warns of what it cannot do. It calls
    ``_next_data`` for each batch, which must leave in ``_handed`` the next value of `progress.latest`.
    """

    def __init__(self, loader: DataLoader) -> None:
        self._loader = weakref.ref(loader)
        self._begin(loader)
        self._handed: Any = None
        self._indices: Any = None
        self._seed = 0
        super().__init__(loader)
        self._prepare(loader)

    def _begin(self, loader: DataLoader, seed: int | None = None) -> None:
        self._is_read = False
        # A MapEpoch or an IterableEpoch, after the kind of the dataset; and the state that waits for a first read.
        self._epoch: Any
        self._epoch, self._loaded = loader._begin(self, seed)  # noqa: SLF001 - the classes belong together.

    def begin_again(self, loader: DataLoader) -> None:
        self._shutdown_workers()
        try:
            with loader._drawing():  # noqa: SLF001
                type(self).__init__(self, loader)
        except BaseException:
            # The next read tries again.
            self._loaded = _NEVER
            raise

    def _shutdown_workers(self) -> None:
        """Of subclasses that have some."""

    @property
    def epoch(self) -> Any:
        return self._epoch

    def is_under_way(self) -> bool:
        return self._is_read and not self._epoch.finished

    def _prepare(self, loader: DataLoader) -> None:
        """Change what torch's class has noted of the loader, before workers start."""

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:  # noqa: FBT001, FBT002 - torch's.
        if not first_iter:
            # Workers that stay keep their seeds.
            self._begin(loader, self._seed)
        self._index_sampler = loader._index_sampler  # noqa: SLF001
        self._base_seed = self._seed
        super()._reset(loader, first_iter)

    # torch sets it to the loader's, which a user's subclass may have replaced, and iterates over it.
    @property
    def _index_sampler(self) -> Any:
        return self._indices

    @_index_sampler.setter
    def _index_sampler(self, sampler: Any) -> None:
        self._indices = self._epoch if isinstance(self._epoch, MapEpoch) else sampler

    @property
    def _base_seed(self) -> int:
        return self._seed

    @_base_seed.setter
    def _base_seed(self, drawn: int) -> None:
        # torch draws a seed even if the epoch does not begin again.
        self._seed = self._epoch.settle_seed(drawn)

    def _tell_loader(self, loader: DataLoader) -> None:
        if not self._is_read and self._loaded is not loader._loaded:  # noqa: SLF001
            # A state was loaded since, or another iterator has taken it up.
            self.begin_again(loader)
        loader._read_from(self, first=not self._is_read)  # noqa: SLF001
        self._is_read = True

    def __next__(self) -> Any:
        loader = self._loader()
        if loader is not None and not self._epoch.finished:
            self._tell_loader(loader)
        progress = self._epoch.progress
        progress.settle()
        try:
            batch = super().__next__()
        except StopIteration:
            self._epoch.finish()
            raise
        # Nothing may come between these two, not even a call: a signal handler could.
        progress.latest = self._handed
        return batch


# torch's words.
_NO_TIMEOUT = "_SingleProcessDataLoaderIter requires timeout == 0"


class CallerIterator(TrackedIterator):
    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError(_NO_TIMEOUT)
        self._pin = Pinning.of(self)
        if isinstance(self._epoch, IterableEpoch):
            options = StreamOptions(in_this_process(self._collate_fn), loader.batch_size, self._drop_last)
            self._stream = StreamFetch(self._dataset, options, self._epoch.begins[0])
        else:
            self._fetch = MapFetch(self._dataset, in_this_process(self._collate_fn), batched=self._auto_collation)

    def _next_data(self) -> Any:
        if isinstance(self._epoch, IterableEpoch):
            return self._next_of_stream()
        request = self._next_index()
        try:
            batch = self._fetch(request.index)
        except BaseException:
            self._epoch.progress.receive(request.number)
            raise
        self._handed = request.number
        return self._pin(batch)

    def _next_of_stream(self) -> Any:
        progress = self._epoch.progress
        try:
            batch, state = self._stream()
        except StopIteration:
            raise
        except Exception:
            progress.receive(StreamStep(progress.turn, 0, self._stream.state()))
            raise
        self._handed = StreamStep(progress.turn, 0, state)
        return self._pin(batch)


def worker_counts(loader: DataLoader) -> tuple[int, int]:
    """Return how many workers there are, and how many batches are loaded or ready for each. True is 1, as for torch."""
    if loader.prefetch_factor < 1:
        raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
    return len(range(loader.num_workers)), len(range(loader.prefetch_factor))


def _load_batch(fetch: MapFetch, slots: WorkerSlots, pin: Callable[[Any], Any], request: BatchRequest) -> BatchOutcome:
    try:
        batch = slots.run(lambda: pin(fetch(request.index)))
    except BaseException as error:  # noqa: BLE001 - it is raised where the batch is wanted.
        note_sharing(error)
        return BatchOutcome(request.number, None, error)
    return BatchOutcome(request.number, batch, None)


class ThreadIterator(TrackedIterator):
    """Asks for as many batches ahead as torch does, in the consumer's thread, and hands them over in order."""

    def __init__(self, loader: DataLoader) -> None:
        self._workers: ThreadWorkers[BatchRequest, BatchOutcome] | None = None
        super().__init__(loader)
        num_workers, ahead = worker_counts(loader)
        self._in_order = loader.in_order
        self._ahead = ahead * num_workers
        self._fetch = MapFetch(self._dataset, in_this_process(self._collate_fn), batched=self._auto_collation)
        slots = WorkerSlots(self._base_seed, [self._dataset] * num_workers, loader.worker_init_fn)
        pin = Pinning.of(self)
        load = partial(_load_batch, self._fetch, slots, pin)
        self._workers = ThreadWorkers(load, num_workers, self._ahead, arguments_of(loader, num_workers))
        self._awaited: deque[int] = deque()
        self._reset(loader, first_iter=True)

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:  # noqa: FBT001, FBT002 - torch's.
        self._drain()
        super()._reset(loader, first_iter)
        # The numbers of the batches that were asked for and not handed over yet.
        self._awaited = deque()
        # Those of them that are here, and wait for their turn.
        self._arrived: dict[int, BatchOutcome] = {}
        self._sampler_error: BaseException | None = None
        for _ in range(self._ahead):
            self._ask()

    def _ask(self) -> None:
        if self._sampler_error is not None or self._workers is None:
            return
        try:
            request = self._next_index()
            request = request._replace(index=own_copy(request.index))
        except StopIteration:
            return
        except BaseException as error:  # noqa: BLE001 - it is raised in its turn, after the batches before it.
            self._sampler_error = error
            return
        self._awaited.append(request.number)
        self._workers.ask(request)

    def _next_data(self) -> Any:
        outcome = self._next_outcome()
        self._ask()
        if outcome.error is None:
            self._handed = outcome.number
            return outcome.batch
        self._epoch.progress.receive(outcome.number)
        try:
            raise outcome.error
        finally:
            # Its traceback holds this frame.
            del outcome

    def _next_outcome(self) -> BatchOutcome:
        if not self._awaited:
            self._raise_end()
        assert self._workers is not None
        while True:
            if self._in_order and self._awaited[0] in self._arrived:
                return self._arrived.pop(self._awaited.popleft())
            outcome = self._workers.take(self._timeout)
            if not self._in_order:
                self._awaited.remove(outcome.number)
                return outcome
            self._arrived[outcome.number] = outcome

    def _raise_end(self) -> None:
        if not self._persistent_workers:
            self._shutdown_workers()
        error, self._sampler_error = self._sampler_error, None
        if error is None:
            raise StopIteration
        try:
            raise error
        finally:
            del error

    def _drain(self) -> None:
        if not (self._workers and self._awaited):
            return
        self._fetch.abandon()
        for _ in range(len(self._awaited) - len(self._arrived)):
            self._workers.take(self._timeout)
        self._fetch.resume()

    def _shutdown_workers(self) -> None:
        workers, self._workers = self._workers, None
        if workers is not None:
            self._fetch.abandon()
            workers.close()

    def __del__(self) -> None:
        self._shutdown_workers()
