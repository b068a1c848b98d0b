"""Arrays on their way to other interpreters, where numpy cannot be imported: they arrive as memoryviews there.

Like `reducers`, this module imports numpy only where an array was sent or is to be made.
"""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

from .reducers import reducers

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["reducers_from_interpreter", "reducers_to_interpreter"]

# What the elements of a memoryview can be: booleans, integers and floats, as the machine has them.
_FORMATS = frozenset("?bBhHiIlLqQefd")
_NATIVE_KINDS = "biuf"


def reducers_to_interpreter(general: Mapping[type, Any]) -> dict[type, Any]:
    """Return a pickler's table of reducers, with which arrays arrive as memoryviews of the same shape and elements."""
    return _Arrays(general)


def reducers_from_interpreter(general: Mapping[type, Any]) -> dict[type, Any]:
    """Return a pickler's table of reducers, with which memoryviews arrive as numpy arrays."""
    table = reducers(general)
    table[memoryview] = _reduce_to_array
    return table


class _Arrays(dict[type, Any]):
    def __init__(self, general: Mapping[type, Any]) -> None:
        super().__init__()
        self._general = general
        self[memoryview] = _reduce_to_view

    def __missing__(self, kind: type) -> Any:
        # Compared by name, since a program that sends no arrays may not have imported it.
        if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
            self[kind] = _reduce_array
            return _reduce_array
        return self._general[kind]


def _reduce_array(array: Any) -> tuple[Any, ...]:
    dtype = array.dtype
    if dtype.kind not in _NATIVE_KINDS or dtype.char not in _FORMATS:
        raise TypeError(
            f"An array of {dtype} cannot be sent to another interpreter, where it would be a memoryview: the elements "
            "of those are booleans, integers, or floats of at most 64 bits. Send it as one of these, such as "
            "`array.view(float)` for complex numbers, or the fields of a structured array one by one."
        )
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    return _reduce_to_view(memoryview(array))


def _reduce_to_view(view: memoryview) -> tuple[Any, ...]:
    return _make_view, _parts(view)


def _reduce_to_array(view: memoryview) -> tuple[Any, ...]:
    return _make_array, _parts(view)


def _parts(view: memoryview) -> tuple[Any, str, tuple[int, ...]]:
    """Return the content of a memoryview, the format of its elements, and its shape."""
    kind = view.format.removeprefix("@")
    shape = tuple(view.shape or ())
    if kind not in _FORMATS:
        raise TypeError(
            f"A memoryview with elements of the format {view.format!r} cannot be sent between interpreters. Accepted "
            f"are {', '.join(sorted(_FORMATS))}; `memoryview.cast` makes such a one."
        )
    if len(shape) > 1 and not all(shape):
        raise TypeError(
            f"Nothing of the shape {shape} can be sent between interpreters: a memoryview of several dimensions cannot "
            "be empty. Send its shape instead."
        )
    # In order, without the gaps of a part of something.
    content: Any = view if view.c_contiguous else view.tobytes()
    return PickleBuffer(content), kind, shape


def _writable(content: Any) -> memoryview:
    """Return what has come: it is the receiver's own. What is short may come as bytes, which cannot be changed."""
    view = memoryview(content).cast("B")
    return memoryview(bytearray(view)) if view.readonly else view


def _make_view(content: Any, kind: str, shape: tuple[int, ...]) -> memoryview:
    # Its shape and format are not known to type checkers.
    whole: Any = _writable(content)
    view: memoryview = whole.cast(kind) if len(shape) == 1 else whole.cast(kind, shape)
    return view


def _make_array(content: Any, kind: str, shape: tuple[int, ...]) -> Any:
    import numpy as np  # noqa: PLC0415 - only arrays need it.

    return np.ndarray(shape, kind, _writable(content))
