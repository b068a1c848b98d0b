"""Which source items are still under way: the record that makes delivery exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["Group", "Lineage", "Root", "describe"]

_SHOWN = 8  # Positions listed in a message before it says how many more there are.


class Group:
    """The origin of a batch, or of the several results of one item.

    A group is consumed when the last of its ``pending`` descendants is, and then each of its parents loses one
    descendant. Nesting groups keeps the cost of a release independent of how many items a batch holds.
    """

    __slots__ = ("parents", "pending")

    def __init__(self, parents: list[Root], pending: int) -> None:
        self.parents = parents
        self.pending = pending

    def consumed(self) -> None:
        """Learn that no descendant is left. Called with the engine's lock held."""


Root: TypeAlias = int | Group


class Lineage:
    """The positions handed out by the source and not yet consumed.

    Its size is that of what is in flight, however long a straggler takes. Positions are added by the thread that
    pulls the source and discarded by the consumer; both are single operations on a set, so neither needs the
    engine's lock. Groups are counted under that lock.
    """

    __slots__ = ("open", "sources")

    def __init__(self, sources: int = 1) -> None:
        # The item at a position of a source is `position * sources + source`, so that a root is a plain int.
        self.sources = sources
        self.open: set[int] = set()

    def locate(self, root: Root) -> list[tuple[int, int]]:
        """The ``(source, position)`` pairs that ``root`` descends from, in the order they were merged."""
        return [(origin % self.sources, origin // self.sources) for origin in _origins(root)]

    def release(self, root: Root) -> None:
        """Take one descendant from ``root``: it was delivered, dropped or failed."""
        if root.__class__ is int:
            self.open.discard(root)
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
                self.open.discard(current)


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
