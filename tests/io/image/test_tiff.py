"""TIFF files of every kind: Pillow's pixels, and where Pillow does not read them, those that were written."""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.io.av.ffmpeg import pipe_ffmpeg
from tests.io.image.test_formats import assert_pillows, load
from tests.io.image_files import tiff, tiff_file
from tests.io.images import Array, encode, make_image, make_jpeg
from tests.io.tiff_files import (
    LEVELS,
    PALETTE,
    PIXELS,
    RGB,
    SAMPLES,
    Entries,
    deflated,
    packed,
    planes,
    stored,
    sub_directory,
)

from spdl.io import decode_config, load_image, load_image_batch, to_numpy

FILTERS = ["raw", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits", "zstd"]
WIDE = SAMPLES.astype(np.uint16) << 8 | SAMPLES[::-1]


@pytest.mark.parametrize("compression", FILTERS)
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "CMYK", "I", "F"])
def test_every_mode_of_pillows(mode: str, compression: str) -> None:
    for big in (False, True):
        assert_pillows(encode(make_image(61, 43).convert(mode), "TIFF", compression=compression, big_tiff=big))


@pytest.mark.parametrize("compression", ["group3", "group4", "tiff_ccitt"])
def test_a_fax(compression: str) -> None:
    assert_pillows(encode(make_image(64, 43).convert("1"), "TIFF", compression=compression))


# ---- YCbCr and JPEG ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "YCbCr"])
def test_jpeg_inside(mode: str) -> None:
    assert_pillows(encode(make_image(61, 43).convert(mode), "TIFF", compression="jpeg"))


def test_old_style_jpeg_inside() -> None:
    jpeg = make_jpeg(61, 43)
    entries = {256: [61], 257: [43], 258: [8] * 3, 259: [6], 262: [6], 277: [3], 278: [43], 530: [2, 2]}
    ends = {273: [8], 279: [len(jpeg)], 513: [8], 514: [len(jpeg)]}
    assert_pillows(tiff_file(sorted((tag, 3, values) for tag, values in (entries | ends).items()), jpeg))


@pytest.mark.parametrize("compression", FILTERS)
def test_ycbcr(compression: str) -> None:
    assert_pillows(encode(make_image(61, 43).convert("YCbCr"), "TIFF", compression=compression))


