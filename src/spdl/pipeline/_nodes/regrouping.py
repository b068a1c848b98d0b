"""Batches of an earlier run of which some results were delivered: they are made again of the same items."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spdl.pipeline._engine.groups import Root
    from spdl.pipeline._engine.records import Batch, Record, Restored

__all__ = ["HoldingBack", "Regrouped", "Regrouping", "Step", "made_again"]


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


def made_again(records: Iterable[Record | None]) -> Batch | None:
    """Return the batch of an earlier run that these records are those of the members of, if there is one."""
    batch: Batch | None = None
    place = -1
    # Most batches are none, and their first member shows it.
    for place, record in enumerate(records):
        member = None if record is None else record.member
        if member is None or member.place != place or member.batch is not (batch or member.batch):
            return None
        batch = member.batch
    return batch if batch is not None and place + 1 == batch.size else None


class Step(NamedTuple):
    """An item that an aggregator is given; with the record of its batch if it is the first of a batch."""

    root: Root
    value: Any
    record: Record | None = None


class HoldingBack(Regrouping):
    """The batches that an aggregator of the user's makes again: it gets their items first, batch by batch.

    It need not make those that are known to be lists of their items. Only an empty aggregator makes the same batch of
    the same items, so all others wait until then.
    """

    __slots__ = ("_aside", "_due")

    def __init__(self, restored: Restored) -> None:
        super().__init__(restored)
        # What belongs to no such batch, and what the aggregator is to be given now. None ends a batch.
        self._aside: deque[Step] = deque()
        self._due: deque[Step | Regrouped | None] = deque()

    def take(self, record: Record | None, root: Root, value: Any) -> Regrouped | None:
        """Take an item that has arrived, which may make others due."""
        found = super().take(record, root, value)
        if found is None:
            self._aside.append(Step(root, value))
        elif found.complete():
            self._give(found)
        if not self._restored.batches:
            self._give_aside()
        return found

    def _give(self, found: Regrouped) -> None:
        self.end(found)
        if found.batch.form is not None:
            self._due.append(found)
            return
        record: Record | None = found.batch.record
        for root, value in zip(found.roots(), found.values(), strict=True):
            self._due.append(Step(root, value, record))
            record = None
        self._due.append(None)

    def _give_aside(self) -> None:
        self._due += self._aside
        self._aside.clear()

    def release(self) -> bool:
        """Make all due that is held back, as no more comes. Return whether there was anything."""
        for found in self.begun():
            self._give(found)
        self._give_aside()
        return self.is_due()

    def is_due(self) -> bool:
        """Return whether the aggregator is to be given something."""
        return bool(self._due)

    def next_step(self) -> Step | Regrouped | None:
        """Return the next item that is due, or a batch that needs no aggregator; None at the end of another batch."""
        return self._due.popleft()

    def is_over(self) -> bool:
        """Return whether nothing is held back any more, nor will be."""
        return not (self._due or self._aside or self._begun or self._restored.batches)

    def let_go(self) -> list[Any]:
        """Forget the items, and return them."""
        items = [*self._due, *self._aside, *(value for found in self.begun() for value in found.values())]
        self._due.clear()
        self._aside.clear()
        self._begun.clear()
        return items
