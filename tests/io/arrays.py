"""Helpers for the tests of arrays and archives: arrays of any kind, and how to compare and damage them."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

Array = np.ndarray[Any, Any]

_PLAIN = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(endianness="?"),
    hnp.datetime64_dtypes(endianness="?"),
    hnp.timedelta64_dtypes(endianness="?"),
    hnp.byte_string_dtypes(),
    hnp.unicode_string_dtypes(endianness="?"),
)

DTYPES = st.one_of(_PLAIN, hnp.array_dtypes(_PLAIN), hnp.nested_dtypes(_PLAIN, max_itemsize=200))
"""Types of every kind that is no Python object: both byte orders, text, times, records, records of arrays."""

_SHAPES = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5)


@st.composite
def any_array(draw: st.DrawFn, dtypes: st.SearchStrategy[np.dtype[Any]] = DTYPES) -> Array:
    """Make an array of any type, shape and layout, of bytes that mean nothing."""
    dtype = draw(dtypes)
    shape = draw(_SHAPES)
    # An array type would add to the shape.
    dtype = np.dtype([("field", dtype)]) if dtype.subdtype else dtype
    count = int(np.prod(shape, dtype=int))
    content = draw(st.binary(min_size=8, max_size=64))
    data = (content * (count * dtype.itemsize // len(content) + 1))[: count * dtype.itemsize]
    array = np.frombuffer(data, dtype=np.uint8).copy()
    made = np.ndarray(shape, dtype, buffer=array) if array.size else np.zeros(shape, dtype)
    if made.dtype.kind == "U":
        # Not every four bytes are a character.
        made = np.zeros(shape, dtype)
    layout = draw(st.sampled_from(["C", "F", "gaps", "reverse"]))
    if layout == "F":
        return np.asfortranarray(made)
    if layout == "gaps" and made.ndim:
        return np.repeat(made, 2, axis=0)[::2]
    if layout == "reverse" and made.ndim:
        return made[::-1]
    return made


def same(left: Array, right: Array) -> bool:
    """Return whether two arrays are the same, apart from their place in memory."""
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def as_npy(array: Array, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        # Versions that old numpy cannot read.
        warnings.simplefilter("ignore", UserWarning)
        np.lib.format.write_array(file, array, version)
    return file.getvalue()
