"""Which actor works on which positions of a pass over a source, and which of them are delivered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spdl._check import check_flag, check_int, positive
from spdl._ranges import Range, Ranges


class PartlyReceived:
    """Results by their names: the position of the item, and then numbers of results.

    To deliver and forget the same again, after Ctrl-C has interrupted it, changes nothing.

    An item that is delivered as a whole is forgotten, so it takes memory only for items under way. The state is what
    `to_state` has returned in an earlier run: results that were delivered.
    """

    def __init__(self, state: Iterable[Any] = ()) -> None:
        # By all but the last number of a name: the last numbers of those that were received, and of these delivered.
        self._received: dict[tuple[int, ...], Ranges] = {}
        self._delivered: dict[tuple[int, ...], Ranges] = {}
        for of, numbers in state:
            self._received[tuple(of)] = Ranges.from_state(numbers)
            self._delivered[tuple(of)] = Ranges.from_state(numbers)

    def receive(self, parts: Iterable[Sequence[int]]) -> None:
        """Note results that must not be made again."""
        for *of, number in parts:
            self._received.setdefault(tuple(of), Ranges()).add(number, number + 1)

    def deliver(self, parts: Iterable[Sequence[int]]) -> None:
        for *of, number in parts:
            self._delivered.setdefault(tuple(of), Ranges()).add(number, number + 1)

    def forget(self, ranges: Sequence[Range]) -> None:
        for known in (self._delivered, self._received):
            if known:
                for start, stop in ranges:
                    for of in [of for of in known if start <= of[0] < stop]:
                        del known[of]

    def received_of(self, start: int, stop: int) -> list[tuple[int, ...]]:
        """Return the received results of items from one position to before another."""
        return [(*of, number) for of, numbers in self._received.items() if start <= of[0] < stop for number in numbers]

    def to_state(self) -> list[Any]:
        """Return what was delivered, as JSON can hold it."""
        return [[list(of), numbers.to_state()] for of, numbers in sorted(self._delivered.items())]


class Undelivered(NamedTuple):
    """The rest of a pass.

    Example:
        >>> from spdl.ray import LeaseTable
        >>> table = LeaseTable(10, lease=4)
        >>> table.grant("a")
        (0, 4)
        >>> table.undelivered().position
        4
    """

    position: int
    """The first position that was never granted."""
    out: list[tuple[int, int]]
    """The ranges below it that are not delivered, in order."""


class LeaseTable:
    """Grants ranges of positions to owners, and knows what became of each position.

    A position is free, granted to one owner, received (it has left its owner, and the consumer does not have it yet) or
    delivered. An owner that is lost gives back what was not received of its ranges; they are granted to others, the
    lowest first. Results that a lost owner sends later are refused, so every position is received from exactly one.

    It is a pure record: no clock, no thread, no Ray. It takes memory for each owner and for each hole in what is
    delivered, not for each position. An operation costs the same however many positions there are. No method raises
    its own errors. If Ctrl-C interrupts one, a position may be free and granted at once, but no position is missing:
    `undelivered` is right, and `renew` continues with it.

    Args:
        length: How many positions there are; None if unknown before `end_at`.
        lease: How many positions are granted at once, at most.
        position: The first position that was never granted in an earlier run.
        out: The ranges below it that were not delivered there.
        aligned: Whether granted ranges end at multiples of `lease`.

    Raises:
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from spdl.ray import LeaseTable
        >>> table = LeaseTable(10, lease=4)
        >>> table.grant("a"), table.grant("b")
        ((0, 4), (4, 8))
        >>> table.receive("a", [(0, 3)]), table.deliver([(0, 3)])
        ([(0, 3)], None)
        >>> table.lose("a")
        [(3, 4)]
        >>> table.receive("a", [(3, 4)])  # It comes too late.
        []
        >>> table.grant("b"), table.grant("b"), table.grant("b")
        ((3, 4), (8, 10), None)
        >>> table.undelivered()
        Undelivered(position=10, out=[(3, 10)])
    """

    def __init__(
        self,
        length: int | None,
        lease: int,
        *,
        position: int = 0,
        out: Iterable[Range] = (),
        aligned: bool = False,
    ) -> None:
        self._length = None if length is None else check_int("length", length, least=0)
        self.lease = positive("lease", lease)
        self._position = check_int("position", position, least=0, most=self._length)
        self._align = self.lease if check_flag("aligned", aligned) else None
        # Taken back from owners that were lost, or left by an earlier run.
        self._back = Ranges(out)
        self._granted: dict[object, Ranges] = {}
        self._received = Ranges()

    # ---- granting ----

    def next_free(self) -> int | None:
        """Return the position that is granted next; None if none is free."""
        if (back := self._back.first) is not None:
            return back
        return None if self._position == self._length else self._position

    def num_free(self) -> int | None:
        """Return how many positions are free; None if unknown."""
        return None if self._length is None else len(self._back) + self._length - self._position

    def grant(self, owner: object, most: int | None = None) -> Range | None:
        """Return a range for the owner to work on. It never raises.

        Args:
            owner: Anything that can be a key of a dict. One that was lost must not come back.
            most: How many positions to grant, at most; None grants `lease`. Aligned ranges are not cut.

        Returns:
            The first position and the one after the last; None if nothing is free.
        """
        most = self.lease if most is None else min(most, self.lease)
        # A position is added to its new set before the old one loses it, here and below: an interrupt loses none.
        held = self._granted.setdefault(owner, Ranges())
        granted = self._back.first_run(most, align=self._align)
        if granted is None:
            start = self._position
            stop = start + most
            if self._align is not None:
                stop = start - start % self._align + self._align
            if self._length is not None:
                stop = min(stop, self._length)
            if start == stop:
                return None
            held.add(start, stop)
            self._position = stop
            return start, stop
        held.add(*granted)
        self._back.remove(*granted)
        return granted

    def end_at(self, position: int) -> None:
        """Note that the source has no such position and none beyond. It never raises."""
        if self._length is not None and position >= self._length:
            return
        for ranges in (self._back, *self._granted.values()):
            ranges.remove(position, ranges.stop)
        self._position = min(self._position, position)
        self._length = position

    # ---- what comes of it ----

    def receive(self, owner: object, ranges: Iterable[Range]) -> list[Range]:
        """Note that positions have left their owner for good. It never raises.

        Args:
            owner: The sender.
            ranges: The positions.

        Returns:
            Those that were the owner's. They are received, and stay so until `deliver`.
        """
        granted = self._granted.get(owner)
        if granted is None:
            return []
        accepted: list[Range] = []
        for start, stop in ranges:
            within = granted.within(start, stop)
            for run in within:
                self._received.add(*run)
            granted.remove(start, stop)
            accepted += within
        return accepted

    def deliver(self, ranges: Iterable[Range]) -> None:
        """Note that the consumer has what came of received positions, or that nothing came of them. It never raises."""
        for start, stop in ranges:
            self._received.remove(start, stop)

    def lose(self, owner: object) -> list[Range]:
        """Take back what was granted to an owner and not received. Return these ranges. It never raises."""
        taken = self._granted.get(owner, Ranges()).runs
        for start, stop in taken:
            self._back.add(start, stop)
        self._granted.pop(owner, None)
        return taken

    # ---- looking at it ----

    def held_by(self, owner: object) -> int:
        """Return how many positions an owner has yet to send. It never raises."""
        granted = self._granted.get(owner)
        return 0 if granted is None else len(granted)

    def is_over(self) -> bool:
        """Return whether nothing is free and nothing granted. Some may be received and not delivered."""
        return self.next_free() is None and not any(map(len, self._granted.values()))

    def lowest(self) -> int:
        """Return the lowest position that is not delivered; after the last one, if all are."""
        firsts = [ranges.first for ranges in (self._back, self._received, *self._granted.values())]
        return min((first for first in firsts if first is not None), default=self._position)

    def undelivered(self) -> Undelivered:
        """Return what is left, so that another table can continue with it: its `position` and `out`."""
        left = self._back.union(self._received, *self._granted.values())
        return Undelivered(self._position, left.runs)

    def renew(self) -> LeaseTable:
        """Return another table with what is left here, and nothing granted."""
        position, out = self.undelivered()
        return LeaseTable(self._length, self.lease, position=position, out=out, aligned=self._align is not None)
