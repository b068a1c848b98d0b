"""How many bytes an item keeps, as far as its type says."""

from __future__ import annotations

import sys
from array import array
from typing import Any

__all__ = ["weigh"]

# So many parts of an item are looked at. A list of more numbers than that weighs nothing, and one of more arrays is
# rare.
_MOST_PARTS = 10_000


def weigh(item: Any) -> int:  # noqa: C901 - one case for each kind.
    """Return how many bytes an item keeps: those of its arrays, tensors, buffers and strings.

    Lists, tuples, sets, dicts and dataclasses weigh what their parts do, each counted once. All else weighs 0, unless
    it has an int named ``nbytes`` among its own attributes. It runs no code of the user's, so it may be called with the
    engine's lock held: properties and ``__len__`` are not asked.
    """
    kind = type(item)
    if kind in _LENGTHS:
        return len(item)
    numpy: Any = sys.modules.get("numpy")
    ndarray = getattr(numpy, "ndarray", None)
    if ndarray is not None and kind is ndarray:
        return int(item.nbytes)
    torch: Any = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    total = 0
    seen: set[int] = set()
    pending = [item]
    while pending and len(seen) < _MOST_PARTS:
        part = pending.pop()
        kind = type(part)
        if kind in _WEIGHTLESS or id(part) in seen:
            continue
        seen.add(id(part))
        if kind in _LENGTHS:
            total += len(part)
        elif ndarray is not None and issubclass(kind, ndarray):
            # As the array itself says it, whatever a subclass makes of it.
            total += ndarray.nbytes.__get__(part)
        elif tensor is not None and issubclass(kind, tensor):
            with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - there is no other name for it.
                total += part.nbytes
        elif kind is memoryview or kind.__module__.startswith("spdl.io."):
            total += getattr(part, "nbytes", 0)
        elif issubclass(kind, array):
            total += array.buffer_info(part)[1] * part.itemsize
        else:
            pending += _parts(part, kind)
            if type(own := _attributes(part).get("nbytes")) is int:
                total += max(0, own)
    return total


_LENGTHS = frozenset([bytes, bytearray, str])
_WEIGHTLESS = frozenset([int, float, bool, complex, type(None)])


def _parts(item: Any, kind: type) -> list[Any]:
    for base, listed in _LISTED:
        if issubclass(kind, base):
            return list(listed(item))
    if "__dataclass_fields__" in vars(kind):
        fields = vars(kind)["__dataclass_fields__"]
        own = _attributes(item)
        # Those of a class with slots lie in descriptors that Python made.
        slots: list[Any] = [vars(each).get(name) for each in kind.__mro__ for name in fields if name not in own]
        made = [slot.__get__(item) for slot in slots if type(slot) is _SLOT and _is_set(slot, item)]
        return [own[name] for name in fields if name in own and name != "nbytes"] + made
    return []


def _attributes(item: Any) -> dict[str, Any]:
    try:
        own = object.__getattribute__(item, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}


def _is_set(slot: Any, item: Any) -> bool:
    try:
        slot.__get__(item)
    except AttributeError:
        return False
    return True


class _Slotted:
    __slots__ = ("slot",)


_SLOT = type(vars(_Slotted)["slot"])
# Copies that are made in one step: the user may change them meanwhile.
_LISTED: tuple[tuple[type, Any], ...] = (
    (list, lambda item: list.__getitem__(item, slice(None))),
    (tuple, lambda item: tuple.__getitem__(item, slice(None))),
    (dict, lambda item: list(dict.values(item))),
    (set, lambda item: list(set().union(item))),
    (frozenset, lambda item: list(set().union(item))),
)
