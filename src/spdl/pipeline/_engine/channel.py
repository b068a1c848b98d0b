"""The queues between stages and the one to the consumer, and what passes through them apart from items."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

from spdl.pipeline._declare.op import LeftOpen
from spdl.pipeline._report.counters import BLOCKED, HELD, QueueCounters
from spdl.pipeline._world import Lock, perf_counter


class Sentinel:
    """An object that is recognized by its identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


EPOCH_END: Final = Sentinel("EPOCH_END")
EOF: Final = Sentinel("EOF")

# The queue entry between two epochs. Each stage passes it on when all items before it have left.
MARK: Final[tuple[Any, Any]] = (EPOCH_END, None)


def is_epoch_end(item: object) -> bool:
    """Return whether ``item`` marks the end of a pass over a continuous source, for custom merge ops and queues.

    Never raises.

    Args:
        item: Anything that came out of a queue.

    Example:
        >>> from spdl.pipeline import is_epoch_end
        >>> is_epoch_end("an item")
        False
    """
    return item is EPOCH_END


def is_eof(item: object) -> bool:
    """Return whether ``item`` marks the end of a queue, for custom merge ops and queues. Never raises.

    Args:
        item: Anything that came out of a queue.

    Example:
        >>> from spdl.pipeline import is_eof
        >>> is_eof("an item")
        False
    """
    return item is EOF


# That many results beyond the stage's concurrency may wait for an earlier one. The reference starts as many ops ahead.
AHEAD = 2


class Ticket:
    """The place of one input item in the order of output. It completes with any number of results."""

    # Defaults of the class: most tickets come to the head before they need other values.
    done: bool = False
    results: Sequence[Entry] = ()


class Order:
    """The tickets of the items that an ordered stage has admitted, in order of admission.

    Only the head ticket's results leave; the results of later tickets wait in them. The order is the order of admission
    and never the order of the source's positions: after drops, fan-out and merges these are not a total order.
    """

    __slots__ = ("buffered", "tickets")

    def __init__(self) -> None:
        self.tickets: deque[Ticket] = deque()
        self.buffered = 0

    def admit(self) -> Ticket:
        ticket = Ticket()
        self.tickets.append(ticket)
        return ticket

    def has_place(self, limit: int) -> bool:
        return len(self.tickets) < limit + AHEAD

    def take_alone(self, ticket: Ticket) -> bool:
        """End a ticket whose only result may leave at once, without results of others; False if that is not so."""
        tickets = self.tickets
        if tickets[0] is not ticket:
            return False
        if len(tickets) > 1 and (tickets[1].done or tickets[1].results):
            return False
        tickets.popleft()
        return True

    def is_head(self, ticket: Ticket) -> bool:
        return self.tickets[0] is ticket

    def add(self, ticket: Ticket, entry: Entry) -> Sequence[Entry]:
        """Add a result. Returns what may leave now."""
        if self.tickets[0] is ticket:
            return (entry,)
        ticket.results = (*ticket.results, entry)
        self.buffered += 1
        return ()

    def complete(self, ticket: Ticket) -> Sequence[Entry]:
        """End a ticket. Returns the results of later tickets that may leave now."""
        ticket.done = True
        leaving: list[Entry] = []
        tickets = self.tickets
        while tickets and tickets[0].done:
            tickets.popleft()
            if tickets and tickets[0].results:
                leaving += tickets[0].results
                self.buffered -= len(tickets[0].results)
                tickets[0].results = ()
        return leaving

    def give_up(self) -> list[Entry]:
        """Return the results that have waited for earlier ones, in order, and forget all tickets."""
        self.buffered = 0
        return self.let_go()

    def let_go(self) -> list[Entry]:
        """Return the same if they go nowhere: they still count as waiting."""
        results = [entry for ticket in self.tickets for entry in ticket.results]
        self.tickets.clear()
        return results

    def finish(self, ticket: Ticket, entry: Entry) -> Sequence[Entry]:
        """Add the only result of a ticket and end it. Returns what may leave now."""
        if self.tickets[0] is not ticket:
            ticket.results = (entry,)
            ticket.done = True
            self.buffered += 1
            return ()
        return (entry, *self.complete(ticket))


# An entry of a queue: where the item came from (a Root) and the item, or the MARK between two epochs.
Entry: TypeAlias = tuple[Any, Any]

# Items that may wait between two stages apart from those that hold a slot of the upstream stage. The reference's queues
# have the same size, so memory budgets made for it hold.
CAPACITY = 2

# Verdicts of `Channel.verdict` apart from BLOCKED and HELD.
ADMITTED, SLOTS_TAKEN = -1, -2


