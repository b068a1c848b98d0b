"""Iterators that load in the consumer's thread or in worker threads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.dataloader._pytorch.epochs import IterableEpoch
from spdl.dataloader._pytorch.fetching import MapFetch, Outcome, Pinning, Request, in_this_process, own_copy
from spdl.dataloader._pytorch.received import Step
from spdl.dataloader._pytorch.streams import StreamFetch, StreamOptions
from spdl.dataloader._pytorch.thread_workers import ThreadWorkers, WorkerSlots, arguments_of
from spdl.dataloader._pytorch.tracked_iterator import TrackedIterator
from spdl.dataloader._pytorch.worker_choice import WorkerCounts, note_sharing, seconds_to_wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.dataloader._pytorch.tracked_iterator import AnyLoader

__all__ = ["CallerIterator", "ThreadIterator"]

# torch's words.
_NO_TIMEOUT = "_SingleProcessDataLoaderIter requires timeout == 0"


class CallerIterator(TrackedIterator):
    """Loads each batch when it is asked for.

    Args:
        loader: The loader. It has no workers.

    Raises:
        AssertionError: If the loader has a timeout, as torch does.
    """

    def __init__(self, loader: AnyLoader) -> None:
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
            progress.receive(Step(progress.turn, 0, self._stream.state()))
            raise
        self._handed = Step(progress.turn, 0, state)
        return self._pin(batch)


class _Load:
    """The op of the pipeline: loads a batch as one of the workers."""

    def __init__(self, fetch: MapFetch, slots: WorkerSlots, pin: Callable[[Any], Any]) -> None:
        self._fetch = fetch
        self._slots = slots
        self._pin = pin

    def __call__(self, request: Request) -> Outcome:
        try:
            batch = self._slots.run(self._load, request.index)
        except BaseException as error:  # noqa: BLE001 - it is raised where the batch is wanted.
            note_sharing(error)
            return Outcome(request.number, None, error)
        return Outcome(request.number, batch, None)

    def _load(self, index: Any) -> Any:
        return self._pin(self._fetch(index))


class ThreadIterator(TrackedIterator):
    """Asks for as many batches ahead as torch does, in the consumer's thread, and hands them over in order.

    Args:
        loader: The loader. Its dataset is map-style.
    """

    def __init__(self, loader: AnyLoader) -> None:
        self._workers: ThreadWorkers[Request, Outcome] | None = None
        super().__init__(loader)
        counts = WorkerCounts.of(loader)
        self._in_order = loader.in_order
        self._ahead = counts.ahead * counts.workers
        self._fetch = MapFetch(self._dataset, in_this_process(self._collate_fn), batched=self._auto_collation)
        slots = WorkerSlots(self._base_seed, [self._dataset] * counts.workers, loader.worker_init_fn)
        pin = Pinning.of(self)
        self._workers = ThreadWorkers(
            _Load(self._fetch, slots, pin), counts.workers, self._ahead, arguments_of(loader, counts.workers)
        )
        self._awaited: deque[int] = deque()
        self._reset(loader, first_iter=True)

    def _reset(self, loader: AnyLoader, first_iter: bool = False) -> None:  # noqa: FBT001, FBT002 - torch's.
        self._drain()
        super()._reset(loader, first_iter)
        # The numbers of the batches that were asked for and not handed over yet.
        self._awaited = deque()
        # Those of them that are here, and wait for their turn.
        self._arrived: dict[int, Outcome] = {}
        self._sampler_error: BaseException | None = None
        for _ in range(self._ahead):
            self._ask()

    def _ask(self) -> None:
        """Ask for another batch, if there is one."""
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

    def _next_outcome(self) -> Outcome:
        if not self._awaited:
            self._raise_end()
        while True:
            if self._in_order and self._awaited[0] in self._arrived:
                return self._arrived.pop(self._awaited.popleft())
            outcome = self._take()
            if not self._in_order:
                self._awaited.remove(outcome.number)
                return outcome
            self._arrived[outcome.number] = outcome

    def _take(self) -> Outcome:
        assert self._workers is not None
        try:
            return self._workers.take(seconds_to_wait(self._timeout))
        except TimeoutError:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None

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
        """Let the workers finish what was asked for and is not wanted any more."""
        outstanding = len(self._awaited) - len(self._arrived) if self._workers and self._awaited else 0
        if not outstanding:
            return
        self._fetch.abandon()
        for _ in range(outstanding):
            self._take()
        self._fetch.resume()

    def _shutdown_workers(self) -> None:
        workers, self._workers = self._workers, None
        if workers is not None:
            self._fetch.abandon()
            workers.close()

    def __del__(self) -> None:
        self._shutdown_workers()