@pytest.mark.parametrize("compression", [1, 8])
@pytest.mark.parametrize("shared", [(2, 2), (2, 1), (4, 2)])
def test_subsampled_chroma_of_odd_sides(shared: tuple[int, int], compression: int) -> None:
    # What lies beyond the sides is 0.
    wide, high = shared
    luma = np.zeros((-(-3 // high) * high, -(-5 // wide) * wide), np.uint8)
    luma[:3, :5] = 150
    blocks = luma.reshape(luma.shape[0] // high, high, -1, wide).transpose(0, 2, 1, 3).reshape(-1, high * wide)
    units = np.hstack([blocks, np.full((len(blocks), 2), 128, np.uint8)])
    content = units.tobytes() if compression == 1 else zlib.compress(units.tobytes())
    entries = {
        256: [5],
        257: [3],
        258: [8] * 3,
        259: [compression],
        262: [6],
        273: [8],
        277: [3],
        278: [4],
        530: shared,
    }
    data = tiff_file(sorted((tag, 3, values) for tag, values in (entries | {279: [len(content)]}).items()), content)
    np.testing.assert_array_equal(load(data), np.full((3, 5, 3), 150, np.uint8))
    if compression == 8:
        assert_pillows(data)


ALL_LEVELS, LEVELS_OF_VIDEO, OTHER = (
    (0, 255, 128, 255, 128, 255),
    (16, 235, 128, 240, 128, 240),
    (0, 219, 128, 240, 128, 240),
)


@pytest.mark.parametrize("levels", [ALL_LEVELS, LEVELS_OF_VIDEO, OTHER])
def test_black_and_white_may_have_other_levels(levels: Sequence[int]) -> None:
    samples = np.asarray(make_image(100, 60).convert("YCbCr"))
    said: Entries = {262: (3, [6]), 530: (3, [1, 1]), 532: (5, [part for level in levels for part in (level, 1)])}
    data = deflated([zlib.compress(samples.tobytes())], {258: (3, [8] * 3), 277: (3, [3]), **said})
    assert_pillows(data)
    black, white, gray, most = levels[:4]
    luma = (samples[..., 0].astype(float) - black) * 255 / (white - black)
    blue, red = ((samples[..., i].astype(float) - gray) * 127 / (most - gray) for i in (1, 2))
    # ITU-R BT.601.
    expected = np.stack([luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue], -1)
    assert np.abs(load(data) - expected.clip(0, 255)).max() <= 5  # libtiff is less exact.


def test_a_tiff_written_by_ffmpeg() -> None:
    image = make_image(64, 48)
    options = ("-f", "rawvideo", "-s", "64x48", "-pix_fmt", "rgb24", "-i", "-", "-pix_fmt", "yuv420p")
    data = pipe_ffmpeg(image.tobytes(), *options, "-c:v", "tiff", "-f", "image2pipe", "-")
    assert_pillows(data)


# ---- Strips, tiles and planes --------------------------------------------------------------------------------------


LAYOUTS: list[dict[str, Any]] = [
    *({"rows": rows} for rows in (1, 7, 43)),
    {"rows": 7, "planar": True},
    *({"tile": tile} for tile in ((16, 16), (32, 16), (64, 128))),
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("number", [1, 8, 32946])
@pytest.mark.parametrize("bits", [8, 16])
def test_strips_and_tiles(order: str, layout: Any, number: int, bits: int) -> None:
    pixels = np.asarray(make_image(61, 43))
    wide = pixels if bits == 8 else pixels.astype(np.uint16) << 8 | 0x5A
    how: dict[str, Any] = {} if number == 1 else {"compression": number, "compress": zlib.compress}
    np.testing.assert_array_equal(load(tiff(wide, order=order, **layout, **how)), pixels)


@pytest.mark.parametrize("layout", [{"rows": 5}, {"tile": (16, 16)}, {"rows": 9, "planar": True}], ids=str)
def test_a_crop_is_that_of_the_whole_picture(layout: Any) -> None:
    ycbcr = encode(make_image(61, 43).convert("YCbCr"), "TIFF", compression="tiff_lzw")
    for data in (tiff(np.asarray(make_image(61, 43)), **layout), ycbcr):
        batch = load_image_batch([data], width=30, height=20, crop=[(17, 13, 47, 33)])
        np.testing.assert_array_equal(to_numpy(batch)[0], load(data)[13:33, 17:47])


def test_a_deflated_tiff_may_fill_its_last_strip_up_and_store_the_lowest_bit_first() -> None:
    pixels = np.asarray(make_image(61, 43))
    full = 10 * 61 * 3
    data = tiff(pixels, rows=10, compression=8, compress=lambda strip: zlib.compress(strip.ljust(full, b"x")))
    np.testing.assert_array_equal(load(data), pixels)

    def turned(strip: bytes) -> bytes:
        content = np.frombuffer(zlib.compress(strip), np.uint8)
        return np.packbits(np.unpackbits(content, bitorder="little")).tobytes()

    data = tiff(pixels, rows=10, compression=8, compress=turned, lowest_bit_first=True)
    np.testing.assert_array_equal(load(data), pixels)


def test_runs_of_packbits_may_go_on_over_the_ends_of_rows() -> None:
    run = bytes([129, 200]) * 46 + bytes([145, 200])  # 6,000 times 200.
    data = stored(run, {259: (3, [32773])})
    np.testing.assert_array_equal(load(data), np.full((60, 100, 3), 200, np.uint8))
    assert_pillows(data)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("samples", [SAMPLES[..., :1], SAMPLES[..., :3], SAMPLES, WIDE[..., :3]])
def test_differences(samples: Any, order: str) -> None:
    differences = samples.copy()
    differences[:, 1:] -= samples[:, :-1]
    said: Entries = {258: (3, [8 * samples.itemsize] * samples.shape[2]), 277: (3, [samples.shape[2]]), 317: (3, [2])}
    said |= RGB if samples.shape[2] > 1 else {}
    content = differences.astype(differences.dtype.newbyteorder(order)).tobytes()
    data = deflated([zlib.compress(content)], said, order=order)
    expected = samples[..., :3] if samples.itemsize == 1 else samples >> 8
    np.testing.assert_array_equal(load(data), np.broadcast_to(expected, (60, 100, 3)))
    assert_pillows(data)


def test_differences_of_floats() -> None:
    values = np.random.default_rng(0).uniform(-20, 280, (60, 100)).astype(np.float32)
    rows = values.astype(">f4").view(np.uint8).reshape(60, 100, 4).transpose(0, 2, 1).reshape(60, 400)
    differences = np.diff(rows, axis=1, prepend=np.uint8(0))
    data = deflated([zlib.compress(differences.tobytes())], {258: (3, [32]), 317: (3, [3]), 339: (3, [3])})
    np.testing.assert_array_equal(load(data)[..., 0], values.clip(0, 255).astype(np.uint8))
    assert_pillows(data)


def test_differences_are_not_undone_where_nothing_is_compressed() -> None:
    assert_pillows(stored(SAMPLES[..., :3], {**RGB, 317: (3, [2])}))


# ---- What the samples are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 7, 10, 12, 14])
@pytest.mark.parametrize("lowest_first", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_samples_of_any_number_of_bits(bits: int, lowest_first: bool, count: int) -> None:  # noqa: FBT001
    levels = np.random.default_rng(0).integers(0, 1 << bits, (60, 100, count))
    said: Entries = {258: (3, [bits] * count), 266: (3, [2 if lowest_first else 1]), 277: (3, [count])}
    said |= RGB if count == 3 else {}
    content = packed(levels, bits, lowest_first=lowest_first)
    most = (1 << bits) - 1
    bytes_ = (levels * 255 + most // 2) // most if bits < 8 else levels >> (bits - 8)
    for white in (False, True) if count == 1 else (False,):
        meaning: Entries = {262: (3, [0])} if white else {}
        expected = np.broadcast_to(255 - bytes_ if white else bytes_, (60, 100, 3))
        np.testing.assert_array_equal(load(stored(content, said | meaning)), expected)
        inflated = deflated([zlib.compress(packed(levels, bits))], {**said, **meaning, 266: None})
        np.testing.assert_array_equal(load(inflated), expected)


@pytest.mark.parametrize("order", ["<", ">"])
def test_16_bits(order: str) -> None:
    for samples, said in ((WIDE[..., :1], {}), (WIDE[..., :3], RGB), (WIDE, {**RGB, 338: (3, [2])})):
        data = stored(samples, said, order)
        np.testing.assert_array_equal(load(data), np.broadcast_to(samples[..., :3] >> 8, (60, 100, 3)))
        np.testing.assert_array_equal(to_numpy(load_image(data, filter_desc=None)), samples)
    white = stored(WIDE[..., :1], {262: (3, [0])}, order)
    np.testing.assert_array_equal(load(white)[..., :1], 255 - (WIDE[..., :1] >> 8))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("kind", "code"), [("i2", 2), ("i4", 2), ("u4", 1), ("f4", 3), ("f8", 3)])
def test_numbers_without_a_range_are_clipped(kind: str, code: int, order: str) -> None:
    values = np.random.default_rng(0).normal(120, 120, (60, 100, 1))
    values = values.clip(0) if code == 1 else values
    numbers = values.astype(kind)
    numbers[0, :5, 0] = [0, 1, 254, 255, 256]
    data = stored(numbers, {339: (3, [code])}, order)
    np.testing.assert_array_equal(load(data)[..., :1], numbers.clip(0, 255).astype(np.uint8))
    if kind == "i2" or (order == "<" and kind != "f8"):
        assert_pillows(data)


def test_what_is_no_number_is_black() -> None:
    values = np.full((60, 100, 1), np.nan, np.float32)
    values[0, :2, 0] = [np.inf, -np.inf]
    assert load(stored(values, {339: (3, [3])}))[..., 0].sum() == 255


@pytest.mark.parametrize("make", [stored, planes])
@pytest.mark.parametrize("order", ["<", ">"])
def test_palettes_with_alpha(make: Any, order: str) -> None:
    colors = np.array(PALETTE[1]).reshape(3, 256).T >> 8
    data = make(SAMPLES[..., :2], {262: (3, [3]), 320: PALETTE, 338: (3, [2])}, order)
    np.testing.assert_array_equal(load(data), colors[SAMPLES[..., 0]])
    rgba = to_numpy(load_image(data, filter_desc=None))
    np.testing.assert_array_equal(rgba, np.dstack([colors[SAMPLES[..., 0]], SAMPLES[..., 1]]))


def divided(samples: Array) -> Array:
    """Divide colours by alpha, whatever there is below no alpha being 0, but gray being kept."""
    most = np.iinfo(samples.dtype).max
    colors, alpha = samples[..., :-1].astype(np.int64), samples[..., -1:].astype(np.int64)
    quotient = np.minimum(most, colors * most // np.maximum(alpha, 1))
    nothing = colors if colors.shape[2] == 1 else 0
    return np.dstack([np.where(alpha == 0, nothing, quotient), alpha]).astype(samples.dtype)


@pytest.mark.parametrize("make", [stored, planes])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize(
    "samples", [SAMPLES, WIDE, SAMPLES[..., 2:], WIDE[..., 2:]], ids=["RGB", "RGB16", "gray", "gray16"]
)
def test_alpha(make: Any, order: str, kind: int, samples: Any) -> None:
    samples = samples.copy()
    most = int(np.iinfo(samples.dtype).max)
    samples[:20, :, -1] = np.array([0, 1, 128, most - 1, most])[np.arange(100) % 5]
    said = RGB if samples.shape[2] == 4 else {}
    data = make(samples, {**said, 338: (3, [kind])}, order)
    expected = divided(samples) if kind == 1 else samples[..., :-1] if kind == 0 else samples
    np.testing.assert_array_equal(to_numpy(load_image(data, filter_desc=None)), expected)
    # Of 16 bits, the upper halves are divided, as in Pillow.
    narrow = samples if samples.itemsize == 1 else (samples >> 8).astype(np.uint8)
    shown = (divided(narrow) if kind == 1 else narrow)[..., :-1]
    np.testing.assert_array_equal(load(data), np.broadcast_to(shown, (60, 100, 3)))
    if samples.shape[2] == 4 and make is stored:
        assert_pillows(data)


@pytest.mark.parametrize("make", [stored, planes])
@pytest.mark.parametrize("order", ["<", ">"])
def test_cmyk(make: Any, order: str) -> None:
    for samples in (SAMPLES, WIDE):
        inks = samples if samples is SAMPLES else (samples >> 8).astype(np.uint8)
        right = np.asarray(Image.fromarray(inks, "CMYK").convert("RGB"))
        np.testing.assert_array_equal(load(make(samples, {262: (3, [5])}, order)), right)


@pytest.mark.parametrize("make", [stored, planes])
def test_samples_beyond_the_colours_are_left_out(make: Any) -> None:
    more = np.dstack([SAMPLES, SAMPLES[::-1]])
    np.testing.assert_array_equal(load(make(more[..., :6], {**RGB, 338: (3, [0, 0, 2])})), SAMPLES[..., :3])
    rgba = to_numpy(load_image(make(more[..., :6], {**RGB, 338: (3, [0, 0, 2])}), filter_desc=None))
    np.testing.assert_array_equal(rgba, more[..., [0, 1, 2, 5]])


# ---- Which picture -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thumbnail", [zlib.compress(b""), b"no picture"])
def test_below_a_thumbnail_is_the_picture(thumbnail: bytes) -> None:
    np.testing.assert_array_equal(load(sub_directory(thumbnail, 8, PIXELS))[..., 0], LEVELS)


def test_the_first_of_several_pictures_is_read() -> None:
    others = [make_image(20, 30, seed) for seed in (1, 2)]
    data = encode(make_image(61, 43), "TIFF", save_all=True, append_images=others, compression="tiff_lzw")
    with pytest.warns(UserWarning, match="several pages"):
        assert_pillows(data)


def test_ffmpeg_reads_a_tiff_if_it_is_asked_to() -> None:
    pixels = np.asarray(make_image(61, 43))
    data = encode(make_image(61, 43), "TIFF", compression="tiff_lzw")
    np.testing.assert_array_equal(load(data, decode_config=decode_config(backend="ffmpeg")), pixels)
    np.testing.assert_array_equal(load(data, decode_config=decode_config(backend="libtiff")), pixels)
    with pytest.raises(RuntimeError, match="libtiff decodes TIFF only"):
        load(encode(make_image(61, 43), "PNG"), decode_config=decode_config(backend="libtiff"))


def test_a_tiff_need_not_say_much() -> None:
    for missing in ({279: None}, {279: (4, [0])}, {278: None}, {277: None}):
        np.testing.assert_array_equal(load(deflated([PIXELS], missing))[..., 0], LEVELS)
    assert_pillows(stored(SAMPLES[..., :3], {**RGB, 278: None}))
    assert_pillows(stored(SAMPLES[..., 0], {262: None}))  # 0 is white then.
    notes: Entries = {270: (4, [1, 2, 3]), 282: (3, [7]), 305: (3, [1] * 40), 700: (4, [1] * 9), 34665: (4, [99999999])}
    np.testing.assert_array_equal(load(stored(SAMPLES[..., :3], {**RGB, **notes})), SAMPLES[..., :3])
    text = stored(SAMPLES[..., :3], {**RGB, 270: (4, [10**6] * 2)})
    entry = text.index(struct.pack("<HHI", 270, 4, 2))
    far = text[: entry + 2] + struct.pack("<HII", 2, 10**6, 10**6) + text[entry + 12 :]
    np.testing.assert_array_equal(load(far), SAMPLES[..., :3])
