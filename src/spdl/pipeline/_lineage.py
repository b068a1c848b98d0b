"""Which source items are still under way: the record that makes delivery exact."""

from __future__ import annotations

from typing import TypeAlias

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["Group", "Lineage", "Root", "describe", "positions"]

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


Root: TypeAlias = int | Group


class Lineage:
    """The positions handed out by the source and not yet consumed.

    Its size is that of what is in flight, however long a straggler takes. Positions are added by the thread that
    pulls the source and discarded by the consumer; both are single operations on a set, so neither needs the
    engine's lock. Groups are counted under that lock.
    """

    __slots__ = ("open", "position")

    def __init__(self) -> None:
        self.position = 0
        self.open: set[int] = set()

    def admit(self) -> int:
        """Hand out the next position."""
        position = self.position
        self.position = position + 1
        self.open.add(position)
        return position

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
                    pending.extend(current.parents)
            else:
                self.open.discard(current)


def positions(root: Root) -> list[int]:
    """The source positions that ``root`` descends from, in the order they were merged."""
    found: dict[int, None] = {}
    pending: list[Root] = [root]
    while pending:
        current = pending.pop()
        if isinstance(current, Group):
            pending.extend(reversed(current.parents))
        else:
            found[current] = None
    return list(found)


def describe(root: Root) -> str:
    """Name the source items that ``root`` descends from, for a message."""
    found = positions(root)
    if len(found) == 1:
        return f"source item {found[0]}"
    shown = ", ".join(map(str, found[:_SHOWN]))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"source items {shown}{more}"
