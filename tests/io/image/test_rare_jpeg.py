"""JPEGs that are lossless, of more than 8 bits, or of arithmetic codes: every call reads them, and alike."""

from typing import Any

import numpy as np
import pytest
from tests.io.image_files import AnyArray
from tests.io.images import Array, decode_with_pillow
from tests.io.jpeg_files import ARITHMETIC, flat_jpeg, lossless_jpeg

from spdl.io import demux_image, load_image, load_image_batch, to_numpy

BOX = (3, 2, 17, 13)


def picture(bits: int, channels: int) -> AnyArray:
    rng = np.random.default_rng(bits)
    y, x, channel = np.ogrid[:15, :20, :channels]
    slope = (x * 5 + y * (7 + channel)) << bits >> 8
    samples: AnyArray = (slope + rng.integers(0, 1 << bits, (15, 20, channels)) * (x > 12)) % (1 << bits)
    return samples


def stored(samples: AnyArray, bits: int) -> AnyArray:
    """Return samples as arrays have them: 8 bits, or 16 if they are more. White is white."""
    kind: Any = np.uint8 if bits <= 8 else np.uint16
    levels: AnyArray = np.rint(samples * (float(np.iinfo(kind).max) / ((1 << bits) - 1))).astype(kind)
    return levels


def assert_alike(data: bytes, rgb: AnyArray, whole: AnyArray) -> None:
    """Compare all calls with the picture as 8-bit RGB, and as it is stored."""
    gray = (rgb @ np.array([19595, 38470, 7471]) + 0x8000 >> 16).astype(np.uint8)[..., np.newaxis]
    height, width = rgb.shape[:2]
    left, top, right, bottom = BOX
    for expected, keywords in ((rgb, {}), (gray, {"pix_fmt": "gray"}), (rgb[..., ::-1], {"pix_fmt": "bgr24"})):
        batch: Any = {"width": width, "height": height, "mode": "stretch", **keywords}
        np.testing.assert_array_equal(to_numpy(load_image_batch([data], **batch))[0], expected)
        np.testing.assert_array_equal(to_numpy(load_image_batch([data], exact=False, **batch))[0], expected)
        batch |= {"width": right - left, "height": bottom - top, "crop": [BOX]}
        np.testing.assert_array_equal(to_numpy(load_image_batch([data], **batch))[0], expected[top:bottom, left:right])
    np.testing.assert_array_equal(load(data), rgb)
    np.testing.assert_array_equal(load(data, filter_desc=None), whole)
    np.testing.assert_array_equal(load(data, filter_desc="vflip"), whole[::-1])
    assert load_image(data, filter_desc=None).backends == ("libjpeg-turbo",)
    small = to_numpy(load_image_batch([data], width=5, height=4, mode="stretch"))[0]
    near = to_numpy(load_image_batch([data], width=5, height=4, mode="stretch", exact=False))[0]
    np.testing.assert_array_equal(near, small)


def load(data: bytes, **keywords: Any) -> Array:
    array: Array = to_numpy(load_image(data, **keywords))
    return array


@pytest.mark.parametrize("predictor", range(1, 8))
@pytest.mark.parametrize("channels", [1, 3])
def test_every_predictor(channels: int, predictor: int) -> None:
    samples = picture(8, channels)
    data = lossless_jpeg(samples, predictor=predictor)
    rgb = np.broadcast_to(samples, (15, 20, 3))
    np.testing.assert_array_equal(np.asarray(decode_with_pillow(data)), rgb)
    assert_alike(data, rgb, stored(samples, 8))
    np.testing.assert_array_equal(load(data, filter_desc="format=rgba")[..., :3], rgb)


@pytest.mark.parametrize("bits", range(2, 17))
@pytest.mark.parametrize("channels", [1, 3])
def test_every_depth(channels: int, bits: int) -> None:
    samples = picture(bits, channels)
    samples[:2, :2] = [0], [(1 << bits) - 1]
    data = lossless_jpeg(samples, bits)
    rgb = np.broadcast_to(samples >> (bits - 8) if bits >= 8 else stored(samples, bits), (15, 20, 3))
    assert load(data).max() == 255
    assert_alike(data, rgb, stored(samples, bits))
    assert demux_image(data).pix_fmt == {1: "gray", 3: "rgb24"}[channels] if bits <= 8 else True


def test_inks() -> None:
    samples = picture(8, 4)
    data = lossless_jpeg(samples)
    expected = np.asarray(decode_with_pillow(data))
    assert_alike(data, expected, expected)


def test_12_bits_with_a_loss() -> None:
    levels = np.random.default_rng(0).integers(0, 4096, (2, 3))
    pixels = np.kron(levels, np.ones((8, 8), int))[..., np.newaxis]
    assert_alike(flat_jpeg(levels), np.broadcast_to(pixels >> 4, (16, 24, 3)), stored(pixels, 12))
    # The file is sound: with 8 bits, Pillow reads it.
    common = flat_jpeg(levels >> 4, 8)
    np.testing.assert_array_equal(np.asarray(decode_with_pillow(common))[..., :1], pixels >> 4)


def test_arithmetic_codes() -> None:
    try:
        expected = load(ARITHMETIC)
    except RuntimeError as error:
        assert "arithmetic" in str(error)  # noqa: PT017 - as libjpeg says where it was built without.
        return
    for filters, wanted in ((None, expected), ("vflip", expected[::-1]), ("format=bgr24", expected[..., ::-1])):
        np.testing.assert_array_equal(load(ARITHMETIC, filter_desc=filters), wanted)
    opaque = np.full((*expected.shape[:2], 1), 255, np.uint8)
    np.testing.assert_array_equal(load(ARITHMETIC, filter_desc="format=rgba"), np.dstack([expected, opaque]))


@pytest.mark.parametrize("filters", ["format=pix_fmts=rgb24", None, "vflip"])
def test_what_is_refused_is_refused_everywhere(filters: str | None) -> None:
    lossless = lossless_jpeg(picture(8, 3))
    ls = lossless.replace(b"\xff\xc3", b"\xff\xf7")
    jfif = b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0" + lossless[2:]
    for data, message in (
        (ls, "it is a JPEG-LS, which is not read"),
        (jfif, "it is lossless, and its colours are neither gray nor RGB nor CMYK"),
        (lossless[:-40], "the data is truncated"),
    ):
        with pytest.raises(RuntimeError, match=f"cannot decode the JPEG: {message}"):
            load_image(data, filter_desc=filters)
