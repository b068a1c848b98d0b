"""The record of source items that were handed out and are not consumed yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Group", "Lineage", "Progress", "Root", "describe"]

_SHOWN = 8  # Positions listed in a message before it says how many more there are.


class Group:
    """The origin of a batch, or of the several results of one item. `Lineage` makes and counts groups.

    A group is consumed when the last of its ``pending`` descendants is, and then each of its parents loses one
    descendant. Nesting groups keeps the cost of a release independent of how many items a batch holds.
    """

    __slots__ = ("parents", "pending")

    def __init__(self, parents: list[Root], pending: int) -> None:
        self.parents = parents
        self.pending = pending

    def consumed(self) -> None:
        """Called with the engine's lock held when no descendant is left."""


Root: TypeAlias = int | Group


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

    Attributes:
        sources: How many sources there are.
        deliver_position: Removes the position of an item that the consumer has taken, if its root is a plain position.
            It is the usual case, and all that such an item costs the consumer: elsewhere call `deliver`.
    """

    __slots__ = ("_following", "_out", "deliver_position", "sources")

    def __init__(self, sources: int = 1) -> None:
        # The item at a position of a source is `position * sources + source`, so that a root is a plain int.
        self.sources = sources
        self._following = list(range(sources))
        self._out: set[int] = set()
        self.deliver_position = self._out.discard

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
        if root.__class__ is int:
            self._out.discard(root)
            return
        pending = [root]
        while pending:
            current = pending.pop()
            if isinstance(current, Group):
                current.pending -= 1
                if not current.pending:
                    current.consumed()
                    pending.extend(current.parents)
            else:
                self._out.discard(current)

    # ---- looking at it ----

    def num_out(self) -> int:
        """Return how many source items are in flight. Needs no lock."""
        return len(self._out)

    def snapshot(self) -> list[Progress]:
        """Return how far each source is consumed. Called with the lock held."""
        out: list[list[int]] = [[] for _ in range(self.sources)]
        # The consumer may remove positions meanwhile, which a copy made in one step does not mind.
        for root in sorted(self._out.copy()):
            out[root % self.sources].append(root // self.sources)
        return [
            Progress(following // self.sources, tuple(positions))
            for following, positions in zip(self._following, out, strict=True)
        ]

    def locate(self, root: Root) -> list[tuple[int, int]]:
        """Return the ``(source, position)`` pairs that ``root`` descends from, in the order they were merged."""
        return [(origin % self.sources, origin // self.sources) for origin in _origins(root)]

    def describe(self, root: Root) -> str:
        """Name the source items that ``root`` descends from, for a message."""
        return describe(self.locate(root), sources=self.sources)


def _origins(root: Root) -> list[int]:
    found: dict[int, None] = {}
    pending: list[Root] = [root]
    while pending:
        current = pending.pop()
        if isinstance(current, Group):
            pending.extend(reversed(current.parents))
        else:
            found[current] = None
    return list(found)


def describe(origins: Sequence[tuple[int, int]], *, sources: int) -> str:
    """Name source items, given as ``(source, position)`` pairs, for a message."""
    names = [str(position) if sources == 1 else f"{position} of source {source}" for source, position in origins]
    if not names:
        # A merge of the user's may make items.
        return "an item of no source"
    if len(names) == 1:
        return f"source item {names[0]}"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"source items {', '.join(names[:_SHOWN])}{more}"
