"""The buffer between the engine and the consumer."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Lock

    from .edge import Edge
    from .node import Entry

__all__ = ["Sink"]

# A consumer that takes entries no quicker than this tells each time that it made a place for one that had none. Else
# the next entry shows it: being told at each of them would cost a quick consumer more than the entry.
_SLOW = 1e-3


class Sink:
    """What is finished and not yet read.

    Workers append under the engine's lock. The consumer pops without it: a deque's operations are atomic, and only
    when it finds nothing, or the engine is held up by a full sink, does it need the lock.
    """

    __slots__ = ("edge", "entries", "fill", "full", "readers", "size", "told_at")

    # What is measured of it; the plan says.
    edge: Edge

    def __init__(self, size: int) -> None:
        self.size = size
        self.entries: deque[Entry] = deque()
        # Set by whoever found no room; whoever pops an entry and sees it tells the engine.
        self.full = False
        # When the consumer told that it took something.
        self.told_at = 0.0
        # How many entries lay here at each put, added up.
        self.fill = 0
        # The gates of consumers that found nothing.
        self.readers: list[Lock] = []

    def put(self, entry: Entry, now: float = 0.0) -> None:
        """Append an entry; the time now is looked up if it is not given. Called with the engine's lock held."""
        waiting = len(self.entries)
        self.fill += waiting
        self.entries.append(entry)
        if not waiting:
            self.edge.refilled(now or perf_counter())
        elif waiting >= self.size:
            self._put_late(waiting + 1, now or perf_counter())
        if self.readers:
            self.wake_reader()

    def _put_late(self, waiting: int, now: float) -> None:
        self.edge.late.append(now)
        if len(self.edge.late) > waiting - self.size:
            self.edge.catch_up(waiting, now)

    def caught_up(self) -> None:
        """Learn that the consumer took entries. Called with the lock held."""
        if self.edge.late:
            now = perf_counter()
            self.edge.catch_up(len(self.entries), now)
            if self.edge.late and now - self.told_at >= _SLOW:
                self.full = True
            self.told_at = now

    def awaited(self, seconds: float) -> None:
        """Learn that a consumer has waited so long for an item. Needs no lock: it is a sum that readers share."""
        self.edge.get_seconds += seconds
        self.edge.get_times.add(seconds)

    def wake_reader(self) -> None:
        """Let one waiting consumer look again. Needs no lock."""
        while True:
            try:
                gate = self.readers.pop()
            except IndexError:
                return
            try:
                gate.release()
            except RuntimeError:
                # It was interrupted this very moment, so it takes nothing.
                continue
            return
