"""Which source items the objects in a user's queue stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdl.pipeline._lineage import Root

__all__ = ["Manifest"]


class Manifest:
    """What was put into a user's queue and has not come out.

    Users see their items alone, so where an item came from is looked up by its identity. Something that was never put
    in, such as a wrapped item, stands for the oldest that is still inside.
    """

    __slots__ = ("_inside",)

    def __init__(self) -> None:
        # By identity; the items are held as well, so that no identity is used twice.
        self._inside: dict[int, list[tuple[Root, Any]]] = {}

    def add(self, root: Root, item: Any) -> None:
        """Note what is put in."""
        self._inside.setdefault(id(item), []).append((root, item))

    def take(self, item: Any) -> Root | None:
        """Strike out what came out; None if nothing is inside."""
        key = id(item) if id(item) in self._inside else next(iter(self._inside), None)
        if key is None:
            return None
        entries = self._inside[key]
        root, _ = entries.pop(0)
        if not entries:
            del self._inside[key]
        return root

    def clear(self) -> list[tuple[Root, Any]]:
        """Strike out all that is inside, and return it, the oldest first."""
        left = [entry for entries in self._inside.values() for entry in entries]
        self._inside = {}
        return left
