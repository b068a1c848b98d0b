"""WebP, against Pillow, whose library is the same: pixels, alpha, animations, parts, and damage."""

import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.io.image.mutated_files import assert_cuts_are_refused, compare_with_pillow
from tests.io.image.parts import ENDS, Ends, assert_part
from tests.io.images import Array, decode_with_pillow, encode, make_image

from spdl.io import decode_config, demux_image, load_image, load_image_batch, to_numpy

IMAGE = make_image(61, 43)
ALPHA = Image.merge("RGBA", (*IMAGE.split(), make_image(61, 43, 1).getchannel(0)))

FILES = {
    "lossless": encode(IMAGE, "WEBP", lossless=True),
    "lossless with alpha": encode(ALPHA, "WEBP", lossless=True, exact=True),
    "lossy": encode(IMAGE, "WEBP"),
    "lossy with alpha": encode(ALPHA, "WEBP"),
    "animated": encode(IMAGE, "WEBP", save_all=True, append_images=[make_image(61, 43, 2)], lossless=True),
}


def load(data: bytes, **keywords: Any) -> Array:
    buffer = load_image(data, **keywords)
    assert buffer.backends == ("libwebp",)
    array: Array = to_numpy(buffer)
    return array


def pillows(data: bytes) -> Array:
    """Return Pillow's pixels in the file's own mode."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def assert_pillows(data: bytes) -> None:
    expected = pillows(data)
    np.testing.assert_array_equal(load(data), expected[..., :3])
    np.testing.assert_array_equal(load(data, filter_desc=None), expected)
    np.testing.assert_array_equal(load(data, filter_desc="format=rgba")[..., : expected.shape[2]], expected)


@settings(deadline=None, max_examples=60)
@given(
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    alpha=st.booleans(),
    options=st.fixed_dictionaries(
        {
            "lossless": st.booleans(),
            "exact": st.booleans(),
            "quality": st.integers(0, 100),
            "alpha_quality": st.integers(0, 100),
            "method": st.integers(0, 3),
        }
    ),
)
def test_every_kind_has_pillows_pixels(*, size: tuple[int, int], alpha: bool, options: dict[str, Any]) -> None:
    image = make_image(*size)
    if alpha:
        image.putalpha(make_image(*size, 1).getchannel(0))
    assert_pillows(encode(image, "WEBP", **options))


@pytest.mark.parametrize("kind", FILES)
def test_packets_know_the_format(kind: str) -> None:
    packets = demux_image(FILES[kind])
    expected = ("webp", 61, 43, "rgba" if "alpha" in kind else "rgb24")
    assert (packets.codec.name, packets.width, packets.height, packets.pix_fmt) == expected


# ---- animations ------------------------------------------------------------------------------------------------------


def moved(data: bytes, canvas: tuple[int, int], place: tuple[int, int]) -> bytes:
    """Put the pictures of an animation elsewhere, on another canvas. Places are even."""
    changed = bytearray(data)
    extended = changed.index(b"VP8X") + 12
    changed[extended : extended + 6] = b"".join((side - 1).to_bytes(3, "little") for side in canvas)
    at = changed.find(b"ANMF")
    while at >= 0:
        changed[at + 8 : at + 14] = b"".join((side // 2).to_bytes(3, "little") for side in place)
        at = changed.find(b"ANMF", at + 4)
    return bytes(changed)


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("image", [IMAGE, ALPHA], ids=["RGB", "RGBA"])
def test_an_animation_gives_its_first_picture_on_its_canvas(image: Image.Image, *, lossless: bool) -> None:
    data = encode(image, "WEBP", save_all=True, append_images=[make_image(61, 43, 2)], lossless=lossless)
    assert_pillows(data)
    for canvas, place in (((90, 70), (0, 0)), ((90, 70), (20, 8)), ((61 + 6, 43 + 2), (6, 2))):
        assert_pillows(moved(data, canvas, place))
    part = (30, 1, 61, 40)
    data = moved(data, (90, 70), (20, 8))
    cut = to_numpy(load_image_batch([data], width=None, height=None, crop=[part]))[0]
    np.testing.assert_array_equal(cut, pillows(data)[1:40, 30:61, :3])
    beside = to_numpy(load_image_batch([data], width=None, height=None, crop=[(0, 0, 20, 8)]))[0]
    assert not beside.any()


def test_an_animation_without_pictures_is_an_error() -> None:
    data = FILES["animated"]
    header = data[: data.index(b"ANMF")]
    data = header[:4] + struct.pack("<I", len(header) - 8) + header[8:]
    with pytest.raises(RuntimeError, match="cannot decode the WebP: "):
        load_image(data)


# ---- parts -----------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(kind=st.sampled_from(sorted(FILES)), ends=ENDS)
def test_a_part_is_that_of_the_whole(kind: str, ends: Ends) -> None:
    assert_part(FILES[kind], ends, pillows(FILES[kind])[..., :3])


# ---- damage ----------------------------------------------------------------------------------------------------------


def test_damaged_files_are_what_pillow_makes_of_them() -> None:
    outcomes = compare_with_pillow(FILES, 400)
    assert not outcomes.wrong
    assert not outcomes.only_pillow_reads
    assert len(outcomes.equal) > 100
    assert len(outcomes.both_refuse) > 150


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_ends_early_is_an_error(kind: str) -> None:
    assert_cuts_are_refused(FILES[kind], r"cannot decode the WebP: the data is (truncated|damaged)", first=12, step=97)


def test_chunks_behind_the_picture_are_looked_at() -> None:
    exif = Image.Exif()
    exif[0x0112] = 1
    data = bytearray(encode(IMAGE, "WEBP", exif=exif))
    at = data.index(b"EXIF") + 4
    data[at : at + 4] = struct.pack("<I", 1 << 20)
    with pytest.raises(OSError, match="could not create decoder object"):
        decode_with_pillow(bytes(data))
    with pytest.raises(RuntimeError, match="cannot decode the WebP: one of its chunks is damaged or missing"):
        load_image(bytes(data))


def test_no_other_backend_reads_it_by_itself() -> None:
    with pytest.raises(RuntimeError, match="libwebp decodes WebP only"):
        load_image(encode(IMAGE, "PNG"), decode_config=decode_config(backend="libwebp"))
