"""The record of source items that were handed out and are not consumed yet."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from .position_set import PositionSet
from .runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .records import Record, Restored

__all__ = ["LISTED", "Gathering", "Group", "Lineage", "Progress", "Result", "Results", "Root", "describe"]

_SHOWN = 8  # Positions listed in a message before it says how many more there are.

# Positions of one item that a report lists. What an item was made of may be as long as the dataset.
LISTED = 1_000

# A gathering packs so many of its roots at a time: short work, since the engine's lock is held.
_PACKED_AT_ONCE = 64


class Group:
    """The origin of a batch, or of the several results of one item. `Lineage` makes and counts groups.

    A group is consumed when the last of its ``pending`` descendants is, and then each of its parents loses one
    descendant. Nesting groups keeps the cost of a release independent of how many items a batch holds.
    """

    # True if somebody is told when the group is consumed.
    observed: ClassVar[bool] = False
    # True if it is one item made of others, be it of a single one.
    is_gathered: ClassVar[bool] = False

    __slots__ = ("parents", "pending")

    def __init__(self, parents: list[Root], pending: int) -> None:
        self.parents = parents
        self.pending = pending

    def consumed(self) -> None:
        """Called with the engine's lock held when no descendant is left."""

    def packed(self) -> _Packed | None:
        """Return the parents that are not in the list, if there are any."""
        return None

    def origins(self) -> Iterator[Root]:
        """Yield all parents, the listed ones first."""
        yield from self.parents
        if (packed := self.packed()) is not None:
            yield from packed.roots()
            yield from packed.groups.copy()


class Results(Group):
    """The origin of the several results of one item. Each has a number, by which it is known again after a resume."""

    __slots__ = ("_live", "_skipped", "done", "made", "parents_of_each", "record")

    def __init__(self, root: Root, live: dict[Results, None], record: Record | None) -> None:
        # The op itself counts, until it has no more results.
        super().__init__([root], 1)
        # How many results there were so far, and which of them have been consumed.
        self.made = 0
        self.done: Runs | None = None
        # What is known from an earlier run, and the results that were consumed there.
        self.record = record
        self._skipped: list[tuple[int, int]] = []
        if record is not None:
            record.meet()
        if record is not None and record.done:
            self._skipped = record.done.pairs()[::-1]
            self.done = record.done.copy()
        self.parents_of_each: list[Root] = [self]
        self._live = live
        live[self] = None

    def next_result(self) -> Result | None:
        """Count one more result. Return its root, or None if it was consumed in an earlier run."""
        number = self.made
        self.made = number + 1
        if self._skipped and number >= self._skipped[-1][0]:
            if number + 1 == self._skipped[-1][1]:
                self._skipped.pop()
            return None
        self.pending += 1
        return Result(self.parents_of_each, number)

    def note_done(self, number: int) -> None:
        """Note that a result was consumed."""
        if self.done is None:
            self.done = Runs()
        self.done.add(number)

    def consumed(self) -> None:
        # It may have been packed as a whole before.
        self._live.pop(self, None)


class Result(Group):
    """One of the several results of one item."""

    __slots__ = ("number",)

    def __init__(self, parents: list[Root], number: int) -> None:
        self.parents = parents
        self.pending = 1
        self.number = number

    @property
    def results(self) -> Results:
        """All results of that item."""
        results = self.parents[0]
        assert isinstance(results, Results)
        return results

    def consumed(self) -> None:
        self.results.note_done(self.number)


class Gathering(Group):
    """The origin of an item that is made of any number of others, as an aggregator makes it.

    The first parents are in a list, in the order of their arrival. The others are packed, or a rare batch of millions
    would cost more memory than what it holds.
    """

    is_gathered = True

    __slots__ = ("_pack_at", "_packed", "record")

    def __init__(self, record: Record | None = None) -> None:
        super().__init__([], 1)
        self._packed: _Packed | None = None
        self._pack_at = LISTED + _PACKED_AT_ONCE
        # What is known of this batch from an earlier run.
        self.record = record

    def packed(self) -> _Packed | None:
        return self._packed

    def is_long(self) -> bool:
        """Return whether some parents should be packed now."""
        return len(self.parents) >= self._pack_at

    def unlist(self, packed: _Packed) -> list[Root]:
        """Take out of the list, and return, what goes into ``packed``."""
        self._packed = packed
        rest = self.parents[LISTED:]
        del self.parents[LISTED:]
        return rest

    def note_packed(self, packed: _Packed) -> None:
        """Note what is left to be looked at when parents are packed again."""
        # As many again: looking at all of them costs each new one a constant time.
        self._pack_at = LISTED + max(_PACKED_AT_ONCE, len(packed.groups))


