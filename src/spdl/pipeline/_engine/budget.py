"""The budget of bytes: how many the items in flight keep, and who may make another one."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from spdl.pipeline._world import perf_counter

from .weigh import weigh

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .channel import Channel

__all__ = ["Budget", "MakesItems", "Surroundings"]

# The largest of so many results, or of twice as many, is what the next one is expected to weigh.
_REMEMBERED = 64


class MakesItems(Protocol):
    """A source, or a stage whose results are new objects."""

    @property
    def output(self) -> Channel: ...
    def in_ops(self) -> int:
        """Return how many results are being made now."""


class Surroundings(Protocol):
    """What the budget asks of the engine, with the lock held."""

    def is_failing(self) -> bool:
        """Return whether a stage has failed, so that nothing more is pulled and what is left passes."""

    def leave_word_at_sink(self) -> bool:
        """Have the consumer tell when it takes an item. Return whether there is none for it to take."""

    def nothing_else_goes_on(self, maker: MakesItems) -> bool:
        """Return whether nobody but this source or stage has anything to do."""

    def bytes_freed(self) -> None:
        """Have everybody look who may have found no bytes left."""

    def note_excess(self, held: int, limit: int) -> None:
        """Tell the user, once, that one item alone takes more than all may."""


class _Place:
    """What is known of the results of one source or stage."""

    __slots__ = ("_before", "_count", "_now", "known", "maker", "number")

    def __init__(self, number: int, maker: MakesItems) -> None:
        self.number = number
        self.maker = maker
        self.known = False
        self._now = self._before = self._count = 0

    def note(self, weight: int) -> None:
        self.known = True
        self._now = max(self._now, weight)
        self._count += 1
        if self._count == _REMEMBERED:
            self._before, self._now, self._count = self._now, 0, 0

    def expected(self) -> int:
        return max(self._now, self._before)


class Budget:
    """Weighs the items in flight, and lets a result be made only where it will fit. Guarded by the engine's lock.

    A result's weight is known only once there is one. So whoever is about to make one reserves what the largest of its
    latest results weighed; before the first, the largest of all, and one at a time. Whoever is farther from the sink
    leaves as much as any stage behind it needs for one result, so that the item nearest the sink can always go on.
    Where nothing goes on all the same, one result is made alone, whatever it weighs.

    Attributes:
        limit: How many bytes the items may keep.
        held: How many they keep now.
        peak: The most that they have kept.
        waited: Seconds for which something was not made since it would not have fitted.
    """

    __slots__ = (
        "_blocked_since",
        "_largest",
        "_places",
        "_told",
        "_weights",
        "engine",
        "held",
        "limit",
        "peak",
        "taken",
        "waited",
    )

    def __init__(self, limit: int, engine: Surroundings) -> None:
        self.limit = limit
        self.engine = engine
        self.held = self.peak = 0
        self.waited = 0.0
        # By the root of each item.
        self._weights: dict[Any, int] = {}
        self._places: dict[Channel, _Place] = {}
        self._largest = 0
        self._blocked_since = 0.0
        self._told = False
        # The roots of items that the consumer has taken without the lock.
        self.taken: deque[Any] = deque()

    def connect(self, makers: Iterable[MakesItems]) -> None:
        """Guard what these fill. Each comes behind all that feed it."""
        for number, maker in enumerate(makers):
            self._places[maker.output] = _Place(number, maker)
            maker.output.guard_by(self)

    # ---- whether a result may be made ----

    def admits(self, channel: Channel) -> bool:
        """Return whether one more result for this channel may be made now."""
        place = self._places[channel]
        if self.engine.is_failing() or self._fits(place):
            return True
        # The consumer takes without the lock and looks at the word afterwards, so it is left before the second look.
        if self.engine.leave_word_at_sink() and self.engine.nothing_else_goes_on(place.maker):
            return True
        if self._fits(place):
            return True
        if not self._blocked_since:
            self._blocked_since = perf_counter()
        return False

    def _fits(self, place: _Place) -> bool:
        self._note_taken()
        if not place.known and place.maker.in_ops():
            return False
        needed = self.held + self._expected(place)
        behind = 0
        for each in self._places.values():
            needed += each.maker.in_ops() * self._expected(each)
            if each.number > place.number:
                behind = max(behind, self._expected(each))
        return needed + behind <= self.limit

    def _expected(self, place: _Place) -> int:
        return place.expected() if place.known else self._largest

    # ---- what is held ----

    def note(self, channel: Channel, root: Any, item: Any) -> None:
        """Note an item that was made, in the place of what its root stood for before."""
        weight = weigh(item)
        place = self._places.get(channel)
        if place is not None:
            place.note(weight)
            self._largest = max(self._largest, weight)
        self._set(root, weight)
        self.freed()

    def note_nothing(self, channel: Channel) -> None:
        """Note that a result was dropped, since it was None."""
        place = self._places.get(channel)
        if place is not None:
            place.note(0)
        self.freed()

    def note_part(self, whole: Any, root: Any, item: Any) -> None:
        """Note an item that is a part of another one, which is taken apart."""
        weight = weigh(item)
        self._set(whole, max(0, self._weights.get(whole, 0) - weight))
        self._set(root, weight)

    def move(self, roots: Iterable[Any], into: Any) -> None:
        """Note that items are held together under another root from now on."""
        self._note_taken()
        total = self._weights.get(into, 0)
        for root in roots:
            total += self._weights.get(root, 0)
            self._set(root, 0)
        self._set(into, total)
        self.freed()

    def forget(self, root: Any) -> None:
        """Note that an item is gone."""
        self._set(root, 0)
        self.freed()

    def _set(self, root: Any, weight: int) -> None:
        before = self._weights.pop(root, 0)
        if weight:
            self._weights[root] = weight
        if weight == before:
            return
        self.held += weight - before
        if self.held > self.peak:
            self._note_taken()
            self.peak = max(self.peak, self.held)
            if self.held > self.limit and not self._told:
                self._told = True
                self.engine.note_excess(self.held, self.limit)

    def _note_taken(self) -> None:
        while self.taken:
            self._set(self.taken.popleft(), 0)

    def freed(self) -> None:
        """Have everybody look who found no bytes left."""
        if self._blocked_since:
            self.waited += perf_counter() - self._blocked_since
            self._blocked_since = 0.0
            self.engine.bytes_freed()

    def bytes_now(self) -> int:
        """Return how many bytes are held, without what the consumer has taken. Needs no lock."""
        return max(0, self.held - sum(self._weights.get(root, 0) for root in self.taken.copy()))

    def seconds_waited(self, now: float) -> float:
        """Return for how long something has waited for bytes, until now. Needs no lock."""
        since = self._blocked_since
        return self.waited + (max(0.0, now - since) if since else 0.0)
