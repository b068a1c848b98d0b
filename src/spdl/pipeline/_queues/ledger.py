"""Which source items the objects in a user's queue stand for."""

from __future__ import annotations

from collections import deque
from sys import getsizeof
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

if TYPE_CHECKING:
    from spdl.pipeline._engine.lineage import Root

__all__ = ["Inside", "Ledger", "Past"]


class Inside(NamedTuple):
    """What was put in and has not come out.

    Attributes:
        root: Where it came from.
        item: The object.
        epoch: How many epochs had ended when it was put in.
    """

    root: Root
    item: Any
    epoch: int


class Ledger:
    """What was put into a user's queue and has not come out.

    Users see their items alone, so where an item came from is looked up by its identity. Something that was never put
    in, such as a wrapped item, stands for the oldest that is still inside.
    """

    __slots__ = ("_inside", "epochs")

    def __init__(self) -> None:
        # How many epochs have ended on the way in.
        self.epochs = 0
        # By identity; the items are held as well, so that no identity is used twice.
        self._inside: dict[int, list[Inside]] = {}

    def __bool__(self) -> bool:
        return bool(self._inside)

    def __contains__(self, item: object) -> bool:
        return id(item) in self._inside

    def end_epoch(self) -> None:
        """Note that an epoch has ended on the way in."""
        self.epochs += 1

    def add(self, root: Root, item: Any) -> None:
        """Note an object that is put in."""
        self._inside.setdefault(id(item), []).append(Inside(root, item, self.epochs))

    def take(self, item: Any) -> Inside | None:
        """Strike out what came out; None if nothing is inside."""
        key = id(item) if item in self else next(iter(self._inside), None)
        if key is None:
            return None
        entries = self._inside[key]
        taken = entries.pop(0)
        if not entries:
            del self._inside[key]
        return taken

    def clear(self) -> list[Inside]:
        """Strike out all that is inside, and return it, the oldest first."""
        left = [entry for entries in self._inside.values() for entry in entries]
        self._inside = {}
        return left


# So many are known again. Small ones are held; of what is neither small nor can be referred to weakly, the last one is.
_KNOWN = 1024
_SMALL = 256
_ATOMS = (int, float, complex, str, bytes, bool)


class _Known(NamedTuple):
    # The object itself if it is a small atom.
    reference: object
    root: Root
    number: int


class Past:
    """What came out of a queue just as it was put in, as far as it can be known again without being kept alive."""

    __slots__ = ("_known", "_last", "_number", "_order")

    def __init__(self) -> None:
        # By identity, and their keys and numbers from the oldest on.
        self._known: dict[int, _Known] = {}
        self._order: deque[tuple[int, int]] = deque()
        self._number = 0
        self._last: tuple[Any, Root] | None = None

    def add(self, item: Any, root: Root) -> None:
        """Note what came out."""
        key, known = id(item), self._known
        reference: object = item
        if type(item) not in _ATOMS or getsizeof(item) > _SMALL:
            try:
                # An identity may be used again as soon as its object is gone.
                reference = ref(item, lambda _: known.pop(key, None))
            except TypeError:  # A list, say.
                self._last = item, root
                return
        self._number += 1
        known[key] = _Known(reference, root, self._number)
        self._order.append((key, self._number))
        if len(self._order) > _KNOWN:
            oldest, number = self._order.popleft()
            # It may have come out again since, or another object with its identity.
            found = known.get(oldest)
            if found is not None and found.number == number:
                known.pop(oldest, None)

    def root_of(self, item: Any) -> Root | None:
        """Where something came from that came out before; None if it is not known to have."""
        known = self._known.get(id(item))
        if known is not None:
            return known.root
        if self._last is not None and self._last[0] is item:
            return self._last[1]
        return None
