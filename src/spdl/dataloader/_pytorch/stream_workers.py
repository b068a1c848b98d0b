"""The op of worker threads that iterate a dataset."""

from __future__ import annotations

from threading import Event, Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .map_fetch import LoadingAbandoned
from .sharing_note import note_sharing
from .stream_fetch import StreamFetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .positions import Position
    from .stream_fetch import StreamOptions
    from .worker_slots import WorkerSlots

__all__ = ["LoadStreams", "StreamOutcome"]


class StreamOutcome(NamedTuple):
    """What came of asking a worker for a batch.

    Attributes:
        worker: The worker.
        turn: How many batches it was asked for before.
        batch: The batch, unless it ended or there is an error.
        state: What the dataset or its iterator says of itself after the batch, or after the error.
        ended: Whether the worker has no more batches.
        passed: Whether the worker goes on behind the batch. It does not if it cannot begin.
        error: The exception that loading ended in, or None.
    """

    worker: int
    turn: int
    batch: Any
    state: Any
    ended: bool
    passed: bool
    error: BaseException | None


class _Stream:
    """What one worker iterates. One thread at a time works on it; the others only leave their requests."""

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
        """Want one more batch, and return whether the caller is to load what is wanted."""
        with self._lock:
            self._wanted += 1
            idle, self._busy = not self._busy, True
            return idle

    def goes_on(self) -> bool:
        """Return whether the caller is to load a batch that is wanted."""
        with self._lock:
            self._busy = self._wanted > 0
            self._wanted -= self._busy
            return self._busy


class LoadStreams:
    """A generator function: asked for a batch of a worker, it yields as many outcomes as are wanted by then.

    Args:
        datasets: What each worker iterates.
        options: How to make batches.
        positions: Where the workers begin.
        slots: The places for the workers.
        pin: Pins a batch.
    """

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
        """Have the workers stop between two items. What they have begun is lost."""
        self._abandoned.set()

    def __call__(self, worker: int) -> Iterator[StreamOutcome]:
        """Load a batch of the worker, and those that are wanted meanwhile. Nothing, if another thread does so."""
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
        """Return a batch, the state after it, and the exception that it ended in."""
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