Root: TypeAlias = int | Group


class _Packed:
    """Parents of a group in no order: the positions, how often each group occurs, and which results of an item."""

    __slots__ = ("groups", "positions", "results")

    def __init__(self, sources: int) -> None:
        self.positions = [PositionSet() for _ in range(sources)]
        self.groups: dict[Group, int] = {}
        # Which results of an item there are; how many is also in `groups`.
        self.results: dict[Results, Runs] = {}

    def __len__(self) -> int:
        return sum(map(len, self.positions))

    def roots(self) -> Iterator[int]:
        """Yield the roots of the positions."""
        sources = len(self.positions)
        for source, positions in enumerate(self.positions):
            yield from (position * sources + source for position in positions)

    def add(self, root: int) -> None:
        """Add a position, given as a root."""
        position, source = divmod(root, len(self.positions))
        self.positions[source].add(position)

    def add_groups(self, groups: Iterable[tuple[Group, int]]) -> None:
        """Add groups, each of which occurs so often."""
        for group, count in groups:
            self.groups[group] = self.groups.get(group, 0) + count

    def add_group(self, group: Group) -> None:
        """Add a group, or one of the results of an item."""
        if isinstance(group, Result):
            results = group.results
            self.results.setdefault(results, Runs()).add(group.number)
            group = results
        self.groups[group] = self.groups.get(group, 0) + 1

    def take_over(self, other: _Packed) -> None:
        """Add all of another's parents."""
        for mine, others in zip(self.positions, other.positions, strict=True):
            mine.take_over(others)
        self.add_groups(other.groups.items())
        for results, numbers in other.results.items():
            self.results.setdefault(results, Runs()).take_over(numbers)

    def pop_if_whole(self, group: Group) -> bool:
        """Take a group out if nothing descends from it but what is in here. Return whether that was so."""
        if group.observed or self.groups.get(group) != group.pending:
            return False
        if isinstance(group, Results):
            if group.done:
                # It must still be known which results are not in here.
                return False
            group.consumed()
            self.results.pop(group, None)
        del self.groups[group]
        return True

    def note_done(self) -> None:
        """Note that the results in here are consumed."""
        for results, numbers in self.results.items():
            for number in numbers:
                results.note_done(number)


class Progress(NamedTuple):
    """The part of one source's items that has been consumed.

    Attributes:
        position: The position of the item that the source hands out next.
        out: The positions below it that were handed out and are not consumed, in order.
    """

    position: int
    out: tuple[int, ...]


class Unconsumed(NamedTuple):
    """What is out at some moment.

    Attributes:
        roots: The roots of the positions, in order.
        results: The items of which some results have been consumed and others not, and the numbers of the former.
    """

    roots: list[int]
    results: list[tuple[Results, list[int]]]


