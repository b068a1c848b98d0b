"""The record of pipelines: slices of time on tracks, and how many items lay in queues."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from spdl.pipeline._world import Lock, current_thread

T = TypeVar("T")

# How many events a recorder keeps by default: some 70 MB, together with as many counts.
MAX_EVENTS = 200_000


class Slice(NamedTuple):
    """A stretch of time in which something was done on a track.

    Attributes:
        track: The number of the track.
        name: The activity: the name of a stage or source, or what the consumer did.
        begin: When it began, on the clock of `time.perf_counter`.
        end: When it ended.
        pipeline: The number of the pipeline.
        roots: The roots of the source items that it was about.
        error: The type of what was raised, if anything was.
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
    """A row of slices that nest.

    Attributes:
        number: Its number.
        name: Its name.
        thread_id: The system's number of the thread that it shows; None for a row that shows none.
        open: The slices that have not ended.
    """

    __slots__ = ("name", "number", "open", "thread_id")

    def __init__(self, number: int, name: str, thread_id: int | None = None) -> None:
        self.number = number
        self.name = name
        self.thread_id = thread_id
        self.open: Open | None = None

    def begin(self, name: str, at: float, pipeline: int, roots: tuple[int, ...]) -> None:
        """Note what happens from now on."""
        self.open = Open(name, at, pipeline, roots)

    def end(self) -> None:
        """Note that nothing happens any more."""
        self.open = None


class ThreadTrack(Track):
    """The track of a thread.

    Attributes:
        roots: The roots of the item that the thread took last.
    """

    __slots__ = ("roots",)

    def __init__(self, number: int, name: str, thread_id: int) -> None:
        super().__init__(number, name, thread_id)
        self.roots: tuple[int, ...] = ()

    def took(self, roots: tuple[int, ...]) -> None:
        """Note the roots of the item that the thread has taken."""
        self.roots = roots


class _OfThread(threading.local):
    """Has another track for each thread."""

    track: ThreadTrack | None = None

    def keep(self, track: ThreadTrack) -> None:
        self.track = track


class Recorder:
    """Keeps the latest slices and counts of the pipelines that it is attached to. Any thread may call it.

    Args:
        max_events: How many slices it keeps, and how many counts. The oldest are dropped first.

    Attributes:
        closed: Whether it keeps nothing more.
    """

    def __init__(self, max_events: int) -> None:
        self._slices: deque[Slice] = deque(maxlen=max_events)
        self._counts: deque[Count] = deque(maxlen=max_events)
        self._lock = Lock()
        self._tracks: list[Track] = []
        self._of_thread = _OfThread()
        self._pipelines: dict[int, tuple[int, Callable[[], float | None]]] = {}
        self.closed = False

    # ---- what pipelines note ----

    def add_pipeline(self, pipeline: int, sources: int, ended_at: Callable[[], float | None]) -> None:
        """Note what should be known of a pipeline.

        Args:
            pipeline: Its number.
            sources: How many sources it has.
            ended_at: Returns when it ended, and None as long as it runs.
        """
        self._pipelines[pipeline] = sources, ended_at

    def thread(self) -> ThreadTrack:
        """Return the track of the current thread."""
        track = self._of_thread.track
        if track is None:
            with self._lock:
                track = ThreadTrack(len(self._tracks) + 1, current_thread().name, threading.get_native_id())
                self._tracks.append(track)
            self._of_thread.keep(track)
        return track

    def add_track(self, name: str) -> Track:
        """Return a new track that shows no thread."""
        with self._lock:
            track = Track(len(self._tracks) + 1, name)
            self._tracks.append(track)
        return track

    def add(self, piece: Slice) -> None:
        """Keep a slice."""
        if not self.closed:
            self._slices.append(piece)

    def count(self, queue: str, at: float, items: int) -> None:
        """Keep how many items lay in a queue."""
        if not self.closed:
            self._counts.append(Count(queue, at, items))

    def close(self) -> None:
        """Keep nothing more. Kept slices stay."""
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
        """Return the tracks."""
        with self._lock:
            return list(self._tracks)

    def slices(self) -> Sequence[Slice]:
        """Return the slices that were kept, in the order of their ends."""
        return _copied(self._slices)

    def counts(self) -> Sequence[Count]:
        """Return the counts that were kept."""
        return _copied(self._counts)

    def position(self, pipeline: int, root: int) -> int:
        """Return the position of an item in its source, from its root."""
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
        """Note that a lane is free."""
        heapq.heappush(self._free, lane)


def _copied(kept: deque[T]) -> list[T]:
    # Others may append in the meantime.
    while True:
        with suppress(RuntimeError):
            return list(kept)
