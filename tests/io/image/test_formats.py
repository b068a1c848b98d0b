"""Every format that images come in, against Pillow's pixels of the same file."""

import io
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter, ImageSequence
from tests.io.image_files import bmp, png, png_chunk, tiff
from tests.io.images import Array, decode_with_pillow, encode, make_image
from tests.io.jpeg_files import ARITHMETIC
from tests.io.pairs import pairs

from spdl.io import decode_config, encode_config, encode_image, load_image, load_image_batch, to_numpy

FFMPEG = decode_config(backend="ffmpeg")


def load(data: bytes, **keywords: Any) -> Array:
    array: Array = to_numpy(load_image(data, **keywords))
    return array


def assert_pillows(data: bytes) -> None:
    np.testing.assert_array_equal(load(data), np.asarray(decode_with_pillow(data)))


def smooth(width: int = 160, height: int = 120) -> Image.Image:
    """Make a picture of few colours, as photos are, so that not noise and its interpolation are compared."""
    image = make_image(width, height).filter(ImageFilter.GaussianBlur(3))
    return Image.blend(image.convert("L").convert("RGB"), image, 0.2)


# ---- PNG ---------------------------------------------------------------------------------------------------------

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
KINDS = [
    *((GRAY, depth) for depth in (1, 2, 4, 8, 16)),
    *((PALETTE, depth) for depth in (1, 2, 4, 8)),
    *((kind, depth) for kind in (RGB, GRAY_ALPHA, RGBA) for depth in (8, 16)),
]
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}


@settings(deadline=None, max_examples=200)
@given(
    kind=st.sampled_from(KINDS),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    interlaced=st.booleans(),
    transparent=st.booleans(),
    seed=st.integers(0, 9),
)
def test_every_kind_of_png(
    *, kind: tuple[int, int], size: tuple[int, int], interlaced: bool, transparent: bool, seed: int
) -> None:
    color_type, depth = kind
    rng = np.random.default_rng(seed)
    samples = rng.integers(0, 1 << depth, (*size[::-1], CHANNELS[color_type]))
    extra = b""
    if color_type == PALETTE:
        extra += png_chunk(b"PLTE", rng.bytes(3 << depth))
    if transparent and color_type == PALETTE:
        extra += png_chunk(b"tRNS", rng.bytes(1 << depth))
    elif transparent and color_type in (GRAY, RGB):
        extra += png_chunk(b"tRNS", samples[0, 0].astype(">u2").tobytes())
    data = png(samples, depth, color_type, interlaced=interlaced, extra=extra)
    # Pillow shows 16-bit gray with all its bits; of other colours of 16 bits it keeps the upper half, as we do.
    if (color_type, depth) == (GRAY, 16):
        np.testing.assert_array_equal(load(data), np.repeat(samples >> 8, 3, 2))
    else:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # Transparent palettes.
            assert_pillows(data)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA"])
def test_a_png_can_be_had_as_it_is_stored(mode: str) -> None:
    image = make_image(31, 22).convert(mode)
    stored = np.asarray(image.convert("RGB") if mode == "P" else image)
    data = encode(image, "PNG")
    np.testing.assert_array_equal(load(data, filter_desc=None), stored.reshape(22, 31, -1))


def test_16_bits_can_be_had_as_they_are_stored() -> None:
    samples = np.random.default_rng(0).integers(0, 1 << 16, (22, 31, 3), np.uint16)
    for data in (png(samples, 16, RGB), tiff(samples), tiff(samples, order=">")):
        stored = to_numpy(load_image(data, filter_desc=None))
        assert stored.dtype == np.uint16
        np.testing.assert_array_equal(stored, samples)
        np.testing.assert_array_equal(load(data), samples >> 8)
        # FFmpeg's own conversion rounds.
        assert np.abs(load(data, decode_config=FFMPEG).astype(int) - (samples >> 8)).max() <= 1


def test_gray_images_have_one_layout_whatever_their_depth() -> None:
    samples = np.random.default_rng(0).integers(0, 1 << 16, (22, 31), np.uint16)
    for data, expected in (
        (encode(Image.fromarray(samples), "PNG"), samples),
        (encode(Image.fromarray((samples >> 8).astype(np.uint8)), "PNG"), (samples >> 8).astype(np.uint8)),
    ):
        stored = to_numpy(load_image(data, filter_desc=None))
        assert stored.dtype == expected.dtype
        np.testing.assert_array_equal(stored, expected[..., np.newaxis])


@pytest.mark.parametrize("separate", [False, True])
def test_an_animated_png_gives_the_picture_that_every_reader_shows(separate: bool) -> None:  # noqa: FBT001
    pictures = [make_image(31, 22, seed) for seed in range(3)]
    data = encode(pictures[0], "PNG", save_all=True, append_images=pictures[1:], default_image=separate)
    np.testing.assert_array_equal(load(data), np.asarray(pictures[0]))


# ---- GIF ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interlace", [0, 1])
@pytest.mark.parametrize("colors", [2, 3, 16, 200, 256])
def test_gif(colors: int, interlace: int) -> None:
    assert_pillows(encode(make_image(61, 43).quantize(colors), "GIF", interlace=interlace))


def test_a_gif_with_a_palette_of_the_frames_own() -> None:
    data = encode(make_image(61, 43).quantize(256), "GIF", interlace=0)
    assert data[10] & 0x87 == 0x87
    palette = data[13 : 13 + 768]
    frame = data.index(b",", 13 + 768)
    flags = frame + 9
    moved = data[:10] + bytes([data[10] & 0x78]) + data[11:13] + data[781:flags] + b"\x87" + palette + data[flags + 1 :]
    np.testing.assert_array_equal(load(moved), load(data))
    assert_pillows(moved)


