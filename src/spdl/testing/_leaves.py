"""What is in a batch, in a form that can be compared and counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["freeze", "leaves"]


def leaves(value: Any) -> Iterator[Hashable]:
    """Yield what a batch holds: the elements of lists and arrays, of lists of lists and so on.

    A dict, a tuple or a dataclass whose fields are lists or arrays of one length is a batch of records. Any other is
    one item, as are strings.
    """
    if type(value) is list:
        for element in value:
            yield from leaves(element)
    elif _is_array(value) and value.ndim:
        for element in value:
            yield freeze(element)
    elif (columns := _columns(value)) is not None:
        yield from zip(*(map(freeze, column) for column in columns), strict=True)
    else:
        yield freeze(value)


def _columns(value: Any) -> list[Any] | None:
    """Return the columns of a batch of records; None if it is none."""
    if isinstance(value, Mapping):
        columns = list(value.values())
    elif is_dataclass(value) and not isinstance(value, type):
        columns = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, tuple):
        columns = list(value)
    else:
        return None
    if not columns or not all(type(column) is list or (_is_array(column) and column.ndim) for column in columns):
        return None
    return columns if len({len(column) for column in columns}) == 1 else None


def freeze(value: Any) -> Hashable:  # noqa: PLR0911 - a line for each kind of value.
    """Return a hashable value that equals another one's exactly if the values are the same."""
    if _is_array(value):
        array = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        return str(array.dtype), tuple(array.shape), array.tobytes()
    if isinstance(value, Mapping):
        return "dict", tuple((freeze(key), freeze(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(map(freeze, value))
    if isinstance(value, set | frozenset):
        return "set", frozenset(map(freeze, value))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, tuple(freeze(getattr(value, field.name)) for field in fields(value))
    try:
        hash(value)
    except TypeError:
        return type(value).__name__, repr(value)
    # 1, 1.0 and True are equal, and a pipeline that confuses them is not exact.
    return value if isinstance(value, str) else (type(value).__name__, value)


def _is_array(value: object) -> bool:
    return all(hasattr(value, name) for name in ("dtype", "shape", "ndim", "__getitem__"))
