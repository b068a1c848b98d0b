"""The record of source items that were handed out and are not consumed yet."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from .position_set import PositionSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["LISTED", "Gathering", "Group", "Lineage", "Progress", "Root", "describe"]

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


class Gathering(Group):
    """The origin of an item that is made of any number of others, as an aggregator makes it.

    The first parents are in a list, in the order of their arrival. The others are packed, or a rare batch of millions
    would cost more memory than what it holds.
    """

    __slots__ = ("_pack_at", "_packed")

    def __init__(self) -> None:
        super().__init__([], 1)
        self._packed: _Packed | None = None
        self._pack_at = LISTED + _PACKED_AT_ONCE

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
    """Parents of a group in no order: the positions, and how often each group occurs."""

    __slots__ = ("groups", "positions")

    def __init__(self, sources: int) -> None:
        self.positions = [PositionSet() for _ in range(sources)]
        self.groups: dict[Group, int] = {}

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

    def take_over(self, other: _Packed) -> None:
        """Add all of another's parents."""
        for mine, others in zip(self.positions, other.positions, strict=True):
            mine.take_over(others)
        self.add_groups(other.groups.items())

    def pop_if_whole(self, group: Group) -> bool:
        """Take a group out if nothing descends from it but what is in here. Return whether that was so."""
        if group.observed or self.groups.get(group) != group.pending:
            return False
        del self.groups[group]
        return True


class Progress(NamedTuple):
    """The part of one source's items that has been consumed.

    Attributes:
        position: The position of the item that the source hands out next.
        out: The positions below it that were handed out and are not consumed, in order.
    """

    position: int
    out: tuple[int, ...]


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

    __slots__ = ("_following", "_num_packed", "_out", "_packed", "deliver_position", "sources")

    def __init__(self, sources: int = 1) -> None:
        # The item at a position of a source is `position * sources + source`, so that a root is a plain int.
        self.sources = sources
        self._following = list(range(sources))
        self._out: set[int] = set()
        self.deliver_position = self._out.discard
        # What gatherings have packed, as the keys, and how many positions that are.
        self._packed: dict[_Packed, None] = {}
        self._num_packed = 0

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

    def begin_gathering(self) -> Gathering:
        """Return the root of one item that will be made of those whose roots are appended to its parents."""
        return Gathering()

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
            pending += (parent for parent in group.parents if isinstance(parent, Group))
            if (others := group.packed()) is not None:
                del self._packed[others]
                packed.take_over(others)
                pending += others.groups
        gathering.note_packed(packed)

    def _pack(self, packed: _Packed, roots: list[Root]) -> None:
        for root in roots:
            if isinstance(root, Group):
                packed.add_groups([(root, 1)])
            else:
                packed.add(root)
                # In this order: whoever looks meanwhile may count one position twice, and misses none.
                self._num_packed += 1
                self._out.discard(root)

    def split(self, root: Root, descendants: int = 1) -> Group:
        """Return the root of what an item becomes: of so many descendants, to which `branch` adds others."""
        return Group([root], descendants)

    def branch(self, group: Group) -> None:
        """Count one more descendant. Called with the lock held."""
        group.pending += 1

    def deliver(self, root: Root) -> None:
        """Note that the consumer has taken an item. Called with the lock held, unless the root is a plain position."""
        self._release(root)

    def drop(self, root: Root) -> None:
        """Note that an item was dropped, has failed, or has no descendants left to come. Called with the lock held."""
        self._release(root)

    def _release(self, root: Root) -> None:
        if not isinstance(root, Group):
            self._out.discard(root)
            return
        pending = [(root, 1)]
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
                del self._packed[packed]
                self._num_packed -= len(packed)
                pending += packed.groups.items()

    # ---- looking at it ----

    def num_out(self) -> int:
        """Return how many source items are in flight. Needs no lock."""
        return len(self._out) + self._num_packed

    def snapshot(self) -> list[Progress]:
        """Return how far each source is consumed. Called with the lock held."""
        out: list[list[int]] = [[] for _ in range(self.sources)]
        # The consumer may remove positions meanwhile, which a copy made in one step does not mind.
        for root in sorted(self._out.copy().union(*(packed.roots() for packed in self._packed))):
            out[root % self.sources].append(root // self.sources)
        return [
            Progress(following // self.sources, tuple(positions))
            for following, positions in zip(self._following, out, strict=True)
        ]

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
    # The items of a batch that was taken apart share one group, and so do those of a batch of such items. Each is
    # looked at once, or the work would be multiplied at each stage.
    seen: set[Root] = set()

    def walk() -> Iterator[int]:
        pending: list[Iterator[Root]] = [iter([root])]
        while pending:
            current = next(pending[-1], None)
            if current is None:
                pending.pop()
            elif current not in seen:
                seen.add(current)
                if isinstance(current, Group):
                    pending.append(current.origins())
                else:
                    yield current

    return list(islice(walk(), most))


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
