"""Batches of an earlier run of which some results were delivered: they are made again of the same items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdl.pipeline._engine.lineage import Root
    from spdl.pipeline._engine.records import Batch, Record, Restored

__all__ = ["Regrouped", "Regrouping"]


class Regrouped:
    """A batch that is made again, and those of its items that have arrived."""

    __slots__ = ("_entries", "batch")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._entries: dict[int, tuple[Root, Any]] = {}

    def add(self, index: int, root: Root, value: Any) -> None:
        """Take an item for its place in the batch."""
        self._entries[index] = root, value

    def complete(self) -> bool:
        """Return whether all items have arrived."""
        return len(self._entries) == self.batch.size

    def roots(self) -> list[Root]:
        """Return the roots of the items, in their order."""
        return [self._entries[index][0] for index in sorted(self._entries)]

    def values(self) -> list[Any]:
        """Return the items, in their order."""
        return [self._entries[index][1] for index in sorted(self._entries)]


class Regrouping:
    """The batches that one stage makes again. Guarded by the engine's lock."""

    __slots__ = ("_begun", "_restored")

    def __init__(self, restored: Restored) -> None:
        self._restored = restored
        self._begun: dict[Batch, Regrouped] = {}

    def take(self, record: Record | None, root: Root, value: Any) -> Regrouped | None:
        """Take an item for the batch that it belongs to, and return that; None if it belongs to none.

        Args:
            record: What is known of the item.
            root: Where it came from.
            value: The item.
        """
        if record is None or record.member is None:
            return None
        batch, index = record.member
        found = self._begun.get(batch)
        if found is None:
            found = self._begun[batch] = Regrouped(batch)
        found.add(index, root, value)
        return found

    def begun(self) -> list[Regrouped]:
        """Return the batches of which items have arrived."""
        return list(self._begun.values())

    def end(self, found: Regrouped) -> None:
        """Note that a batch was passed on."""
        del self._begun[found.batch]
        self._restored.made_again(found.batch)

    def is_over(self) -> bool:
        """Return whether no stage has a batch to make again."""
        return not self._restored.batches
