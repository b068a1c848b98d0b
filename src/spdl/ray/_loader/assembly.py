"""Results on their way from the actors to the consumer: in the order of their arrival, or of their positions."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spdl.ray._actor.messages import Result
    from spdl.ray._leases.ranges import Range

    # A result; or, where there is none, positions of which nothing is left once the consumer has what came before.
    Entry = Result | list[Range]

__all__ = ["InArrivalOrder", "InPositionOrder", "Stretch"]


class Stretch:
    """What comes of one granted range, in its order.

    Attributes:
        start: The first position.
        entries: What has come and was not taken.
        over: Whether nothing more will come.
    """

    __slots__ = ("entries", "over", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.entries: deque[Entry] = deque()
        self.over = False

    def end(self) -> None:
        """Note that nothing more will come."""
        self.over = True


class InArrivalOrder:
    """Gives what has come first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()

    def begin_stretch(self, start: int) -> Stretch | None:  # noqa: ARG002 - as the other one.
        """Note that a range is granted. Return where its results go, if these are told apart from others."""
        return None

    def add(self, entry: Entry, stretch: Stretch | None) -> None:  # noqa: ARG002 - as the other one.
        """Add what has come."""
        self._entries.append(entry)

    def take(self, next_free: int | None) -> Entry | None:  # noqa: ARG002 - as the other one.
        """Return what comes next; None if nothing does now."""
        return self._entries.popleft() if self._entries else None


class InPositionOrder:
    """Gives what comes of one granted range after the other, however they arrive."""

    def __init__(self) -> None:
        # What was left of a range that was lost begins where the other one may have begun.
        self._stretches: list[tuple[int, int, Stretch]] = []
        self._numbers = count()

    def begin_stretch(self, start: int) -> Stretch | None:
        """Note that a range is granted. Return where its results go."""
        stretch = Stretch(start)
        heappush(self._stretches, (start, next(self._numbers), stretch))
        return stretch

    def add(self, entry: Entry, stretch: Stretch | None) -> None:
        """Add what has come."""
        assert stretch is not None
        stretch.entries.append(entry)

    def take(self, next_free: int | None) -> Entry | None:
        """Return what comes next; None if nothing does now.

        Args:
            next_free: The lowest position that nobody works on.
        """
        while self._stretches:
            start, _, stretch = self._stretches[0]
            if next_free is not None and next_free < start:
                return None
            if stretch.entries:
                return stretch.entries.popleft()
            if not stretch.over:
                return None
            heappop(self._stretches)
        return None
