"""Parts of pictures of 61x43 pixels: a crop, of which no more is decoded, has the pixels of the whole."""

import numpy as np
from hypothesis import strategies as st
from tests.io.images import Array

from spdl.io import load_image_batch, to_numpy

Ends = tuple[int, int, int, int]

ENDS = st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 42), st.integers(0, 42))
"""The first and the last column, in any order, and the first and the last row."""


def assert_part(data: bytes, ends: Ends, whole: Array) -> None:
    (left, right), (top, bottom) = sorted(ends[:2]), sorted(ends[2:])
    right, bottom = right + 1, bottom + 1
    part = to_numpy(load_image_batch([data], width=None, height=None, crop=[(left, top, right, bottom)]))[0]
    np.testing.assert_array_equal(part, whole[top:bottom, left:right])
