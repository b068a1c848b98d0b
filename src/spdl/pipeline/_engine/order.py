"""Tickets: what keeps the results of an ordered stage in the order of its input."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .channel import Entry

__all__ = ["AHEAD", "Order", "Ticket"]

# So many results beyond the stage's concurrency may wait for an earlier one. The reference starts as many ops ahead.
AHEAD = 2


class Ticket:
    """The place of one input item in the order of output. It completes with any number of results."""

    # Defaults of the class: most tickets come to the head before they need anything of their own.
    done: bool = False
    results: Sequence[Entry] = ()


class Order:
    """The tickets of the items that an ordered stage has admitted, in order of admission.

    Only the head ticket's results leave; those of later tickets wait in the ticket. Order is that of admission and
    never that of the source's positions: after drops, fan-out and merges these are no total order.
    """

    __slots__ = ("buffered", "tickets")

    def __init__(self) -> None:
        self.tickets: deque[Ticket] = deque()
        self.buffered = 0

    def admit(self) -> Ticket:
        """Give the next item its ticket."""
        ticket = Ticket()
        self.tickets.append(ticket)
        return ticket

    def has_place(self, limit: int) -> bool:
        """Return whether a stage with this concurrency may admit one more item."""
        return len(self.tickets) < limit + AHEAD

    def take_alone(self, ticket: Ticket) -> bool:
        """End a ticket whose only result may leave at once, and no other's with it; False if that is not so."""
        tickets = self.tickets
        if tickets[0] is not ticket:
            return False
        if len(tickets) > 1 and (tickets[1].done or tickets[1].results):
            return False
        tickets.popleft()
        return True

    def is_head(self, ticket: Ticket) -> bool:
        """Return whether the ticket's results may leave at once."""
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
        """Return the same where they go nowhere: they still count as waiting."""
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
