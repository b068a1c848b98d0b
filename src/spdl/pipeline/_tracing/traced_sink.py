"""A sink that is traced: when the consumer waited, and what it did between two items."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from spdl.pipeline._engine.sentinel import EPOCH_END
from spdl.pipeline._engine.sink import Sink
from spdl.pipeline._world import current_thread

from .origins import origins

if TYPE_CHECKING:
    from spdl.pipeline._engine.channel import Entry

    from .recorder import Track
    from .tracer import Tracer

__all__ = ["STEP", "WAIT", "traced_sink_kind"]

# What the consumer does from one item to the next, and while there is none.
STEP, WAIT = "step", "wait for data"


class _OfReader(threading.local):
    """Has another track for each thread that reads."""

    track: Track | None = None

    def keep(self, track: Track) -> None:
        self.track = track


class _Entries(deque[Any]):
    """The entries of a sink. Its readers show what they do by taking them."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer
        self._queue = tracer.queue_name("sink")
        self._of_reader = _OfReader()

    def popleft(self) -> Entry:
        tracer = self._tracer
        track = self._track()
        if track.open is not None and track.open.name == STEP:
            tracer.end(track)
        try:
            entry: Entry = super().popleft()
        except IndexError:
            if track.open is None:
                tracer.begin(track, WAIT, ())
            raise
        tracer.end(track)
        if entry[0] is not EPOCH_END:
            now = tracer.begin(track, STEP, origins(entry[0]))
            tracer.recorder.count(self._queue, now, len(self))
        return entry

    def copy(self) -> Any:
        """Return the entries alone: a copy of a subclass would be made by its constructor."""
        return deque(self)

    def _track(self) -> Track:
        track = self._of_reader.track
        if track is None:
            name = f"consumer of pipeline {self._tracer.pipeline} ({current_thread().name})"
            track = self._tracer.recorder.add_track(name)
            self._of_reader.keep(track)
        return track


class _TracedSink(Sink):
    """A sink with such entries.

    Consumers take without the lock, and what they have at hand are the old entries. So these are moved from the last to
    the first: whoever takes meanwhile gets the first one that is left. Once there are none, a consumer takes the lock
    to wait, as it does when there is nothing, and finds the new ones.
    """

    __slots__ = ()

    tracer: ClassVar[Tracer]
    untraced: ClassVar[type[Sink]] = Sink

    def begin_tracing(self) -> None:
        """Have readers take entries that note it. Called with the engine's lock held."""
        self._move_to(_Entries(self.tracer))

    def end_tracing(self) -> None:
        """Have them take entries that note nothing. Called with the engine's lock held."""
        self._move_to(deque())

    def _move_to(self, entries: deque[Any]) -> None:
        with suppress(IndexError):
            while True:
                entries.appendleft(self.entries.pop())
        self.entries = entries


def traced_sink_kind(tracer: Tracer) -> type[_TracedSink]:
    """Return what a sink becomes where it is traced."""
    made: Any = type("TracedSink", (_TracedSink,), {"__slots__": (), "tracer": tracer})
    kind: type[_TracedSink] = made
    return kind
