"""Finds the bytes of an item that are its own, and not a part of how an object is pickled."""

from __future__ import annotations

from typing import Any

__all__ = ["plain_leaves"]

_BYTES = (bytes, bytearray, memoryview)


def plain_leaves(item: Any) -> set[int]:
    """Return the ids of bytes, bytearrays and memoryviews in lists, tuples, dicts and dataclasses, however nested.

    Other objects give bytes to their pickle and take them back in code of their own, which accepts nothing else: an
    array with gaps is one.
    """
    found: set[int] = set()
    seen: set[int] = set()
    pending = [item]
    while pending:
        each = pending.pop()
        kind = type(each)
        if kind in _BYTES:
            found.add(id(each))
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
        return [getattr(each, name, None) for name in kind.__dataclass_fields__]
    return ()


def _is_pickled_by_its_fields(kind: Any) -> bool:
    own = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
    return all(getattr(kind, name, None) is getattr(object, name, None) for name in own)
