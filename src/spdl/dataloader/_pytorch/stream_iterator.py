"""An iterator over the batches of an iterable dataset that worker threads iterate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .array_collate import in_this_process
from .loader_arguments import arguments_of
from .own_copies import make_own_copies
from .pinning import Pinning
from .positions import Step
from .stream_fetch import StreamOptions
from .stream_workers import LoadStreams, StreamOutcome
from .thread_workers import ThreadWorkers
from .tracked_iterator import TrackedIterator
from .worker_counts import WorkerCounts, seconds_to_wait
from .worker_slots import WorkerSlots

if TYPE_CHECKING:
    from .any_loader import AnyLoader

__all__ = ["StreamIterator"]


class StreamIterator(TrackedIterator):
    """Takes the batches of the workers in turns. A worker that has ended is passed over.

    Each worker iterates a deep copy of the dataset, so what the dataset changes is the worker's own. Workers that stay
    keep it.

    Args:
        loader: The loader. Its dataset is iterable.
    """

    def __init__(self, loader: AnyLoader) -> None:
        self._workers: ThreadWorkers[int, StreamOutcome] | None = None
        super().__init__(loader)
        # It is torch's attribute, which may be True.
        self._num_workers, self._ahead = WorkerCounts.of(loader)
        self._in_order = loader.in_order
        self._init_fn = loader.worker_init_fn
        self._options = StreamOptions(in_this_process(self._collate_fn), loader.batch_size, self._drop_last)
        self._datasets = make_own_copies(self._dataset, self._num_workers)
        self._reset(loader, first_iter=True)

    def _reset(self, loader: AnyLoader, first_iter: bool = False) -> None:  # noqa: FBT001, FBT002 - torch's.
        self._shutdown_workers()
        super()._reset(loader, first_iter)
        slots = WorkerSlots(self._base_seed, self._datasets, self._init_fn)
        self._load = LoadStreams(self._datasets, self._options, self._epoch.begins, slots, Pinning.of(self))
        self._workers = ThreadWorkers(
            self._load, self._num_workers, self._ahead * self._num_workers, arguments_of(loader, self._num_workers)
        )
        # Of each worker: the number of the outcome that is handed over next, and those that are here already.
        self._turns = [0] * self._num_workers
        self._arrived: list[dict[int, StreamOutcome]] = [{} for _ in range(self._num_workers)]
        self._running = set(range(self._num_workers))
        # Whose batch, error or end comes next.
        self._next_worker: int = self._epoch.first_worker
        for _ in range(self._ahead):
            for worker in range(self._num_workers):
                self._workers.ask(worker)

    def _next_data(self) -> Any:
        outcome = self._next_outcome()
        worker = outcome.worker
        self._turns[worker] += 1
        self._next_worker = (worker + 1) % self._num_workers
        if self._workers is not None:
            self._workers.ask(worker)
        progress = self._epoch.progress
        step = Step(progress.turn, worker, outcome.state)
        if outcome.error is None:
            self._handed = step
            return outcome.batch
        if outcome.passed:
            progress.receive(step)
        try:
            raise outcome.error
        finally:
            # Its traceback holds this frame.
            del outcome

    def _next_outcome(self) -> StreamOutcome:
        """Return the next outcome that is a batch or an error."""
        while self._running:
            worker = self._whose_turn()
            if worker is None:
                outcome = self._take()
                self._arrived[outcome.worker][outcome.turn] = outcome
                continue
            outcome = self._arrived[worker].pop(self._turns[worker])
            if not outcome.ended:
                return outcome
            self._running.discard(worker)
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _whose_turn(self) -> int | None:
        """Return the worker whose outcome is to be handed over, or None if it is not here yet."""
        in_turn = [(self._next_worker + step) % self._num_workers for step in range(self._num_workers)]
        candidates = [it for it in in_turn if it in self._running]
        if self._in_order:
            del candidates[1:]
        return next((it for it in candidates if self._turns[it] in self._arrived[it]), None)

    def _take(self) -> StreamOutcome:
        assert self._workers is not None
        try:
            return self._workers.take(seconds_to_wait(self._timeout))
        except TimeoutError:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None

    def _shutdown_workers(self) -> None:
        workers, self._workers = self._workers, None
        if workers is not None:
            self._load.abandon()
            workers.close()

    def __del__(self) -> None:
        self._shutdown_workers()
