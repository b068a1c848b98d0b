"""The source of an actor's pipeline: the items at the positions that were granted to it."""

from __future__ import annotations

from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.indexed_source import Placed
from spdl.pipeline._engine.one_pass import OnePass
from spdl.pipeline._engine.resumption import Leg, Seeker, TooShortError, has_state, offers, seeker_in
from spdl.pipeline._engine.source_passes import Pass
from spdl.ray._actor.messages import Begin, Grant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline._pipeline.named_results import Part
    from spdl.ray._leases import Range

__all__ = ["Feed", "InOrder", "length_of"]


class InOrder:
    """Holds positions back until all before them in their range have come. One thread expects, another passes on."""

    def __init__(self) -> None:
        self._expected: deque[Range] = deque()
        self._ranges: deque[Range] = deque()
        self._early: set[int] = set()

    def expect(self, start: int, stop: int) -> None:
        """Note a range of which all positions will come, behind those that were noted before."""
        self._expected.append((start, stop))

    def pass_on(self, positions: list[int], end: int | None) -> list[Range]:
        """Return the ranges that are complete up to some position, with these positions.

        Args:
            positions: What has come.
            end: The position from which on nothing will come, if there is one.
        """
        self._early.update(positions)
        while self._expected:
            self._ranges.append(self._expected.popleft())
        if end is not None:
            self._ranges = deque((start, min(stop, end)) for start, stop in self._ranges if start < end)
        found: list[Range] = []
        while self._ranges:
            start, stop = self._ranges[0]
            at = start
            while at < stop and at in self._early:
                self._early.remove(at)
                at += 1
            if at > start:
                found.append((start, at))
            if at < stop:
                self._ranges[0] = at, stop
                break
            self._ranges.popleft()
        return found


class _Flush:
    """Stands for the end of what is to be put into the same batches."""


class _Close:
    """Stands for the end of everything."""


def length_of(source: Any) -> int | None:
    """Return how many items a pass over a source has; None if only a pass can tell."""
    if offers(source, "advance_state") or offers(source, "set_epoch") or not hasattr(type(source), "__len__"):
        # A sampler that was resumed has fewer in its next pass than it says.
        return None
    return len(source)


class Feed(Placed):
    """An iterable without an end. Each iteration ends with a flush.

    Its items have positions of their own here, which count on from 0. One thread puts grants into it, and threads of
    the pipeline take the items, one at a time.

    Args:
        source: The source: a sequence, or with a method ``iterate_from``.

    Attributes:
        epoch: The number of the pass.
        fed: How many positions were taken, or are beyond the source's end.
        end: The position at which the source ended, if it was seen to end.
        starved: Whether the pipeline waits for a grant.
    """

    def __init__(self, source: Any) -> None:
        self.epoch = 0
        self.fed = 0
        self.end: int | None = None
        self.starved = False
        self._source = source
        self._length = length_of(source)
        self._orders: SimpleQueue[Begin | Grant | type[_Flush | _Close]] = SimpleQueue()
        self._seeker: Seeker | None = None
        self._at = self._stop = 0
        self._parts: dict[int, list[Part]] = {}
        self._taken = 0
        # The positions in the source of what is under way, by those here.
        self._positions: dict[int, int] = {}
        self._learn: Callable[[int, list[Part]], None] | None = None
        self._tell: Callable[[], None] | None = None

    def connect(self, *, learn: Callable[[int, list[Part]], None], tell_starved: Callable[[], None]) -> None:
        """Say whom to tell: of results that were consumed elsewhere, and that the pipeline waits for a grant."""
        self._learn = learn
        self._tell = tell_starved

    # ---- for the thread that is called by the driver ----

    def put(self, order: Begin | Grant) -> None:
        """Add a range, or say which pass the following ones belong to."""
        self.starved = False
        if isinstance(order, Begin):
            # Nothing is under way, so nobody else sets it now.
            self.end = None
        self._orders.put(order)

    def flush(self) -> None:
        """End the iteration behind what was added."""
        self.starved = False
        self._orders.put(_Flush)

    def close(self) -> None:
        """End this iteration and all further ones."""
        self._orders.put(_Close)

    def position_of(self, position: int) -> int:
        """Return the position in the source of an item that is under way."""
        return self._positions[position]

    def forget(self, position: int) -> int:
        """Return the position in the source of an item of which nothing is left."""
        return self._positions.pop(position)

    def under_way(self) -> int:
        """Return how many items were taken and not forgotten."""
        return len(self._positions)

    # ---- for the pipeline ----

    def place_of(self, position: int) -> tuple[int, int]:
        return self.epoch, self._positions[position]

    def __iter__(self) -> Iterator[Any]:
        return OnePass(self.take)

    def take(self) -> Any:
        """Return the next item.

        Raises:
            StopIteration: At a flush.
        """
        while True:
            if self._at >= self._stop:
                self._next_grant()
                continue
            position = self._at
            assert self._seeker is not None
            try:
                item = self._seeker.item(position)
            except TooShortError:
                if self._length is not None:
                    raise
                self._found_end(position)
                continue
            self._at = position + 1
            here = self._taken
            if self._parts and (parts := self._parts.pop(position, None)) is not None:
                assert self._learn is not None
                self._learn(here, parts)
            self._positions[here] = position
            self._taken = here + 1
            self.fed += 1
            return item

    def _next_grant(self) -> None:
        if self._orders.empty():
            self.starved = True
            if self._tell is not None:
                self._tell()
        order = self._orders.get()
        self.starved = False
        if order is _Close:
            # For whoever asks again.
            self._orders.put(order)
            raise StopIteration
        if order is _Flush:
            raise StopIteration
        if isinstance(order, Begin):
            self._begin(order)
        elif isinstance(order, Grant):
            self._at, self._stop = order.start, order.stop
            for position, *path in order.parts:
                self._parts.setdefault(position, []).append(tuple(path))

    def _begin(self, begin: Begin) -> None:
        # Nothing is under way: a pass begins when all of the one before is delivered.
        self.epoch = begin.epoch
        if begin.state is not None and has_state(self._source):
            self._source.load_state_dict(begin.state)
        if self._seeker is not None:
            self._seeker.close()
        self._seeker = seeker_in(self._source, Leg(Pass(begin.epoch, 0, begin.state), [], None, False))  # noqa: FBT003

    def _found_end(self, position: int) -> None:
        self.end = position if self.end is None else min(self.end, position)
        self.fed += self._stop - position
        self._at = self._stop
