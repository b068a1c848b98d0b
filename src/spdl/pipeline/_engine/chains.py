"""Results of aggregators that split items, so that each result depends on what was left over by the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .groups import Gathering

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .records import Batch, Record

__all__ = ["Again", "Chain", "Cut", "Segment", "Tail"]


class Tail(NamedTuple):
    """What was left over at some moment, and the number of the epoch that went on there."""

    left: Any
    epoch: int


class Again(NamedTuple):
    """A result of an earlier run that has to be made again of the same items and the same leftover.

    Attributes:
        place: The place of its items among the batches of that run's state.
        batch: The batch.
        tail: What was left over before it, and its epoch.
    """

    place: int
    batch: Batch
    tail: Tail


class Segment(Gathering):
    """The origin of one result: the items that came since the one before, and what that one has left over."""

    # Each result needs its leftover, so it is not packed with its items.
    observed: ClassVar[bool] = True

    __slots__ = ("chain", "number", "place", "tail")

    def __init__(self, chain: Chain, record: Record | None = None) -> None:
        super().__init__(record)
        self.chain = chain
        self.number = -1
        self.tail = Tail(None, 0)
        # Its items' place among the batches of an earlier run's state, if it was made again.
        self.place: int | None = None

    def join(self, number: int, tail: Tail, place: int | None) -> None:
        """Note its number among the results, what was left over before it, and its place in the state."""
        self.number, self.tail, self.place = number, tail, place

    def consumed(self) -> None:
        self.chain.live.pop(self, None)


class Cut(NamedTuple):
    """Where an aggregator goes on.

    Attributes:
        again: The results that were not consumed though a later one was, or only a part was: each is made by itself.
        tail: What is left over for all that follows.
    """

    again: list[Segment]
    tail: Tail


class Chain:
    """The results of one aggregator that says what it has left over. Guarded by the engine's lock.

    Attributes:
        live: The results that are not consumed.
        again: What is still to be made again of an earlier run.
        tail: What that run had left over, until it is loaded.
        epoch: The number of the epoch that the next item is of.
    """

    __slots__ = ("_floor", "_left", "_made", "again", "epoch", "live", "tail")

    def __init__(self) -> None:
        self.live: dict[Segment, None] = {}
        self.again: list[Again] = []
        self.tail: Tail | None = None
        self.epoch = 0
        self._left: Any = None
        # How many results there were, and how many before the tail was loaded.
        self._made = 0
        self._floor = 0

    def begin(self, left: Any, epoch: int) -> None:
        """Note what is left over from before the start."""
        self._left, self.epoch = left, epoch

    def resume(self, tail: Tail, again: list[Again], epoch: int) -> None:
        """Go on where an earlier run was, before anything runs."""
        self.tail, self.again, self.epoch = tail, again, epoch

    def take_tail(self) -> Any:
        """Return what the earlier run had left over, which is loaded now."""
        assert self.tail is not None
        self._left, self.tail = self.tail.left, None
        self._floor = self._made
        return self._left

    def emitted(self, segment: Segment, left: Any) -> None:
        """Note a result, and what is left over now."""
        if segment.record is None:
            segment.join(self._made, Tail(self._left, self.epoch), None)
        else:
            again = self.again_of(segment.record)
            self.again.remove(again)
            segment.join(self._made, Tail(again.tail.left, self.epoch), again.place)
        self.live[segment] = None
        self._made += 1
        self._left = left

    def end_epoch(self, left: Any) -> None:
        """Note that an epoch was flushed, here or in an earlier run, and what is left over then."""
        self._left = left
        self.epoch += 1

    def again_of(self, record: Record) -> Again:
        """Return what is to be made again, by its record."""
        return next(each for each in self.again if each.batch.record is record)

    def cut(self, undone: Iterable[Segment], referred: Collection[Segment]) -> Cut:
        """Return where another run has to go on.

        Args:
            undone: Results that count as not consumed, besides those that are not.
            referred: Those of which a part was consumed.
        """
        unconsumed = {each.number: each for each in (*self.live, *(each for each in undone if each.chain is self))}
        first = self._made
        if self.tail is not None:
            return Cut([each for _, each in sorted(unconsumed.items())], self.tail)
        while first > self._floor and first - 1 in unconsumed and unconsumed[first - 1] not in referred:
            first -= 1
        tail = unconsumed[first].tail if first in unconsumed else Tail(self._left, self.epoch)
        return Cut([each for number, each in sorted(unconsumed.items()) if number < first], tail)
