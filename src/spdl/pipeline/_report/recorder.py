"""The record of pipelines: slices of time on tracks, and how many items lay in queues."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from spdl.pipeline._world import Lock, current_thread

T = TypeVar("T")

# How many events a recorder keeps by default: some 70 MB, together with as many counts.
MAX_EVENTS = 200_000


class Slice(NamedTuple):
    """A stretch of time, on the clock of `time.perf_counter`, in which something was done on a track.

    The name is that of a stage or source, or what the consumer did. The roots are of the source items that it was
    about, and the error is the type of what was raised, if anything was.
    """

    track: int
    name: str
    begin: float
    end: float
    pipeline: int
    roots: tuple[int, ...]
    error: str | None = None


class Open(NamedTuple):
    """A slice that has not ended yet."""

    name: str
    begin: float
    pipeline: int
    roots: tuple[int, ...]


class Count(NamedTuple):
    """How many items lay in a queue at some moment."""

    queue: str
    at: float
    items: int


class Track:
    """A row of slices that nest, with the system's number of the thread that it shows, if it shows one.

    ``open`` is the slice that has not ended.
    """

    __slots__ = ("name", "number", "open", "thread_id")

    def __init__(self, number: int, name: str, thread_id: int | None = None) -> None:
        self.number = number
        self.name = name
        self.thread_id = thread_id
        self.open: Open | None = None

    def begin(self, name: str, at: float, pipeline: int, roots: tuple[int, ...]) -> None:
        self.open = Open(name, at, pipeline, roots)

    def end(self) -> None:
        self.open = None


class ThreadTrack(Track):
    """The track of a thread, with the roots of the item that the thread took last."""

    __slots__ = ("roots",)

    def __init__(self, number: int, name: str, thread_id: int) -> None:
        super().__init__(number, name, thread_id)
        self.roots: tuple[int, ...] = ()

    def took(self, roots: tuple[int, ...]) -> None:
        self.roots = roots


class TrackOfThread(threading.local, Generic[T]):
    """Has another track for each thread."""

    track: T | None = None

    def keep(self, track: T) -> None:
        self.track = track


class Recorder:
    """Keeps the latest slices and counts of the pipelines that it is attached to. Any thread may call it.

    It keeps ``max_events`` of each, and nothing more once it is closed.
    """

    def __init__(self, max_events: int) -> None:
        self._slices: deque[Slice] = deque(maxlen=max_events)
        self._counts: deque[Count] = deque(maxlen=max_events)
        self._lock = Lock()
        self._tracks: list[Track] = []
        self._of_thread = TrackOfThread[ThreadTrack]()
        self._pipelines: dict[int, tuple[int, Callable[[], float | None]]] = {}
        self.closed = False

    # ---- what pipelines note ----

    def add_pipeline(self, pipeline: int, sources: int, ended_at: Callable[[], float | None]) -> None:
        """Note how many sources a pipeline has, and what returns when it ended, and None as long as it runs."""
        self._pipelines[pipeline] = sources, ended_at

    def thread(self) -> ThreadTrack:
        track = self._of_thread.track
        if track is None:
            with self._lock:
                track = ThreadTrack(len(self._tracks) + 1, current_thread().name, threading.get_native_id())
                self._tracks.append(track)
            self._of_thread.keep(track)
        return track

    def add_track(self, name: str) -> Track:
        with self._lock:
            track = Track(len(self._tracks) + 1, name)
            self._tracks.append(track)
        return track

    def add(self, piece: Slice) -> None:
        if not self.closed:
            self._slices.append(piece)

    def count(self, queue: str, at: float, items: int) -> None:
        if not self.closed:
            self._counts.append(Count(queue, at, items))

    def close(self) -> None:
        self.closed = True

    def is_full(self) -> bool:
        """Return whether it keeps as much as it may, so the oldest was probably dropped."""
        return len(self._slices) == self._slices.maxlen or len(self._counts) == self._counts.maxlen

    def forget(self) -> None:
        """Drop what was kept. Iterators that were read in the meantime may refer to it for long."""
        self._slices.clear()
        self._counts.clear()

    # ---- what is made of it ----

    def tracks(self) -> Sequence[Track]:
        with self._lock:
            return list(self._tracks)

    def slices(self) -> Sequence[Slice]:
        """Return the slices that were kept, in the order of their ends."""
        return _copied(self._slices)

    def counts(self) -> Sequence[Count]:
        return _copied(self._counts)

    def position(self, pipeline: int, root: int) -> int:
        return root // self._pipelines[pipeline][0]

    def ended_at(self, pipeline: int) -> float | None:
        """Return when a pipeline ended, on the clock of `time.perf_counter`; None if it still runs."""
        return self._pipelines[pipeline][1]()


class Lanes:
    """The tracks of what overlaps, as coroutines of a stage do: each takes the first one that is free.

    The thread that calls it has the engine's lock, or is on its event loop.
    """

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name
        self._tracks: list[Track] = []
        self._free: list[int] = []

    def take(self) -> tuple[int, Track]:
        """Return the number of a free lane, and its track."""
        if not self._free:
            self._tracks.append(self._recorder.add_track(f"{self._name} #{len(self._tracks)}"))
            return len(self._tracks) - 1, self._tracks[-1]
        lane = heapq.heappop(self._free)
        return lane, self._tracks[lane]

    def give_back(self, lane: int) -> None:
        heapq.heappush(self._free, lane)


def _copied(kept: deque[T]) -> list[T]:
    # Others may append in the meantime.
    while True:
        with suppress(RuntimeError):
            return list(kept)
