"""Headers that lie: their claims are checked before memory is allocated, and missing parts are noticed."""

import resource
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.io.headers import (
    PHOTO,
    START_OF_SCAN,
    frame_header,
    jpeg_segment,
    sized,
    sized_bmp,
    sized_jpeg,
    sized_png,
    sized_tiff,
    with_chunk,
    with_segment,
    without_segments,
)
from tests.io.images import Array, decode_with_pillow, encode, make_jpeg
from tests.io.processes import passes, say

from spdl.io import decode_packets, demux_image, load_image, load_image_batch, to_numpy

JPEG = make_jpeg(50, 40)


def pixels(data: bytes, **keywords: Any) -> Array:
    image: Array = to_numpy(load_image_batch([data], width=None, height=None, **keywords))[0]
    return image


# ---- sizes -----------------------------------------------------------------------------------------------------------


def load_what_there_is(data: bytes) -> None:
    """Raise what is said of an image whose place is kept."""
    (failure,) = load_image_batch([data], width=8, height=8, exact=False, on_error="partial").failures
    raise RuntimeError(f"image of {len(data)} bytes: {failure.reason}")


def load_huge_images() -> None:
    images = sized(65_500, 65_500)
    # Everything that is allocated once is allocated now.
    load_image_batch(list(sized(50, 40).values()), width=8, height=8, strict=False)
    used = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    # A hundredth of what one of them would take.
    resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20), resource.RLIM_INFINITY))
    for name, data in images.items():
        for load in (
            lambda: load_image(data),  # noqa: B023 - it is called at once.
            lambda: load_image_batch([data], width=8, height=8),  # noqa: B023
            lambda: load_what_there_is(data),  # noqa: B023
            lambda: decode_packets(demux_image(data), filter_desc=None),  # noqa: B023
        ):
            try:
                load()
            except RuntimeError as error:
                say(f"{name}: {error}".replace("\n", " "))
            else:
                say(f"{name} was loaded")


def test_a_huge_claimed_size_is_refused_before_anything_is_allocated() -> None:
    lines = passes(load_huge_images).splitlines()
    assert len(lines) == 4 * len(sized(1, 1))
    for line in lines:
        assert "image of " in line  # The input is named.
        if line.startswith("WebP: "):  # Its picture is not as large.
            assert "cannot decode the WebP: the data is damaged" in line
        elif "its strips are missing" in line:  # Where any size may be demuxed, the data are looked at first.
            assert line.startswith("TIFF: ")
        else:
            assert "its size of 65500x65500 is outside what is accepted: sides from 1 to 65535, at most 1780" in line
            assert "decode_config(max_pixels=...) allows more" in line
        assert "0x7f" not in line  # No address of the process.


@pytest.mark.parametrize(
    "data",
    [
        sized_jpeg(JPEG, 0, 40),
        sized_jpeg(JPEG, 50, 0),
        sized_png(encode(PHOTO, "PNG"), 0, 40),
        sized_png(encode(PHOTO, "PNG"), 2**31, 1),
        sized_png(encode(PHOTO, "PNG"), 2**31 - 1, 2**31 - 1),
        sized_bmp(encode(PHOTO, "BMP"), 0, 0),
        sized_bmp(encode(PHOTO, "BMP"), -50, 40),
        sized_bmp(encode(PHOTO, "BMP"), 50, -(2**31)),
        sized_tiff(encode(PHOTO, "TIFF"), 0, 40),
        sized_tiff(encode(PHOTO, "TIFF"), 2**32 - 1, 2**32 - 1),
    ],
)
def test_sizes_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(RuntimeError, match=rf"^image of {len(data)} bytes: cannot decode the "):
        load_image(data)
    failures = load_image_batch([data, JPEG], width=8, height=8, strict=False).failures
    assert [failure.index for failure in failures] == [0]


@pytest.mark.parametrize("name", ["JPEG", "progressive JPEG", "gray JPEG", "CMYK JPEG"])
def test_a_jpeg_larger_than_its_data_is_what_pillow_makes_of_it(name: str) -> None:
    # The marker behind the data is there: in that case libjpeg goes on with gray.
    data = sized(500, 400)[name]
    np.testing.assert_array_equal(pixels(data), np.asarray(decode_with_pillow(data)))
    with pytest.raises(RuntimeError, match=rf"image of {len(data) - 2} bytes: cannot decode the JPEG: .*truncated"):
        load_image(data[:-2])


