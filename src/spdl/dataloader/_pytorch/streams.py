"""Worker threads that iterate an iterable dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event, Lock
from typing import Any, NamedTuple

from torch.utils.data import DataLoader

from spdl.dataloader._pytorch.fetching import LoadingAbandoned, Pinning, StreamFetch, StreamOptions, in_this_process
from spdl.dataloader._pytorch.loader_iterators import TrackedIterator, worker_counts
from spdl.dataloader._pytorch.state import Position, StreamStep
from spdl.dataloader._pytorch.thread_workers import (
    ThreadWorkers,
    WorkerSlots,
    arguments_of,
    make_own_copies,
    note_sharing,
)


class StreamOutcome(NamedTuple):
    """The outcome of asking a worker for a batch, of which `turn` were asked before.

    Without a batch, the stream has ended, or there is an error. The state is that after either. A worker that cannot
    begin does not go past the batch, so nothing is `passed`.
    """

    worker: int
    turn: int
    batch: Any
    state: Any
    ended: bool
    passed: bool
    error: BaseException | None


class _Stream:
    """The stream of one worker. One thread at a time works on it; the others only leave their requests."""

    def __init__(self, worker: int, dataset: Any, position: Position) -> None:
        self.worker = worker
        self.dataset = dataset
        self.position = position
        self.fetch: StreamFetch | None = None
        self.turn = 0
        self._lock = Lock()
        self._wanted = 0
        self._busy = False

    def ask(self) -> bool:
        """Want one more batch, and return whether the caller should load the wanted ones."""
        with self._lock:
            self._wanted += 1
            idle, self._busy = not self._busy, True
            return idle

    def goes_on(self) -> bool:
        with self._lock:
            self._busy = self._wanted > 0
            self._wanted -= self._busy
            return self._busy


class LoadStreams:
    """A generator function: asked for a batch of a worker, it yields as many outcomes as are wanted by then."""

    def __init__(
        self,
        datasets: Sequence[Any],
        options: StreamOptions,
        positions: Sequence[Position],
        slots: WorkerSlots,
        pin: Callable[[Any], Any],
    ) -> None:
        self._options = options
        self._slots = slots
        self._pin = pin
        self._streams = [
            _Stream(number, dataset, position)
            for number, (dataset, position) in enumerate(zip(datasets, positions, strict=True))
        ]
        self._abandoned = Event()

    def abandon(self) -> None:
        """Stop the workers between two items. Batches that they have begun are lost."""
        self._abandoned.set()

    def __call__(self, worker: int) -> Iterator[StreamOutcome]:
        """Nothing, if another thread loads for the worker."""
        stream = self._streams[worker]
        if stream.ask():
            while stream.goes_on():
                yield self._load(stream)

    def _load(self, stream: _Stream) -> StreamOutcome:
        worker, turn = stream.worker, stream.turn
        stream.turn += 1
        try:
            batch, state, failure = self._slots.run_as(worker, self._fetch, stream)
        except StopIteration:
            return StreamOutcome(worker, turn, None, None, ended=True, passed=False, error=None)
        except BaseException as error:  # noqa: BLE001 - it is raised where the batch is wanted.
            return StreamOutcome(worker, turn, None, None, ended=False, passed=False, error=error)
        return StreamOutcome(worker, turn, batch, state, ended=False, passed=True, error=failure)

    def _fetch(self, stream: _Stream) -> tuple[Any, Any, Exception | None]:
        if stream.fetch is None:
            stream.fetch = StreamFetch(stream.dataset, self._options, stream.position, self._abandoned.is_set)
        try:
            batch, state = stream.fetch()
            return self._pin(batch), state, None
        except (StopIteration, LoadingAbandoned):
            raise
        except Exception as error:  # noqa: BLE001 - it is raised where the batch is wanted.
            note_sharing(error)
            return None, stream.fetch.state(), error


class StreamIterator(TrackedIterator):
    """Takes the batches of the workers in turns. A worker that has ended is passed over.

    Each worker iterates a deep copy of the dataset, so what the dataset changes is the worker's own. Workers that stay
    keep it.
    """

    def __init__(self, loader: DataLoader) -> None:
        self._workers: ThreadWorkers[int, StreamOutcome] | None = None
        super().__init__(loader)
        # It is torch's attribute, which may be True.
        self._num_workers, self._ahead = worker_counts(loader)
        self._in_order = loader.in_order
        self._init_fn = loader.worker_init_fn
        self._options = StreamOptions(in_this_process(self._collate_fn), loader.batch_size, self._drop_last)
        self._datasets = make_own_copies(self._dataset, self._num_workers)
        self._reset(loader, first_iter=True)

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:  # noqa: FBT001, FBT002 - torch's.
        self._shutdown_workers()
        super()._reset(loader, first_iter)
        slots = WorkerSlots(self._base_seed, self._datasets, self._init_fn)
        self._load = LoadStreams(self._datasets, self._options, self._epoch.begins, slots, Pinning.of(self))
        self._workers = ThreadWorkers(
            self._load, self._num_workers, self._ahead * self._num_workers, arguments_of(loader, self._num_workers)
        )
        # For each worker: the number of the outcome that is handed over next, and the outcomes that are here already.
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
        step = StreamStep(progress.turn, worker, outcome.state)
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
        while self._running:
            worker = self._whose_turn()
            if worker is None:
                assert self._workers is not None
                outcome = self._workers.take(self._timeout)
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
        in_turn = [(self._next_worker + step) % self._num_workers for step in range(self._num_workers)]
        candidates = [it for it in in_turn if it in self._running]
        if self._in_order:
            del candidates[1:]
        return next((it for it in candidates if self._turns[it] in self._arrived[it]), None)

    def _shutdown_workers(self) -> None:
        workers, self._workers = self._workers, None
        if workers is not None:
            self._load.abandon()
            workers.close()

    def __del__(self) -> None:
        self._shutdown_workers()