class Lineage:
    """The one owner of the set of positions that were handed out by the sources and are not consumed yet.

    The size of the set is that of what is in flight, however long a straggler takes. Positions are added by the thread
    that pulls the source and removed by the consumer; both are single operations on a set, so neither needs the
    engine's lock. Groups are counted under that lock.

    Positions that a `Gathering` has packed are out, too, and in no other set: only that group leads to them.

    Attributes:
        sources: How many sources there are.
        deliver_position: Removes the position of an item that the consumer has taken, if its root is a plain position.
            It is the usual case, and all that such an item costs the consumer: elsewhere call `deliver`.
    """

    __slots__ = (
        "_following",
        "_live",
        "_lost",
        "_num_packed",
        "_out",
        "_packed",
        "_releasing",
        "deliver_position",
        "restored",
        "sources",
    )

    def __init__(self, sources: int = 1) -> None:
        # The item at a position of a source is `position * sources + source`, so that a root is a plain int.
        self.sources = sources
        self._following = list(range(sources))
        self._out: set[int] = set()
        self.deliver_position = self._out.discard
        # What gatherings have packed, as the keys, and how many positions that are.
        self._packed: dict[_Packed, None] = {}
        self._num_packed = 0
        # Items that have become several results, of which not all are consumed.
        self._live: dict[Results, None] = {}
        # The root that is being released: a signal handler may look in between.
        self._releasing: Root | None = None
        # The roots of items that were lost on their way to the consumer.
        self._lost: list[Root] = []
        # What is known from an earlier run of items whose results were consumed in part.
        self.restored: Restored | None = None

    # ---- the life of an item ----

    def admit(self, source: int) -> int:
        """Return the root of the next item of a source. Called by the thread that pulls it."""
        root = self._following[source]
        self._following[source] = root + self.sources
        self._out.add(root)
        return root

    def gather(self, roots: list[Root]) -> Group:
        """Return the root of one item that is made of several, which may be none."""
        return Group(roots, 1)

    def begin_gathering(self, record: Record | None = None) -> Gathering:
        """Return the root of one item that will be made of those whose roots are appended to its parents.

        Args:
            record: What is known of it from an earlier run.
        """
        return Gathering(record)

    def pack(self, gathering: Gathering) -> None:
        """Pack the roots behind the first ones. Called with the lock held."""
        packed = gathering.packed()
        if packed is None:
            packed = _Packed(self.sources)
            self._packed[packed] = None
        self._pack(packed, gathering.unlist(packed))
        # The positions of a group that ends up here as a whole need no group. It may have become whole meanwhile.
        pending = list(packed.groups)
        while pending:
            group = pending.pop()
            if not packed.pop_if_whole(group):
                continue
            self._pack(packed, group.parents)
            for parent in group.parents:
                if isinstance(parent, Group):
                    pending.append(parent.results if isinstance(parent, Result) else parent)
            if (others := group.packed()) is not None:
                packed.take_over(others)
                # In this order, for whoever looks meanwhile.
                del self._packed[others]
                pending += others.groups
        gathering.note_packed(packed)

    def _pack(self, packed: _Packed, roots: list[Root]) -> None:
        for root in roots:
            if isinstance(root, Group):
                packed.add_group(root)
            else:
                packed.add(root)
                # In this order: whoever looks meanwhile may count one position twice, and misses none.
                self._num_packed += 1
                self._out.discard(root)

    def split(self, root: Root, descendants: int) -> Group:
        """Return the root of the parts of an item, of which so many will be put together again."""
        return Group([root], descendants)

    def expand(self, root: Root) -> Results:
        """Return the origin of an item's results, which `Results.next_result` counts. Called with the lock held."""
        return Results(root, self._live, self.record_of(root))

    def record_of(self, root: Root) -> Record | None:
        """Return what is known of an item from an earlier run."""
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
        self._release(root)

    def drop(self, root: Root) -> None:
        """Note that an item was dropped, has failed, or has no descendants left to come. Called with the lock held."""
        self._release(root)

    def take_back(self, root: Root) -> None:
        """Note that an item was lost on its way to the consumer, whether or not it was delivered. Needs no lock.

        The end of an epoch is none.
        """
        if isinstance(root, (int, Group)):
            self._lost.append(root)

    def _release(self, root: Root) -> None:
        if not isinstance(root, Group):
            self._out.discard(root)
            return
        self._releasing = root
        pending: list[tuple[Group, int]] = [(root, 1)]
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
                    self._out.discard(parent)
            if (packed := group.packed()) is not None:
                packed.note_done()
                del self._packed[packed]
                self._num_packed -= len(packed)
                pending += packed.groups.items()
        self._releasing = None

    def restore(self, progress: Sequence[Progress], restored: Restored | None) -> None:
        """Begin where an earlier run was, before anything is admitted.

        The positions that were out there are out again, until they are handed out once more and consumed.
        """
        for source, (position, positions) in enumerate(progress):
            self._following[source] = position * self.sources + source
            self._out.update(out * self.sources + source for out in positions)
        self.restored = restored

    # ---- looking at it ----

    def num_out(self) -> int:
        """Return how many source items are in flight. Needs no lock."""
        return len(self._out) + self._num_packed

    def next_position(self, source: int) -> int:
        """Return the position of the item that a source hands out next. Needs no lock."""
        return self._following[source] // self.sources

    def is_out(self, root: int) -> bool:
        """Return whether a position is out, unless a gathering has packed it. Called with the lock held."""
        return root in self._out or bool(self._packed)

    def lowest_out(self, source: int) -> int:
        """Return the lowest position of a source that is out, or that of its next item. Needs no lock."""
        out = self._out.copy().union(*(packed.roots() for packed in list(self._packed)))
        return (
            min([root for root in out if root % self.sources == source], default=self._following[source])
            // self.sources
        )

    def snapshot(self) -> list[Progress]:
        """Return how far each source is consumed. Called with the lock held."""
        return self.progress(self.unconsumed().roots)

    def progress(self, roots: Iterable[int]) -> list[Progress]:
        """Return how far each source is consumed if these are out. Called with the lock held."""
        out: list[list[int]] = [[] for _ in range(self.sources)]
        for root in roots:
            out[root % self.sources].append(root // self.sources)
        return [
            Progress(following // self.sources, tuple(positions))
            for following, positions in zip(self._following, out, strict=True)
        ]

    def unconsumed(self, in_hand: Sequence[Root] = ()) -> Unconsumed:
        """Return what is out. Called with the lock held.

        Args:
            in_hand: The roots of items that are on their way to the consumer, delivered or not: they count as out.
        """
        # The consumer may remove positions meanwhile, which a copy made in one step does not mind.
        out = self._out.copy()
        for packed in self._packed:
            out.update(packed.roots())
        back = [*in_hand, *self._lost]
        if self._releasing is not None:
            # A signal handler has come between: the release has not happened, as far as that handler can see.
            back.append(self._releasing)
        undone: dict[Results, set[int]] = {}
        for root in back:
            for each in _walk(root):
                if isinstance(each, Result):
                    undone.setdefault(each.results, set()).add(each.number)
                elif not isinstance(each, Group):
                    out.add(each)
                elif (packed_in := each.packed()) is not None:
                    for results, numbers in packed_in.results.items():
                        undone.setdefault(results, set()).update(numbers)
        partial: list[tuple[Results, list[int]]] = []
        for results in self._live | dict.fromkeys(undone):
            if results.done:
                without = undone.get(results, ())
                numbers_done = [number for number in results.done if number not in without]
                if numbers_done:
                    partial.append((results, numbers_done))
        return Unconsumed(sorted(out), partial)

    def locate(self, root: Root) -> list[tuple[int, int]]:
        """Return the ``(source, position)`` pairs that ``root`` descends from, `LISTED` at most.

        They are in the order in which they were merged; an aggregator's beyond so many are sorted.
        """
        return self._pairs(_origins(root, LISTED))

    def describe(self, root: Root) -> str:
        """Name the source items that ``root`` descends from, for a message."""
        return describe(self._pairs(_origins(root, LISTED + 1)), sources=self.sources)

    def _pairs(self, origins: list[int]) -> list[tuple[int, int]]:
        return [(origin % self.sources, origin // self.sources) for origin in origins]


def _origins(root: Root, most: int) -> list[int]:
    """Return the positions that ``root`` descends from, but no more than so many."""
    return list(islice((origin for origin in _walk(root) if not isinstance(origin, Group)), most))


def _walk(root: Root) -> Iterator[Root]:
    """Yield a root and all that it descends from, each once."""
    # The items of a batch that was taken apart share one group, and so do those of a batch of such items. Each is
    # looked at once, or the work would be multiplied at each stage.
    seen: set[Root] = set()
    pending: list[Iterator[Root]] = [iter([root])]
    while pending:
        current = next(pending[-1], None)
        if current is None:
            pending.pop()
        elif current not in seen:
            seen.add(current)
            yield current
            if isinstance(current, Group):
                pending.append(current.origins())


def describe(origins: Sequence[tuple[int, int]], *, sources: int) -> str:
    """Name source items, given as ``(source, position)`` pairs, for a message.

    If there are more than `LISTED`, it says so without their number.
    """
    names = [
        str(position) if sources == 1 else f"{position} of source {source}" for source, position in origins[:_SHOWN]
    ]
    if not names:
        # A merge of the user's may make items.
        return "an item of no source"
    if len(origins) == 1:
        return f"source item {names[0]}"
    more = f" and {len(origins) - _SHOWN} more" if len(origins) > _SHOWN else ""
    if len(origins) > LISTED:
        more = f" and more than {LISTED - _SHOWN} more"
    return f"source items {', '.join(names)}{more}"