@pytest.mark.parametrize("name", ["PNG", "BMP"])
def test_an_image_larger_than_its_data_is_an_error(name: str) -> None:
    data = sized(500, 400)[name]
    with pytest.raises(RuntimeError, match=rf"^image of {len(data)} bytes: cannot decode the (BMP|PNG): "):
        load_image(data)


def test_rows_that_a_tiff_does_not_have_are_an_error() -> None:
    for width in (50, 500):
        with pytest.raises(RuntimeError, match="cannot decode the TIFF: its strips are missing, or end early"):
            load_image(sized(width, 400)["TIFF"])


def test_a_webp_of_two_sizes_is_an_error() -> None:
    data = sized(500, 400)["WebP"]
    with pytest.raises(OSError, match="could not create decoder object"):
        decode_with_pillow(data)
    with pytest.raises(RuntimeError, match="cannot decode the WebP: the data is damaged"):
        load_image(data)


def test_a_jpeg_of_two_sizes_is_an_error() -> None:
    begin, end = frame_header(JPEG)
    other = frame_header(progressive := make_jpeg(50, 40, progressive=True))
    second = sized_jpeg(JPEG, 500, 400)[begin:end]
    # In front of the scan, and between the scans of a progressive file, whose coefficients are laid out by then.
    for data in (
        JPEG[:end] + second + JPEG[end:],
        between_scans(progressive, progressive[slice(*other)]),
        between_scans(progressive, sized_jpeg(progressive, 500, 400)[slice(*other)]),
        between_scans(progressive, second),
    ):
        with pytest.raises(OSError, match=r"broken|truncated|cannot identify"):
            decode_with_pillow(data)
        with pytest.raises(RuntimeError, match=r"cannot decode the JPEG: .*SOF"):
            load_image(data)


def between_scans(data: bytes, segment: bytes) -> bytes:
    second = data.index(bytes((0xFF, START_OF_SCAN)), data.index(bytes((0xFF, START_OF_SCAN))) + 2)
    return data[:second] + segment + data[second:]


@settings(deadline=None, max_examples=120)
@given(st.integers(0, 255), st.integers(0, 30))
def test_frame_and_scan_headers_may_say_anything(value: int, place: int) -> None:
    begin, end = frame_header(JPEG)
    scan = JPEG.index(bytes((0xFF, START_OF_SCAN)))
    for start, length in ((begin, end - begin), (scan, 14)):
        at = start + 2 + place % (length - 2)
        data = JPEG[:at] + bytes((value,)) + JPEG[at + 1 :]
        try:
            expected = np.asarray(decode_with_pillow(data))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            with pytest.raises(RuntimeError, match=rf"^image of {len(data)} bytes: cannot"):
                load_image(data)
        else:
            np.testing.assert_array_equal(pixels(data), expected)


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [JPEG, make_jpeg(30, 20, optimize=True, quality=20), make_jpeg(progressive=True)])
def test_no_image_is_decoded_with_the_tables_of_another(before: bytes) -> None:
    # libjpeg keeps them for the next image unless it is told not to.
    without_quantization = without_segments(JPEG, 0xDB)
    for data in (without_quantization, without_segments(make_jpeg(50, 40, progressive=True), 0xC4)):
        with pytest.raises(OSError, match="broken"):
            decode_with_pillow(data)
        load_image(before)
        with pytest.raises(RuntimeError, match=r"cannot decode the JPEG: (Quantization|Huffman) table 0x00 was"):
            load_image(data)
    # Frames of films leave out the standard's Huffman tables, which the decoder then knows.
    frame = without_segments(JPEG, 0xC4)
    load_image(before)
    np.testing.assert_array_equal(pixels(frame), np.asarray(decode_with_pillow(JPEG)))


# ---- EXIF ------------------------------------------------------------------------------------------------------------


def exif(entries: bytes, count: int = 1, offset: int = 8, magic: int = 42) -> bytes:
    return b"Exif\0\0II" + struct.pack("<HIH", magic, offset, count) + entries


def entry(value: int, *, tag: int = 0x0112, kind: int = 3, count: int = 1) -> bytes:
    return struct.pack("<HHII", tag, kind, count, value)


