"""What may be given as an encoded image."""

import io
from typing import Any

import numpy as np
import pytest

from spdl.io import load_image, to_numpy
from tests.io.images import make_jpeg


def test_tensors_are_sources() -> None:
    torch = pytest.importorskip("torch")
    data = make_jpeg()
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    np.testing.assert_array_equal(to_numpy(load_image(tensor)), to_numpy(load_image(data)))


def test_a_file_is_read_from_where_it_stands() -> None:
    file = io.BytesIO(b"header" + make_jpeg(20, 10))
    file.seek(6)
    assert load_image(file).shape == (10, 20, 3)


def test_a_text_file_is_refused() -> None:
    with pytest.raises(TypeError, match=r"binary mode: read\(\) returned str"):
        load_image(io.StringIO("text"))


@pytest.mark.parametrize("wrong", [None, 7, 1.5, object(), [b"data"]])
def test_anything_else_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"an image source must be a path.*got {type(wrong).__name__}"):
        load_image(wrong)


@pytest.mark.parametrize("array", [np.zeros((4, 4), np.uint8), np.zeros(8, np.float32), np.zeros(8, np.int64)])
def test_arrays_must_be_flat_bytes(array: Any) -> None:
    with pytest.raises(TypeError, match="one-dimensional arrays of single bytes, got"):
        load_image(array)


def test_gaps_between_bytes_are_refused() -> None:
    with pytest.raises((TypeError, BufferError, ValueError)):
        load_image(np.zeros(16, np.uint8)[::2])


def test_bytes_are_read_in_place_and_released() -> None:
    data = bytearray(make_jpeg())
    load_image(data)
    data.clear()  # A BufferError here would mean that the bytes are still held.
    assert not data