class Guard(Protocol):
    """Decides whether the part that fills a channel may make one more result for it: `Budget` is one."""

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
        # Another part that has to agree before a result is made, or None.
        self.guard: Guard | None = None

    def has_place(self, under_way: int = 0, concurrency: int = 0) -> bool:
        """Return whether one more entry has a place beside those that are being made.

        As many finished ones as the concurrency may stay in the slots of the stage that makes them.
        """
        places = under_way + len(self.entries) < self.capacity + concurrency
        return places and (self.guard is None or self.guard.admits(self))

    def set_guard(self, guard: Guard) -> None:
        self.guard = guard

    def verdict(self, running: int, under_way: int, concurrency: int, order: Order | None) -> int:
        """Return ADMITTED if the stage that fills the channel may take an item now, or else the reason why not.

        Args:
            running: How many slots of the stage are in use.
            under_way: In how many of them a result is being made.
            concurrency: How many slots there are.
            order: The order of the stage's results, if they are kept in one.
        """
        if running >= concurrency:
            return SLOTS_TAKEN
        if order is not None and not order.has_place(concurrency):
            return HELD
        return ADMITTED if self.has_place(under_way, concurrency) else BLOCKED

    def items(self) -> int:
        """Return how many of the entries are items, and not ends of epochs. Needs no lock."""
        return sum(entry is not MARK for entry in self._snapshot())

    def _snapshot(self) -> deque[Entry]:
        # Entries may be taken in the meantime, which a copy made in one step does not mind. Without a GIL it takes
        # several, and the deque complains.
        while True:
            with suppress(RuntimeError):
                return self.entries.copy()

    def excess(self) -> int:
        """Return how many more entries wait than there are places; negative if places are left."""
        return len(self.entries) - self.capacity

    def set_capacity(self, capacity: int) -> None:
        self.capacity = capacity

    def put(self, entry: Entry, now: float = 0.0) -> None:
        """Append an entry; the time now is looked up if it is needed and not given."""
        self.entries.append(entry)
        waiting = len(self.entries)
        if waiting == 1:
            self.counters.filled_at = now or perf_counter()
        elif waiting > self.capacity:
            self.counters.late.append(now or perf_counter())

    def put_in_place(self, entry: Entry, now: float) -> None:
        """Append an entry that had a place before it was made, so it is never late."""
        self.entries.append(entry)
        if len(self.entries) == 1:
            self.counters.filled_at = now

    def take_uncounted(self, *, item: bool) -> Entry:
        """Take the first entry for a reader that notes nothing; ``item`` is False for the end of an epoch."""
        entry = self.entries.popleft()
        self.counters.took_uncounted(perf_counter(), self.excess(), item=item)
        return entry


# A consumer that takes entries no quicker than this reports each time that it made room for a waiting one. A quicker
# one does not, since a report would cost it more than the entry: the next entry shows that there is room.
_SLOW = 1e-3


class Sink(Channel):
    """The channel of finished items that the consumer reads.

    Workers append under the engine's lock. The consumer pops without it: a deque's operations are atomic, and only
    when it finds nothing, or the engine is held up by a full sink, does it need the lock.
    """

    __slots__ = ("_ends", "full", "left_open", "readers", "roots", "told_at")

    def __init__(self, capacity: int) -> None:
        super().__init__(int(capacity))
        # Whether the user left the number open.
        self.left_open = isinstance(capacity, LeftOpen)
        # How many ends of epochs were put here, those of an earlier run included.
        self._ends = 0
        # Set by a thread that found no room. A thread that takes an entry and sees the flag tells the engine.
        self.full = False
        # When the consumer last reported that it took something.
        self.told_at = 0.0
        # The gates of consumers that wait for an entry.
        self.readers: list[Lock] = []
        # The roots of its entries, behind those of entries that were taken since a budget has looked; None if there is
        # no budget. The consumer leaves it alone.
        self.roots: deque[Any] | None = None

    def has_place(self, under_way: int = 0, concurrency: int = 0) -> bool:
        """Return whether one more entry has a place. If not, set the flag for the consumer."""
        if under_way + len(self.entries) < self.capacity + concurrency:
            return self.guard is None or self.guard.admits(self)
        # The consumer takes without the lock and looks at this flag afterwards, so it is set before the second look:
        # one of the two sees the other.
        self.full = True
        return under_way + len(self.entries) < self.capacity + concurrency and self.guard is None

    def set_full(self, *, full: bool) -> None:
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
        if self.roots is not None:
            self.roots.append(entry[0])
        if waiting >= self.capacity:
            counters.late.append(now or perf_counter())
            # The consumer may have made room in the meantime.
            if len(counters.late) > waiting + 1 - self.capacity:
                counters.catch_up(waiting + 1 - self.capacity, counters.late[-1])
        if self.readers:
            self.wake_readers()

    def put_mark(self) -> None:
        """Append the end of an epoch, which counts as no item. Called with the engine's lock held."""
        self.counters.uncount(len(self.entries))
        self.put(MARK)
        self._ends += 1

    def number_epochs(self, first: int) -> None:
        """Note how many ends were read in an earlier run. Called before the start."""
        self._ends = first

    def epochs_read(self) -> int:
        """Return how many ends of epochs were taken. Needs no lock."""
        return self._ends - sum(entry is MARK for entry in self._snapshot())

    def note_roots(self) -> deque[Any]:
        """Note the root of each entry from now on, and return them. Called before anything runs."""
        self.roots = deque()
        return self.roots

    def caught_up(self) -> None:
        """Note that the consumer took entries. Called with the lock held."""
        if self.counters.late:
            now = perf_counter()
            self.counters.catch_up(self.excess(), now)
            if self.counters.late and now - self.told_at >= _SLOW:
                self.full = True
            self.told_at = now

    def take_all(self) -> list[Entry]:
        """Take the entries that will never be read."""
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
