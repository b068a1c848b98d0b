"""Finds the bytes of an item that are its own, and not a part of how an object is pickled."""

from __future__ import annotations

from collections import Counter
from typing import Any

__all__ = ["plain_leaves"]

_BYTES = (bytes, bytearray, memoryview)


def plain_leaves(item: Any) -> Counter[int]:
    """Count the places of bytes, bytearrays and memoryviews in lists, tuples, dicts and dataclasses, however nested.

    The ids are the keys. Pickling meets each place once, since it remembers the lists and the like that it has met. If
    it meets some bytes more often than that, the same object stands elsewhere, too.

    Other objects give bytes to their pickle and take them back in code of their own, which accepts nothing else: an
    array with gaps is one.
    """
    found: Counter[int] = Counter()
    seen: set[int] = set()
    pending = [item]
    while pending:
        each = pending.pop()
        kind = type(each)
        if kind in _BYTES:
            found[id(each)] += 1
        elif (parts := _parts(each, kind)) and id(each) not in seen:
            seen.add(id(each))
            pending.extend(parts)
    return found


def _parts(each: Any, kind: type) -> Any:
    if kind is list or kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return each
    if kind is dict:
        return each.values()
    if hasattr(kind, "__dataclass_fields__") and _is_pickled_by_its_fields(kind):
        # A class may have defaults, which are not pickled.
        known = vars(each) if hasattr(each, "__dict__") else None
        return [getattr(each, name, None) for name in kind.__dataclass_fields__ if known is None or name in known]
    return ()


def _is_pickled_by_its_fields(kind: Any) -> bool:
    own = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
    return all(getattr(kind, name, None) is getattr(object, name, None) for name in own)