def test_the_transparent_pixels_of_a_gif() -> None:
    image = make_image(61, 43).quantize(16)
    data = encode(image, "GIF", transparency=image.getpixel((5, 5)))
    with Image.open(io.BytesIO(data)) as file:
        expected = np.asarray(file.convert("RGBA"))
    seen = expected[..., 3] == 255
    assert 0 < seen.mean() < 1
    assert_pillows(data)
    for desc in (None, "format=pix_fmts=rgba"):
        np.testing.assert_array_equal(load(data, filter_desc=desc), expected)


def test_an_animated_gif_gives_its_first_picture() -> None:
    pictures = [make_image(31, 22, seed).quantize(64) for seed in range(3)]
    data = encode(pictures[0], "GIF", save_all=True, append_images=pictures[1:], duration=100, loop=0)
    with Image.open(io.BytesIO(data)) as file:
        assert len(list(ImageSequence.Iterator(file))) == 3
    assert_pillows(data)


# ---- BMP ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "bits", "top_down"),
    pairs([(1, 1), (7, 5), (61, 43), (64, 2)], [1, 4, 8, 24, 32], [False, True]),
)
def test_bmp(size: tuple[int, int], bits: int, top_down: bool) -> None:  # noqa: FBT001
    rng = np.random.default_rng(bits)
    if bits <= 8:
        pixels = rng.integers(0, 1 << bits, size[::-1])
        data = bmp(pixels, bits, palette=rng.integers(0, 256, (1 << bits, 3)), top_down=top_down)
    else:
        data = bmp(rng.integers(0, 256, (*size[::-1], bits // 8)), bits, top_down=top_down)
    assert_pillows(data)


# ---- JPEG --------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    subsampling=st.sampled_from(["4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1"]),
    quality=st.sampled_from([30, 75, 100]),
    corners=st.tuples(*[st.integers(0, 1000)] * 4),
)
def test_every_subsampling_of_a_jpeg_whole_and_cut(
    size: tuple[int, int], subsampling: Any, quality: int, corners: tuple[int, int, int, int]
) -> None:
    file = io.BytesIO()
    config = encode_config(format="jpeg", subsampling=subsampling, quality=quality)
    encode_image(file, np.asarray(make_image(*size)), encode_config=config)
    data = file.getvalue()
    assert_pillows(data)
    left, top = corners[0] % size[0], corners[1] % size[1]
    box = (left, top, left + 1 + corners[2] % (size[0] - left), top + 1 + corners[3] % (size[1] - top))
    cut = to_numpy(load_image_batch([data], width=None, height=None, crop=[box]))[0]
    np.testing.assert_array_equal(cut, np.asarray(decode_with_pillow(data).crop(box)))


@pytest.mark.parametrize(
    "options",
    [
        {"progressive": True},
        {"restart_marker_blocks": 1},
        {"restart_marker_rows": 1, "progressive": True},
        {"quality": 100, "subsampling": "4:4:4", "progressive": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_every_way_of_writing_a_jpeg(mode: str, options: dict[str, Any]) -> None:
    assert_pillows(encode(make_image(61, 43).convert(mode), "JPEG", **options))


def test_a_jpeg_of_arithmetic_codes() -> None:
    if "arithmetic" in refusal(ARITHMETIC):  # As libjpeg says where it was built without.
        return
    x, y, channel = np.mgrid[:24, :20, :3]
    pixels = ((x * (7 + 3 * channel) + y * (5 + 2 * channel) + 40 * channel) % 256).astype(np.uint8).transpose(1, 0, 2)
    # The same coefficients in Huffman codes.
    same = encode(Image.fromarray(pixels), "JPEG", quality=85)
    np.testing.assert_array_equal(load(ARITHMETIC), np.asarray(decode_with_pillow(same)))
    assert refusal(ARITHMETIC, decode_config=FFMPEG)


def refusal(data: bytes, **keywords: Any) -> str:
    try:
        load(data, **keywords)
    except RuntimeError as error:
        return str(error)
    return ""


# ---- Both ways ---------------------------------------------------------------------------------------------------


OWN_BACKENDS = {
    "PNG": "libdeflate",
    "AVIF": "libavif",
    "TIFF": "libtiff",
    "WEBP": "libwebp",
    "JPEG2000": "openjpeg",
    "BMP": "bmp",
    "GIF": "gif",
    "PPM": "pnm",
}


@pytest.mark.parametrize("file_format", OWN_BACKENDS)
def test_both_ways_of_resizing_agree(file_format: str) -> None:
    image = smooth(400, 300).quantize(128, dither=Image.Dither.NONE) if file_format == "GIF" else smooth(400, 300)
    data = encode(image, file_format, **({"lossless": True} if file_format == "WEBP" else {}))
    backend = OWN_BACKENDS[file_format]
    for mode in ("pad", "stretch", "crop"):
        keywords: dict[str, Any] = {"width": 120, "height": 110, "mode": mode, "interpolation": "bilinear"}
        ours = load_image_batch([data], **keywords)
        theirs = load_image_batch([data], decode_config=FFMPEG, **keywords)
        assert (ours.backends, theirs.backends) == ((backend,), ("ffmpeg",))
        difference = np.abs(to_numpy(ours).astype(int) - to_numpy(theirs))
        assert difference.mean() < 1.5
        assert np.percentile(difference, 99.9) <= 15
