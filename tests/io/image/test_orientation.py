"""exif=: pictures are turned upright as Pillow's exif_transpose does it, whoever decodes them."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo
from tests.io.images import Array, encode, make_image
from tests.io.pairs import pairs

from spdl.io import decode_config, load_image_batch, to_numpy

ORIENTATION = 0x0112


ELEMENT = b"<rdf:li>tiff:Orientation</rdf:li><tiff:Orientation>%d</tiff:Orientation>"
ATTRIBUTE = b'<rdf:Description tiff:Make="x" tiff:Orientation="%d"/>'
NO_ORIENTATION = b"MM\0*\0\0\0\x08" + struct.pack(">HHHI4sI", 1, 0x010F, 2, 2, b"x\0\0\0", 0)
"""EXIF data that tell only who made the camera."""


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


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_tiff_is_its_own_exif_data(orientation: int, big: bool) -> None:  # noqa: FBT001
    image = make_image(60, 41)
    data = encode(image, "TIFF", tiffinfo={ORIENTATION: orientation}, big_tiff=big)
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


SIX = {
    1: "6B", 2: "6s", 3: "H", 4: "I", 5: "I", 6: "b", 7: "6B", 8: "h", 9: "i", 10: "i", 11: "f", 12: "d", 13: "I",
    14: "H", 16: "Q", 129: "H",
}  # fmt: skip
"""How each type of TIFF holds numbers."""


def with_entries(order: str, *entries: tuple[int, int, int, bytes], offset: int = 8) -> bytes:
    """Return a JPEG with these entries in its EXIF data: tag, type, count, and the values or where they are."""
    directory = b"".join(
        struct.pack(order + "HHI4s", tag, kind, count, value.ljust(4, b"\0")) for tag, kind, count, value in entries
    )
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HIH", 42, offset, len(entries))
    return encode(make_image(60, 41), exif=b"Exif\0\0" + head + directory + bytes(4), xmp=ATTRIBUTE % 8)


def integer(order: str, value: int, tag: int = ORIENTATION) -> tuple[int, int, int, bytes]:
    return tag, 3, 1, struct.pack(order + "H", value)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("kind", "count", "order"), pairs(SIX, [0, 1, 2], "<>"))
def test_numbers_of_any_type_count_as_in_pillow(kind: int, count: int, order: str) -> None:
    code = SIX[kind]
    if code.startswith("6"):
        value = b"6" * count
    elif kind in {5, 10}:
        value = struct.pack(f"{order}2{code}", 18, 3) * count
    else:
        value = struct.pack(order + code, 6) * count
    in_place = value if len(value) <= 4 else struct.pack(order + "I", 26)
    tiff = (b"II" if order == "<" else b"MM") + struct.pack(order + "HIHHHI", 42, 8, 1, ORIENTATION, kind, count)
    tiff += in_place.ljust(4, b"\0") + bytes(4) + value
    for xmp in (b"", ATTRIBUTE % 2):
        data = encode(make_image(60, 41), exif=b"Exif\0\0" + tiff, xmp=xmp)
        np.testing.assert_array_equal(load(data), upright_with_pillow(data))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    "others",
    [
        pytest.param([(ORIENTATION, 3, 1, b"\2\0"), (ORIENTATION, 3, 1, b"\0\2")], id="twice"),
        pytest.param([(0x010F, 2, 9, b"\xff\xff")], id="a text beyond the end"),
        pytest.param([(0x010F, 2, 1 << 30, b"")], id="a text larger than all"),
        pytest.param([(0x010F, 2, 30, b""), (0x0110, 2, 30, b"")], id="texts larger than all together"),
        pytest.param([(0x010F, 99, 30, b"\xff\xff\xff\xff")], id="an unknown type"),
    ],
)
def test_damaged_exif_data_count_as_in_pillow(others: list[tuple[int, int, int, bytes]], order: str) -> None:
    for entries in ([*others, integer(order, 6)], [integer(order, 6), *others]):
        for offset in (8, 9, 4000):
            data = with_entries(order, *entries, offset=offset)
            np.testing.assert_array_equal(load(data), upright_with_pillow(data))


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


# ---- outside EXIF data -------------------------------------------------------------------------------------------


def profile(exif: bytes) -> str:
    """Return EXIF data as ImageMagick writes them into a PNG."""
    digits = exif.hex()
    return f"\nexif\n{len(exif):8}\n" + "\n".join(digits[at : at + 72] for at in range(0, len(digits), 72)) + "\n"


KINDS = ["text", "text, packed", "international", "international, packed"]
"""Of chunks of text in a PNG."""


def with_texts(kind: str, *texts: tuple[str, str], **options: Any) -> bytes:
    info = PngInfo()
    for name, text in texts:
        (info.add_itxt if "international" in kind else info.add_text)(name, text, zip="packed" in kind)
    return encode(make_image(60, 41), "PNG", pnginfo=info, **options)


def assert_as_pillow(data: bytes, height: int) -> None:
    expected = upright_with_pillow(data)
    assert expected.shape == (height, 101 - height, 3)
    pixels = load(data)
    assert pixels.shape == expected.shape
    # AVIF is the only one of them that is not exact.
    assert np.abs(pixels.astype(int) - expected).mean() < (1.5 if b"ftypavif" in data[:16] else 1e-9)


OPTIONS: dict[str, dict[str, Any]] = {"WEBP": {"lossless": True}, "AVIF": {"quality": 95, "subsampling": "4:4:4"}}


@pytest.mark.parametrize(
    ("orientation", "file_format", "xmp"), pairs([*range(1, 9), 0, 9], ["JPEG", "WEBP", "AVIF"], [ELEMENT, ATTRIBUTE])
)
def test_xmp_counts_without_exif_data(file_format: str, xmp: bytes, orientation: int) -> None:
    options = OPTIONS.get(file_format, {})
    data = encode(make_image(60, 41), file_format, xmp=xmp % orientation, **options)
    assert_as_pillow(data, 60 if orientation in {5, 6, 7, 8} else 41)


@pytest.mark.parametrize("orientation", [2, 6])
def test_xmp_counts_in_a_tiff(orientation: int) -> None:
    for big in (False, True):
        data = encode(make_image(60, 41), "TIFF", tiffinfo={700: ELEMENT % orientation}, big_tiff=big)
        with Image.open(io.BytesIO(data)) as file:
            # Pillow turns TIFF files upright by itself.
            np.testing.assert_array_equal(load(data), np.asarray(file.convert("RGB")))


@pytest.mark.parametrize("kind", KINDS)
def test_xmp_counts_in_every_text_of_a_png(kind: str) -> None:
    text = (ATTRIBUTE % 6).decode()
    assert_as_pillow(with_texts(kind, ("XML:com.adobe.xmp", text)), 60)
    assert_as_pillow(with_texts(kind, ("XML:com.adobe.xmp", text * 400)), 60)
    # The last text of that name counts, and no other.
    upright = (ATTRIBUTE % 1).decode()
    assert_as_pillow(
        with_texts(kind, ("XML:com.adobe.xmp", text), ("XML:com.adobe.xmp", upright), ("Comment", text)),
        41,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_text_of_imagemagick_counts_in_a_png(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    text = ("Raw profile type exif", profile(exif.tobytes()))
    assert_as_pillow(with_texts(kind, text), 60 if orientation >= 5 else 41)
    # EXIF data in their own place come first.
    assert_as_pillow(with_texts(kind, text, exif=NO_ORIENTATION), 41)


@pytest.mark.parametrize(
    ("file_format", "options"),
    [("JPEG", {}), ("WEBP", {"lossless": True}), ("AVIF", {"quality": 95, "subsampling": "4:4:4"})],
)
def test_exif_data_that_mention_an_orientation_come_before_xmp(file_format: str, options: dict[str, Any]) -> None:
    image = make_image(60, 41)
    exif = Image.Exif()
    exif[ORIENTATION] = 1
    xmp = ATTRIBUTE % 6
    silent = encode(image, file_format, exif=b"Exif\0\0" + NO_ORIENTATION, xmp=xmp, **options)
    assert_as_pillow(silent, 60)
    # Pillow takes the orientation of an AVIF's EXIF data away, so it is put back by hand.
    upright = silent.replace(struct.pack(">HHI", 0x010F, 2, 2) + b"x\0", struct.pack(">HHIH", ORIENTATION, 3, 1, 1))
    assert upright != silent
    assert_as_pillow(upright, 41)
    turned = silent.replace(struct.pack(">HHI", 0x010F, 2, 2) + b"x\0", struct.pack(">HHIH", ORIENTATION, 3, 1, 8))
    # The readers of an AVIF turn it as its boxes say, whatever EXIF data say.
    assert_as_pillow(turned, 41 if file_format == "AVIF" else 60)


@pytest.mark.parametrize("hidden", [0, 4, 8, 12])
def test_metadata_that_a_webp_does_not_mention_do_not_count(hidden: int) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 3
    data = bytearray(encode(make_image(60, 41), "WEBP", lossless=True, exif=exif, xmp=ATTRIBUTE % 6))
    assert data[12:16] == b"VP8X"
    assert data[20] == 12
    data[20] ^= hidden
    assert_as_pillow(bytes(data), 60 if hidden == 8 else 41)


def test_exif_data_in_several_segments_of_a_jpeg_are_one() -> None:
    tiff = struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, ORIENTATION, 3, 1, 6, 0, 0)
    data = encode(make_image(60, 41))
    for cut in (8, 12, 20):
        segments = b"".join(
            b"\xff\xe1" + struct.pack(">H", len(part) + 8) + b"Exif\0\0" + part for part in (tiff[:cut], tiff[cut:])
        )
        assert_as_pillow(data[:2] + segments + data[2:], 60)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(["tEXt", "zTXt", "iTXt"]), st.binary(max_size=60), st.integers(0, 400))
def test_whatever_the_texts_of_a_png_hold_the_picture_is_loaded(kind: str, junk: bytes, cut: int) -> None:
    content = zlib.compress(profile(b"Exif\0\0" + NO_ORIENTATION).encode())[:cut] + junk
    text = kind.encode() + b"Raw profile type exif\0" + content
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    data = encode(make_image(30, 20), "PNG")
    assert load(data[:33] + chunk + data[33:]).shape == (20, 30, 3)
