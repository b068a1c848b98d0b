"""Test how arrays are pickled for an interpreter that has no numpy, and memoryviews for one that has."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

from spdl.pipeline._transport.array_views import reducers_from_interpreter, reducers_to_interpreter
from spdl.pipeline._transport.item_pickler import ItemPickler

# Interpreters are of later Pythons.
HALVES = pytest.param("f2", marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="memoryview has no halves"))
KINDS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", HALVES, "f4", "f8", "longlong", "ulonglong"]
BIG: Any = np.arange(6000.0).reshape(60, 100)


def pickled_with(item: Any, reducers: Any) -> tuple[bytes, list[bytearray]]:
    pickler = ItemPickler(reducers=reducers)
    try:
        pickler.pickle(item)
        return b"".join(pickler.pieces), [bytearray(it) for it in pickler.buffers]
    finally:
        # Whoever pickles does so: Python 3.11 crashes where the garbage collector finds a memoryview and its buffer.
        pickler.clear()


def cross(item: Any, reducers: Any) -> Any:
    """Return an item as the other side has it. As in a channel, its memory is writable."""
    pickled, buffers = pickled_with(item, reducers)
    return pickle.loads(pickled, buffers=buffers)  # noqa: S301 - from here.


def there_and_back(array: Any) -> tuple[memoryview, Any]:
    view = cross(array, reducers_to_interpreter)
    return view, cross(view, reducers_from_interpreter)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4), (2, 3, 400)])
def test_elements_and_shape_stay(kind: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)) % 100).astype(kind).reshape(shape)
    view, back = there_and_back(array)
    assert type(view) is memoryview
    assert not view.readonly
    assert view.shape == shape
    assert np.asarray(view).tolist() == array.tolist()
    assert type(back) is np.ndarray
    assert back.flags.writeable
    np.testing.assert_array_equal(back, array, strict=True)


@pytest.mark.parametrize(
    "array",
    [
        BIG.T,
        BIG[::2, ::-3],
        np.asfortranarray(BIG),
        np.broadcast_to(np.float32(3), (5, 900)),
        BIG.astype(">i4"),
        BIG[:2, :3].astype(">f4"),
    ],
    ids=["transposed", "gaps", "columns first", "repeated", "big-endian", "small and big-endian"],
)
def test_what_lies_otherwise_is_copied(array: Any) -> None:
    view, back = there_and_back(array)
    assert view.c_contiguous
    assert np.asarray(view).tolist() == array.tolist()
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("=")


def test_large_content_stays_out_of_the_pickle() -> None:
    for item, reducers in ((BIG, reducers_to_interpreter), (memoryview(BIG), reducers_from_interpreter)):
        pickled, buffers = pickled_with(("label", item), reducers)
        assert len(pickled) < 300
        assert buffers == [BIG.tobytes()]


def test_what_cannot_be_changed_here_can_be_changed_there() -> None:
    fixed = np.arange(4)
    fixed.flags.writeable = False
    view, back = there_and_back(fixed)
    view[0] = back[0] = 9
    array = cross(memoryview(b"abc"), reducers_from_interpreter)
    array += 1
    assert array.tobytes() == b"bcd"


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, complex),
        np.zeros(3, [("x", "i4"), ("y", "f4")]),
        np.zeros(3, "M8[s]"),
        np.array(["a"], object),
        np.zeros(3, "S3"),
        np.zeros(3, "U3"),
        np.zeros((0, 4)),
    ],
    ids=lambda it: str(it.dtype),
)
def test_other_arrays_are_refused_with_a_remedy(array: Any) -> None:
    with pytest.raises(TypeError, match=r"(another interpreter|between interpreters).*[Ss]end"):
        cross([array], reducers_to_interpreter)


def test_other_memoryviews_are_refused_with_a_remedy() -> None:
    with pytest.raises(TypeError, match=r"format 'c' cannot be sent.*memoryview.cast"):
        cross(memoryview(b"abc").cast("c"), reducers_from_interpreter)
