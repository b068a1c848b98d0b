"""Maps the objects in a user's queue to the source items that they come from."""

from __future__ import annotations

from collections import deque
from sys import getsizeof
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

if TYPE_CHECKING:
    from spdl.pipeline._engine.groups import Root

__all__ = ["Inside", "Ledger", "Past"]


class Inside(NamedTuple):
    """An object that was put in and has not come out.

    Attributes:
        root: Its root.
        item: The object.
        epoch: How many epochs had ended when it was put in.
    """

    root: Root
    item: Any
    epoch: int


class Ledger:
    """The objects that were put into a user's queue and have not come out.

    User code sees only the items, so an item's root is looked up by its identity. An object that was never put in, such
    as a wrapped item, stands for the oldest object that is still inside.
    """

    __slots__ = ("_inside", "epochs")

    def __init__(self) -> None:
        # How many ends of epochs were put in.
        self.epochs = 0
        # By identity. The items are held as well, so that no identity is used twice.
        self._inside: dict[int, list[Inside]] = {}

    def __bool__(self) -> bool:
        return bool(self._inside)

    def __contains__(self, item: object) -> bool:
        return id(item) in self._inside

    def end_epoch(self) -> None:
        """Note that the end of an epoch is put in."""
        self.epochs += 1

    def add(self, root: Root, item: Any) -> None:
        """Note an object that is put in."""
        self._inside.setdefault(id(item), []).append(Inside(root, item, self.epochs))

    def take(self, item: Any) -> Inside | None:
        """Remove and return the entry of an object that came out; None if nothing is inside."""
        key = id(item) if item in self else next(iter(self._inside), None)
        if key is None:
            return None
        entries = self._inside[key]
        taken = entries.pop(0)
        if not entries:
            del self._inside[key]
        return taken

    def clear(self) -> list[Inside]:
        """Remove and return all entries, oldest first."""
        left = [entry for entries in self._inside.values() for entry in entries]
        self._inside = {}
        return left


# How many objects are recognised. Small objects are held, and others referred to weakly. Of those that allow no weak
# reference, only the last one is held.
_KNOWN = 1024
_SMALL = 256
_ATOMS = (int, float, complex, str, bytes, bool)


class _Known(NamedTuple):
    # The object itself if it is a small atom.
    reference: object
    root: Root
    number: int


class Past:
    """Objects that came out of a queue unchanged, as far as they can be recognised without being kept alive."""

    __slots__ = ("_known", "_last", "_number", "_order")

    def __init__(self) -> None:
        # The objects by identity; then their keys and numbers, oldest first.
        self._known: dict[int, _Known] = {}
        self._order: deque[tuple[int, int]] = deque()
        self._number = 0
        self._last: tuple[Any, Root] | None = None

    def add(self, item: Any, root: Root) -> None:
        """Note an object that came out."""
        key, known = id(item), self._known
        reference: object = item
        if type(item) not in _ATOMS or getsizeof(item) > _SMALL:
            try:
                # An identity may be used again as soon as its object is gone.
                reference = ref(item, lambda _: known.pop(key, None))
            except TypeError:  # Lists, for example, allow no weak reference.
                self._last = item, root
                return
        self._number += 1
        known[key] = _Known(reference, root, self._number)
        self._order.append((key, self._number))
        if len(self._order) > _KNOWN:
            oldest, number = self._order.popleft()
            # The entry may be newer: the object, or another one with its identity, may have come out since.
            found = known.get(oldest)
            if found is not None and found.number == number:
                known.pop(oldest, None)

    def root_of(self, item: Any) -> Root | None:
        """Return the root of an object that came out before; None if it is not recognised."""
        known = self._known.get(id(item))
        if known is not None:
            return known.root
        if self._last is not None and self._last[0] is item:
            return self._last[1]
        return None