LIES = {
    "nothing": b"Exif\0\0",
    "no order of bytes": b"Exif\0\0XX*\0\x08\0\0\0" + entry(6),
    "no magic number": exif(entry(6), magic=43),
    "a directory outside": exif(entry(6), offset=2**32 - 1),
    "a directory at the last byte": exif(entry(6), offset=len(exif(entry(6))) - 7),
    "a directory within the header": exif(entry(6), offset=0),
    "more entries than there are": exif(entry(1, tag=1), count=65_535),
    "an entry cut short": exif(entry(6)[:-1]),
    "a huge count": exif(entry(6, count=2**32 - 1)),
    "no values": exif(entry(6, count=0)),
    "text": exif(entry(6, kind=2)),
    "an unknown type": exif(entry(6, kind=999)),
    "an orientation of 0": exif(entry(0)),
    "an orientation of 9": exif(entry(9)),
    "a huge orientation": exif(entry(2**32 - 1, kind=4)),
    "a loop": exif(entry(8, tag=0x8769, kind=4) + struct.pack("<I", 8)),
}


@pytest.mark.parametrize("lie", LIES)
def test_exif_data_that_makes_no_sense_is_as_none(lie: str) -> None:
    plain = pixels(JPEG, exif=True)
    np.testing.assert_array_equal(pixels(with_segment(JPEG, 0xE1, LIES[lie]), exif=True), plain)
    png = encode(PHOTO, "PNG")
    np.testing.assert_array_equal(pixels(with_chunk(png, b"eXIf", LIES[lie][6:]), exif=True), pixels(png, exif=True))


def test_exif_data_that_makes_sense_is_followed() -> None:
    turned = np.rot90(pixels(JPEG), -1)
    for data in (exif(entry(6)), exif(entry(0, tag=1) + entry(6), count=2), exif(entry(6, kind=4), count=65_535)):
        np.testing.assert_array_equal(pixels(with_segment(JPEG, 0xE1, data), exif=True), turned)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60), st.booleans())
def test_any_exif_data_gives_one_of_eight_pictures(data: bytes, little: bool) -> None:  # noqa: FBT001
    order = b"II*\0\x08\0\0\0" if little else b"MM\0*\0\0\0\x08"
    image = pixels(with_segment(JPEG, 0xE1, b"Exif\0\0" + order + data), exif=True)
    plain = pixels(JPEG)
    turned = [np.rot90(flipped, times) for flipped in (plain, plain[:, ::-1]) for times in range(4)]
    assert any(image.shape == each.shape and bool((image == each).all()) for each in turned)


# ---- profiles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "profile",
    [
        b"ICC_PROFILE\0",
        b"ICC_PROFILE\0\0\0",
        b"ICC_PROFILE\0\x09\x02" + bytes(100),
        b"ICC_PROFILE\0\x01\xff" + b"\xff" * 500,
        b"ICC_PROFILE\0\x01\x01" + struct.pack(">I", 2**32 - 1) + bytes(200),
    ],
)
def test_profiles_of_jpegs_change_nothing(profile: bytes) -> None:
    data = with_segment(JPEG, 0xE2, profile)
    data = data[:2] + jpeg_segment(0xE2, profile) + data[2:]  # Twice under one number.
    np.testing.assert_array_equal(pixels(data), pixels(JPEG))


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"name", b"name\0", b"name\0\0", b"name\0\0junk", b"\0\7" + bytes(300)]
)
def test_damaged_profiles_and_texts_of_pngs_are_refused_or_left_out(content: bytes) -> None:
    png = encode(PHOTO, "PNG")
    for kind in (b"iCCP", b"zTXt", b"iTXt", b"tEXt"):
        data = with_chunk(png, kind, content)
        try:
            image = pixels(data)
        except RuntimeError as error:
            assert f"image of {len(data)} bytes: cannot decode the " in str(error)  # noqa: PT017
        else:
            np.testing.assert_array_equal(image, np.asarray(PHOTO))


def test_a_gif_whose_picture_lies_outside_of_its_screen() -> None:
    gif = encode(PHOTO.quantize(32), "GIF")
    picture = gif.index(b"\x2c\0\0\0\0")
    beside = gif[: picture + 1] + struct.pack("<HHHH", 60_000, 60_000, 50, 40) + gif[picture + 9 :]
    with pytest.raises(RuntimeError, match=r"its size of 60050x60040 is outside what is accepted"):
        load_image(beside)
    # The screen grows, as in Pillow.
    assert pixels(gif[:6] + struct.pack("<HH", 5, 4) + gif[10:]).shape == (40, 50, 3)
