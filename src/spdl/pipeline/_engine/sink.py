"""The buffer between the engine and the consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._declare.left_open import LeftOpen
from spdl.pipeline._world import perf_counter

from .channel import Channel

if TYPE_CHECKING:
    from spdl.pipeline._world import Lock

    from .channel import Entry

__all__ = ["Sink"]

# A consumer that takes entries no quicker than this tells each time that it made a place for one that had none. Else
# the next entry shows it: being told at each of them would cost a quick consumer more than the entry.
_SLOW = 1e-3


class Sink(Channel):
    """The channel of finished items that the consumer reads.

    Workers append under the engine's lock. The consumer pops without it: a deque's operations are atomic, and only
    when it finds nothing, or the engine is held up by a full sink, does it need the lock.
    """

    __slots__ = ("full", "left_open", "readers", "told_at")

    def __init__(self, capacity: int) -> None:
        super().__init__(int(capacity))
        # Nobody chose that number.
        self.left_open = isinstance(capacity, LeftOpen)
        # Set by whoever found no room; whoever pops an entry and sees it tells the engine.
        self.full = False
        # When the consumer told that it took something.
        self.told_at = 0.0
        # The gates of consumers that found nothing.
        self.readers: list[Lock] = []

    def has_place(self, under_way: int = 0, concurrency: int = 0) -> bool:
        """Return whether one more entry has a place, and leave word for the consumer if it has none."""
        if under_way + len(self.entries) < self.capacity + concurrency:
            return self.guard is None or self.guard.admits(self)
        # The consumer takes without the lock and looks at this flag afterwards, so it is set before the second look:
        # one of the two sees the other.
        self.full = True
        return under_way + len(self.entries) < self.capacity + concurrency and self.guard is None

    def set_full(self, *, full: bool) -> None:
        """Note whether somebody waits for room. Called with the lock held."""
        self.full = full

    def put(self, entry: Entry, now: float = 0.0) -> None:
        """Append an entry; the time now is looked up if it is not given. Called with the engine's lock held."""
        waiting = len(self.entries)
        counters = self.counters
        counters.fill += waiting
        if not waiting:
            now = now or perf_counter()
            if counters.late:
                counters.catch_up(1 - self.capacity, now)
            # Before the consumer can take the entry and note when.
            counters.refilled(now)
        self.entries.append(entry)
        if waiting >= self.capacity:
            counters.late.append(now or perf_counter())
            # The consumer may have made room meanwhile.
            if len(counters.late) > waiting + 1 - self.capacity:
                counters.catch_up(waiting + 1 - self.capacity, counters.late[-1])
        if self.readers:
            self.wake_readers()

    def put_mark(self, mark: Entry) -> None:
        """Append the end of an epoch, which counts as no item. Called with the engine's lock held."""
        self.counters.uncount(len(self.entries))
        self.put(mark)

    def caught_up(self) -> None:
        """Note that the consumer took entries. Called with the lock held."""
        if self.counters.late:
            now = perf_counter()
            self.counters.catch_up(self.excess(), now)
            if self.counters.late and now - self.told_at >= _SLOW:
                self.full = True
            self.told_at = now

    def take_all(self) -> list[Entry]:
        """Take the entries that nobody will read."""
        entries = list(self.entries)
        self.entries.clear()
        return entries

    def wake_readers(self) -> None:
        """Let all waiting consumers look again. Needs no lock.

        There is usually one. If only one of several were woken, a Ctrl-C could keep that one from taking the entry,
        whatever it did to pass the word on, and the others would not know of it.
        """
        while True:
            try:
                gate = self.readers.pop()
            except IndexError:
                return
            try:
                gate.release()
            except RuntimeError:
                # It was woken in another way this very moment.
                continue
