"""One actor, as the driver knows it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from spdl.ray._actor.messages import Report

    from .assembly import Stretch

__all__ = ["Member", "Place"]


class Place(NamedTuple):
    """Where an actor runs."""

    pid: int
    node: str


class Member:
    """What was sent to an actor, and what has come back.

    Attributes:
        number: Its number, which no other actor has had.
        actor: Ray's handle.
        begun: Ray's reference to what its start returns.
        place: Where it runs; None while it starts.
        calls: Ray's references to what it will return, the oldest first.
        epoch: The pass of the last grant; None before the first one.
        retiring: Whether it gets no more work.
        stretches: What it has been granted, one for each flush that is not over.
        useful: Whether it has returned anything.
    """

    def __init__(self, number: int, actor: Any, begun: Any) -> None:
        self.number = number
        self.actor = actor
        self.begun = begun
        self.place: Place | None = None
        self.calls: deque[Any] = deque()
        self.epoch: int | None = None
        self.retiring = False
        self.stretches: deque[Stretch] = deque()
        self.useful = False
        # Whether something was granted since the last flush; how many positions were granted in all, and taken of them;
        # how many flushes were asked for, and are over.
        self._open = False
        self._granted = self._fed = 0
        self._asked = self._flushed = 0

    def next_ref(self) -> Any:
        """Return the reference that is to come next; None if nothing is asked for."""
        if self.place is None:
            return self.begun
        return self.calls[0] if self.calls else None

    def note_begun(self, place: Place) -> None:
        """Note that it has started."""
        self.place = place

    def note_grant(self, epoch: int, start: int, stop: int, stretch: Stretch | None) -> None:
        """Note what it was granted.

        Args:
            epoch: The pass.
            start: The first position.
            stop: The one after the last.
            stretch: Where its results go, if a flush of its own follows.
        """
        self.epoch = epoch
        self._granted += stop - start
        if stretch is None:
            self._open = True
        else:
            self.stretches.append(stretch)
            self._asked += 1

    def note_flush(self) -> None:
        """Note that it was asked for a flush."""
        self._open = False
        self._asked += 1

    def note_report(self, report: Report) -> None:
        """Note what it has told of itself."""
        self.useful = self.useful or bool(report.results or report.done)
        self._fed, self._flushed = report.fed, report.flushed

    def retire(self) -> None:
        """Give it no more work."""
        self.retiring = True

    def unfed(self) -> int:
        """Return how many positions it has yet to begin with, as far as is known."""
        return self._granted - self._fed

    def must_flush(self) -> bool:
        """Return whether something was granted since the last flush."""
        return self._open

    def flushes_pending(self) -> int:
        """Return how many flushes it has not come to yet."""
        return self._asked - self._flushed

    def flushes_over(self) -> int:
        """Return how many flushes are over."""
        return self._flushed
