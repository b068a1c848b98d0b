"""The kinds of inputs that images are loaded from, and the errors of others."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.images import make_jpeg

from spdl.io import load_image, load_image_batch, to_numpy


def test_tensors_are_inputs() -> None:
    torch = pytest.importorskip("torch")
    data = make_jpeg()
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    np.testing.assert_array_equal(to_numpy(load_image(tensor)), to_numpy(load_image(data)))


def test_a_file_is_read_from_where_it_stands() -> None:
    file = io.BytesIO(b"header" + make_jpeg(20, 10))
    file.seek(6)
    assert load_image(file).shape == (10, 20, 3)


def test_a_text_file_is_refused() -> None:
    message = r"^`src` must be a file opened in binary mode, got <_io.StringIO.*\. Its read\(\) returned str\.$"
    with pytest.raises(TypeError, match=message):
        load_image(io.StringIO("text"))


@pytest.mark.parametrize("wrong", [None, 7, 1.5, object(), [b"data"]])
def test_anything_else_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^`src` must be a path.* or a binary file, got {re.escape(repr(wrong))} "):
        load_image(wrong)


def test_a_url_that_was_in_a_path_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"`path` must be a URL or a path, got 's3:/a/b.jpg'.*pathlib.Path takes a slash"
    ):
        load_image(Path("s3://a/b.jpg"))


@pytest.mark.parametrize("array", [np.zeros((4, 4), np.uint8), np.zeros(8, np.float32), np.zeros(8, np.int64)])
def test_arrays_must_be_flat_bytes(array: Any) -> None:
    with pytest.raises(TypeError, match=r"^`src` must be a one-dimensional array of single bytes, got"):
        load_image(array)


def test_gaps_between_bytes_are_refused() -> None:
    data = bytearray(16)
    for gaps in (np.frombuffer(data, np.uint8)[::2], memoryview(data)[::2], memoryview(data)[::-1]):
        with pytest.raises(TypeError, match=r"^`src` must be contiguous, got .*need a copy: pass bytes\(array\)\.$"):
            load_image(gaps)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with (tmp_path / "new").open("wb") as file, pytest.raises(io.UnsupportedOperation) as raised:
        load_image_batch([make_jpeg(), file], width=8, height=8)
    assert raised.value.__notes__ == ["spdl.io was reading `srcs[1]`"]


def test_bytes_are_read_in_place_and_released() -> None:
    data = bytearray(make_jpeg())
    load_image(data)
    data.clear()  # A BufferError here would mean that the bytes are still held.
    assert not data
