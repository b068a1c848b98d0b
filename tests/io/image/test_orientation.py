"""exif=: pictures are turned upright as Pillow's exif_transpose does it, whoever decodes them."""

import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests.io.images import Array, encode, make_image

from spdl.io import decode_config, load_image_batch, to_numpy

ORIENTATION = 0x0112


def make(orientation: int, file_format: str = "JPEG", size: tuple[int, int] = (60, 41), **options: Any) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return encode(make_image(*size), file_format, exif=exif, **options)


def upright_with_pillow(data: bytes) -> Array:
    with Image.open(io.BytesIO(data)) as file:
        return np.asarray(ImageOps.exif_transpose(file).convert("RGB"))


AVIF = make(6, "AVIF", size=(30, 20))


def load(data: bytes, **keywords: Any) -> Array:
    array: Array = to_numpy(load_image_batch([data], **{"width": None, "height": None, "exif": True, **keywords}))[0]
    return array


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    ("file_format", "options"), [("JPEG", {"subsampling": "4:2:0"}), ("PNG", {}), ("WEBP", {"lossless": True})]
)
def test_each_orientation_in_each_format(file_format: str, options: dict[str, Any], orientation: int) -> None:
    data = make(orientation, file_format, **options)
    np.testing.assert_array_equal(load(data), upright_with_pillow(data))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_tiff_is_its_own_exif_data(orientation: int) -> None:
    image = make_image(60, 41)
    data = encode(image, "TIFF", tiffinfo={ORIENTATION: orientation})
    with Image.open(io.BytesIO(data)) as file:
        # Pillow turns TIFF files upright by itself.
        np.testing.assert_array_equal(load(data), np.asarray(file.convert("RGB")))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    ("file_format", "options"),
    [("PNG", {}), ("WEBP", {"lossless": True}), ("AVIF", {"quality": 95, "subsampling": "4:4:4"})],
)
def test_either_way_turns_what_ffmpeg_decodes(file_format: str, options: dict[str, Any], orientation: int) -> None:
    data = make(orientation, file_format, **options)
    expected = upright_with_pillow(data)
    for config in (None, decode_config(backend="ffmpeg")):
        pixels = load(data, decode_config=config)
        assert pixels.shape == expected.shape
        assert np.abs(pixels.astype(int) - expected).mean() < 1.0
    assert load(data, exif=False).shape == (41, 60, 3)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 330), st.integers(0, 12), st.binary(max_size=12))
def test_whatever_the_boxes_of_an_avif_say_nothing_else_happens(start: int, length: int, junk: bytes) -> None:
    damaged = AVIF[:start] + junk + AVIF[start + length :]
    try:
        pixels = load(damaged)
    except RuntimeError as error:
        assert str(error)  # noqa: PT017 - either outcome is right.
    else:
        assert pixels.ndim == 3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_ffmpeg_turns_them_too(orientation: int) -> None:
    data = make(orientation, subsampling="4:4:4", quality=98)
    theirs = load(data, decode_config=decode_config(backend="ffmpeg"))
    expected = upright_with_pillow(data)
    assert theirs.shape == expected.shape
    assert np.abs(theirs.astype(int) - expected).mean() < 1.0
    # FFmpeg's decoder with our own filters.
    mixed = load(data, decode_config=decode_config("mjpeg"))
    assert np.abs(mixed.astype(int) - expected).mean() < 1.0


def test_it_is_the_default_of_calls_that_name_a_mode() -> None:
    data = make(6)
    assert load_image_batch([data], width=None, height=None).shape == (1, 41, 60, 3)
    assert load_image_batch([data], width=None, height=None, mode="stretch").shape == (1, 60, 41, 3)
    assert load_image_batch([data], width=None, height=None, mode="stretch", exif=False).shape == (1, 41, 60, 3)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("kind", "code"), [(1, "B"), (3, "H"), (4, "I"), (6, "b"), (8, "h"), (9, "i")])
def test_integers_of_any_size_and_byte_order(order: str, kind: int, code: str) -> None:
    value = struct.pack(order + code, 6).ljust(4, b"\0")
    tiff = (b"II" if order == "<" else b"MM") + struct.pack(order + "HIHHHI", 42, 8, 1, ORIENTATION, kind, 1) + value
    data = encode(make_image(60, 41), exif=b"Exif\0\0" + tiff)
    assert load(data).shape == (60, 41, 3)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 200), st.integers(0, 200), st.binary(max_size=40))
def test_whatever_exif_data_says_the_picture_is_loaded(start: int, length: int, junk: bytes) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    whole = exif.tobytes()
    damaged = whole[:start] + junk + whole[start + length :]
    data = encode(make_image(30, 20), exif=b"Exif\0\0" + damaged)
    assert load(data).shape in {(20, 30, 3), (30, 20, 3)}


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_there_is_not_is_none(orientation: int) -> None:
    assert load(make(orientation)).shape == (41, 60, 3)
