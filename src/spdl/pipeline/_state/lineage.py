"""The record of source items that were handed out and are not consumed yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from spdl.pipeline._state.origins import (
    LISTED,
    AggregatorHistory,
    AggregatorResult,
    Gathering,
    Group,
    Result,
    Results,
    Root,
    ancestry,
    origins,
)
from spdl.pipeline._state.partial import Record, Restored

_SHOWN = 8  # Positions listed in a message before it says how many more there are.


class Progress(NamedTuple):
    """The position of the item that a source hands out next, and those below it that are out, in order."""

    position: int
    out: tuple[int, ...]


class Unconsumed(NamedTuple):
    """The items that are out at some moment.

    Attributes:
        roots: The roots of the positions, in order.
        results: The items whose results have been consumed only in part, and the numbers of the consumed ones.
        aggregated: Results of aggregators with leftovers that count as out although they may be consumed.
    """

    roots: list[int]
    results: list[tuple[Results, list[int]]]
    aggregated: list[AggregatorResult]


class Lineage:
    """The one owner of the set of positions that were handed out by the sources and are not consumed yet.

    The set is as large as the number of items in flight, however long a straggler takes. Positions are added by the
    thread that pulls the source and removed by the consumer; both are single operations on a set, so neither needs the
    engine's lock. Groups are counted under that lock.

    Attributes:
        histories: The results of aggregators with leftovers, of each in the order of the stages.
        deliver_position: Removes the position of a consumed item whose root is a plain position: see `deliver`.
        removable: The positions that the consumer may remove itself: all that are out, unless a node must be informed.
        in_hand: The roots of items that are on their way to the consumer, and of those that were lost there. They count
            as out, delivered or not. Each has its own key.
    """

    __slots__ = (
        "_following",
        "_forget_weight",
        "_gone",
        "_live",
        "_out",
        "deliver_position",
        "histories",
        "in_hand",
        "removable",
        "restored",
        "sources",
    )

    def __init__(self, sources: int = 1) -> None:
        # The item at a position of a source is `position * sources + source`, so that a root is a plain int.
        self.sources = sources
        self._following = list(range(sources))
        self._out: set[int] = set()
        self.deliver_position: Callable[[int], None] = self._out.discard
        self.removable = self._out
        self.in_hand: dict[object, Root] = {}
        self.histories: list[AggregatorHistory] = []
        # Items with several results that are not all consumed.
        self._live: dict[Results, None] = {}
        # Forgets the weight of an item that is out, if the pipeline has a budget.
        self._forget_weight: Callable[[Root], None] | None = None
        # Called with each position that is no longer out, if a callback is registered.
        self._gone: Callable[[int], None] | None = None
        # The records of an earlier run about items whose results were consumed in part.
        self.restored: Restored | None = None

    def watch(self, gone: Callable[[int], None]) -> None:
        """Register a callback for each position that is no longer out. Called before anything is admitted."""
        self._gone = gone
        self.deliver_position = self._consumed
        self.removable = set()

    def _consumed(self, root: int) -> None:
        self._out.discard(root)
        if self._gone is not None:
            self._gone(root)

    def tell_of_drops(self, forget_weight: Callable[[Root], None]) -> None:
        """Register a callback for each item that is dropped or delivered. Called before anything runs."""
        self._forget_weight = forget_weight

    # ---- the life of an item ----

    def admit(self, source: int) -> int:
        """Return the root of the next item of a source. Called by the thread that pulls it."""
        root = self._following[source]
        self._following[source] = root + self.sources
        self._out.add(root)
        return root

    def gather(self, roots: list[Root]) -> Group:
        return Group(roots, 1)

    def begin_history(self) -> AggregatorHistory:
        """Return what notes the results of one more aggregator with leftovers. Called when the stages are made."""
        self.histories.append(AggregatorHistory())
        return self.histories[-1]

    def split(self, root: Root, descendants: int) -> Group:
        """Return the root of the parts of an item; `descendants` of them will be put together again."""
        return Group([root], descendants)

    def expand(self, root: Root) -> Results:
        """Return the origin of an item's results, which `Results.next_result` counts. Called with the lock held."""
        return Results(root, self._live, self.record_of(root))

    def record_of(self, root: Root) -> Record | None:
        if self.restored is None:
            return None
        # A batch that was taken apart and put together again is the same item.
        while type(root) is Group and len(root.parents) == 1:
            root = root.parents[0]
        if isinstance(root, Result):
            record = root.results.record
            return None if record is None else record.results.get(root.number)
        if isinstance(root, Gathering):
            return root.record
        return None if isinstance(root, Group) else self.restored.roots.get(root)

    def deliver(self, root: Root) -> None:
        """Note that the consumer has taken an item. Called with the lock held, unless the root is a plain position."""
        if self._forget_weight is not None:
            self._forget(self._forget_weight, root)
        if not isinstance(root, Group):
            self.deliver_position(root)
            return
        pending: list[tuple[Group, int]] = [(root, 1)]
        if root.__class__ is Result and root.pending == 1:
            # The usual case of what is not a position: most of these have others beside them.
            results: Results = root.parents[0]  # type: ignore[assignment]
            if results.result_consumed(root.number):
                return
            pending = [(results, 0)]
        while pending:
            group, descendants = pending.pop()
            group.pending -= descendants
            if group.pending:
                continue
            group.consumed()
            for parent in group.parents:
                if isinstance(parent, Group):
                    pending.append((parent, 1))
                else:
                    self.deliver_position(parent)

    drop = deliver
    """Note that an item was dropped, has failed, or has no descendants left to come. Called with the lock held."""

    def _forget(self, forget: Callable[[Root], None], root: Root) -> None:
        forget(root)
        # The item that a generator was made of is gone with it, and what was gathered for a batch with that.
        if isinstance(root, (Results, Gathering)):
            for parent in root.parents:
                forget(parent)

    def restore(self, progress: Sequence[Progress], restored: Restored | None) -> None:
        """Begin at the state of an earlier run, before anything is admitted.

        The positions that were out there are out again, until they are handed out once more and consumed.
        """
        for source, (position, positions) in enumerate(progress):
            self._following[source] = position * self.sources + source
            self._out.update(out * self.sources + source for out in positions)
        self.restored = restored

    def begin_to_learn(self) -> Restored:
        """Return the record to which other processes report partly consumed items. Called before the start."""
        from spdl.pipeline._state.partial import Restored  # noqa: PLC0415 - few pipelines are told.

        if self.restored is None:
            self.restored = Restored([], [], self.sources)
        return self.restored

    # ---- looking at it ----

    def num_out(self) -> int:
        """Return how many source items are in flight. Needs no lock."""
        return len(self._out)

    def next_position(self, source: int) -> int:
        """Return the position of the item that a source hands out next. Needs no lock."""
        return self._following[source] // self.sources

    def is_out(self, root: int) -> bool:
        """Return whether a position is out. Needs no lock."""
        return root in self._out

    def lowest_out(self, source: int) -> int:
        """Return the lowest position of a source that is out, or else its next item's position. Needs no lock."""
        lowest = min([root for root in self._out.copy() if root % self.sources == source], default=None)
        return self.next_position(source) if lowest is None else lowest // self.sources

    def progress(self, roots: Iterable[int]) -> list[Progress]:
        """Return how far each source is consumed if these are out. Called with the lock held."""
        out: list[list[int]] = [[] for _ in range(self.sources)]
        for root in roots:
            out[root % self.sources].append(root // self.sources)
        return [
            Progress(following // self.sources, tuple(positions))
            for following, positions in zip(self._following, out, strict=True)
        ]

    def unconsumed(self) -> Unconsumed:
        """Return what is out. Called with the lock held."""
        # The consumer may remove positions in the meantime, which a copy made in one step does not mind.
        out = self._out.copy()
        undone: dict[Results, set[int]] = {}
        aggregated: list[AggregatorResult] = []
        for root in self.in_hand.copy().values():
            for each in ancestry(root):
                if not isinstance(each, Group):
                    out.add(each)
                elif isinstance(each, Result):
                    undone.setdefault(each.results, set()).add(each.number)
                elif isinstance(each, AggregatorResult):
                    aggregated.append(each)
        partial: list[tuple[Results, list[int]]] = []
        for results in self._live | dict.fromkeys(undone):
            without = undone.get(results, ())
            if results.is_begun() and (done := [number for number in results.done() if number not in without]):
                partial.append((results, done))
        return Unconsumed(sorted(out), partial, aggregated)

    def locate(self, root: Root) -> list[tuple[int, int]]:
        """Return the ``(source, position)`` pairs that ``root`` descends from, in order: `LISTED` at most."""
        return self._pairs(origins(root))

    def describe(self, root: Root) -> str:
        return describe(self._pairs(origins(root, LISTED + 1)), sources=self.sources)

    def _pairs(self, roots: Sequence[int]) -> list[tuple[int, int]]:
        return [(root % self.sources, root // self.sources) for root in roots]


def describe(origins: Sequence[tuple[int, int]], *, sources: int) -> str:
    """Name source items, given as ``(source, position)`` pairs, for a message.

    If there are more than `LISTED`, it says so without their number.
    """
    names = [
        str(position) if sources == 1 else f"{position} of source {source}" for source, position in origins[:_SHOWN]
    ]
    if not names:
        # A user's merge may make items.
        return "an item of no source"
    if len(origins) == 1:
        return f"source item {names[0]}"
    more = f" and {len(origins) - _SHOWN} more" if len(origins) > _SHOWN else ""
    if len(origins) > LISTED:
        more = f" and more than {LISTED - _SHOWN} more"
    return f"source items {', '.join(names)}{more}"
