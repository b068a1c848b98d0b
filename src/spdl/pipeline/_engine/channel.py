"""The queue between two stages, its capacity, and the rule that says when a stage may take an item."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from spdl.pipeline._metrics.counters import BLOCKED, HELD, QueueCounters
from spdl.pipeline._world import perf_counter

from .sentinel import MARK

if TYPE_CHECKING:
    from .order import Order

__all__ = ["ADMITTED", "CAPACITY", "SLOTS_TAKEN", "Channel", "Entry"]

# An entry of a queue: where the item came from (a Root) and the item, or the MARK between two epochs.
Entry: TypeAlias = tuple[Any, Any]

# Items that may wait between two stages besides those that hold a slot of the upstream stage. The reference's queues
# have the same size, so memory budgets made for it hold.
CAPACITY = 2

# Verdicts of `Channel.verdict` besides BLOCKED and HELD.
ADMITTED, SLOTS_TAKEN = -1, -2


class Guard(Protocol):
    """Says whether what fills a channel may make one more result for it: `Budget` is one."""

    def admits(self, channel: Channel) -> bool: ...


class Channel:
    """A bounded queue that one stage (or source) fills and the next one empties.

    An op starts only when its result has a place to go: ``under_way + len(entries) < capacity + concurrency``, since a
    finished item that cannot move on keeps its slot.

    Guarded by the engine's lock, except that the consumer takes from the last one without it.
    """

    __slots__ = ("capacity", "counters", "entries", "guard")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.entries: deque[Entry] = deque()
        self.counters = QueueCounters()
        # What else has to agree before a result is made, if anything does.
        self.guard: Guard | None = None

    def has_place(self, under_way: int = 0, concurrency: int = 0) -> bool:
        """Return whether one more entry has a place.

        Args:
            under_way: How many entries are being made.
            concurrency: How many finished ones may stay in the slots of the stage that makes them.
        """
        places = under_way + len(self.entries) < self.capacity + concurrency
        return places and (self.guard is None or self.guard.admits(self))

    def guard_by(self, guard: Guard) -> None:
        """Have somebody else asked, too. Called before anything runs."""
        self.guard = guard

    def verdict(self, running: int, under_way: int, concurrency: int, order: Order | None) -> int:
        """Return ADMITTED if the stage that fills the channel may take an item now, or else the reason why not.

        Args:
            running: How many slots of the stage are in use.
            under_way: In how many of them a result is being made.
            concurrency: How many slots there are.
            order: What keeps the stage's results in order, if anything does.
        """
        if running >= concurrency:
            return SLOTS_TAKEN
        if order is not None and not order.has_place(concurrency):
            return HELD
        return ADMITTED if self.has_place(under_way, concurrency) else BLOCKED

    def items(self) -> int:
        """Return how many of the entries are items, and not ends of epochs. Needs no lock."""
        # They may be taken meanwhile, which a copy made in one step does not mind. Without a GIL it takes several, and
        # the deque complains.
        while True:
            with suppress(RuntimeError):
                return sum(entry is not MARK for entry in self.entries.copy())

    def excess(self) -> int:
        """Return how many more entries wait than have a place; it is negative if there are places left."""
        return len(self.entries) - self.capacity

    def set_capacity(self, capacity: int) -> None:
        """Change how many entries have a place. Entries beyond it stay until they are taken."""
        self.capacity = capacity

    def put(self, entry: Entry, now: float = 0.0) -> None:
        """Append an entry; the time now is looked up if it is needed and not given."""
        self.entries.append(entry)
        waiting = len(self.entries)
        if waiting == 1:
            self.counters.filled_at = now or perf_counter()
        elif waiting > self.capacity:
            self.counters.late.append(now or perf_counter())

    def note_put(self, waiting: int, now: float) -> None:
        """Note that an entry was appended to the empty queue, or has no place, as so many wait now."""
        if waiting == 1:
            self.counters.filled_at = now
        else:
            self.counters.late.append(now)

    def take_uncounted(self, *, item: bool) -> Entry:
        """Take the first entry for a reader that notes nothing; ``item`` is False for the end of an epoch."""
        entry = self.entries.popleft()
        self.counters.took_uncounted(perf_counter(), self.excess(), item=item)
        return entry
