"""Items that pickle cannot fail with: many of them may cross as one pickle, in a tenth of the time."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["are_plain"]

# Immutable, or two items that share an object would share it at the other side, where they may be changed.
_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))


def are_plain(items: Collection[object]) -> bool:
    """Return whether all items are numbers, strings, bytes or None, or tuples of these. Subclasses are not."""
    kinds = set(map(type, items))
    if tuple in kinds:
        kinds.remove(tuple)
        kinds.update(map(type, chain.from_iterable(item for item in items if type(item) is tuple)))
    return kinds <= _PLAIN
