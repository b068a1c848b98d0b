"""TIFF files of every kind against Pillow's pixels, and files that FFmpeg would decode to something else."""

import lzma
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.io.av.ffmpeg import pipe_ffmpeg
from tests.io.image.test_formats import FFMPEG, assert_pillows, load
from tests.io.image_files import tiff, tiff_file
from tests.io.images import decode_with_pillow, encode, make_image

from spdl.io import decode_config, load_image_batch

Entries = dict[int, tuple[int, Sequence[int]] | None]


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1"])
def test_tiff(mode: str, compression: str) -> None:
    assert_pillows(encode(make_image(61, 43).convert(mode), "TIFF", compression=compression))


@pytest.mark.parametrize("compression", ["group3", "group4"])
def test_a_fax(compression: str) -> None:
    assert_pillows(encode(make_image(64, 43).convert("1"), "TIFF", compression=compression))


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr"])
def test_a_tiffs_other_colours_are_a_level_from_pillows_at_most(mode: str) -> None:
    data = encode(make_image(61, 43).convert(mode), "TIFF", compression="tiff_lzw")
    assert np.abs(load(data).astype(int) - decode_with_pillow(data)).max() <= 1


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("rows", [1, 7, 43])
@pytest.mark.parametrize("planar", [False, True])
def test_a_tiff_of_strips(order: str, rows: int, planar: bool) -> None:  # noqa: FBT001
    pixels = np.asarray(make_image(61, 43))
    data = tiff(pixels, order=order, rows=rows, planar=planar)
    np.testing.assert_array_equal(load(data), pixels)
    assert_pillows(data)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("rows", [1, 7, 43])
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("number", [8, 32946])
def test_a_tiff_of_deflated_strips(order: str, rows: int, planar: bool, number: int) -> None:  # noqa: FBT001
    pixels = np.asarray(make_image(61, 43))
    data = tiff(pixels, order=order, rows=rows, planar=planar, compression=number, compress=zlib.compress)
    np.testing.assert_array_equal(load(data), pixels)


def test_a_deflated_tiff_may_fill_its_last_strip_up_and_store_the_lowest_bit_first() -> None:
    pixels = np.asarray(make_image(61, 43))
    full = 10 * 61 * 3
    data = tiff(pixels, rows=10, compression=8, compress=lambda strip: zlib.compress(strip.ljust(full, b"x")))
    np.testing.assert_array_equal(load(data), pixels)

    def turned(strip: bytes) -> bytes:
        stored = np.frombuffer(zlib.compress(strip), np.uint8)
        return np.packbits(np.unpackbits(stored, bitorder="little")).tobytes()

    data = tiff(pixels, rows=10, compression=8, compress=turned, lowest_bit_first=True)
    np.testing.assert_array_equal(load(data), pixels)


def deflated(strips: Sequence[bytes], changes: Entries | None = None, before: bytes = b"") -> bytes:
    """Make a TIFF of 60 rows of 100 bytes, gray, from deflated strips; `changes` are other entries, None for none."""
    starts = [8 + len(before) + sum(map(len, strips[:index])) for index in range(len(strips))]
    entries: Entries = {
        256: (4, [100]),
        257: (4, [60]),
        258: (3, [8]),
        259: (3, [8]),
        262: (3, [1]),
        273: (4, starts),
        277: (3, [1]),
        278: (4, [-(-60 // len(strips))]),
        279: (4, [len(strip) for strip in strips]),
    }
    chosen = {tag: entry for tag, entry in (entries | (changes or {})).items() if entry is not None}
    return tiff_file([(tag, *entry) for tag, entry in sorted(chosen.items())], before + b"".join(strips))


LEVELS = np.random.default_rng(0).integers(0, 256, (60, 100), np.uint8)
PIXELS = zlib.compress(LEVELS.tobytes())


def sub_directory(thumbnail: bytes, compression: int, content: bytes) -> bytes:
    """Make a TIFF whose first directory is a thumbnail and has another below it, with `content`."""
    inner = deflated([content], before=thumbnail)
    (below,) = struct.unpack_from("<I", inner, 4)
    first: Entries = {
        254: (4, [1]),
        259: (3, [compression]),
        273: (4, [8]),
        279: (4, [len(thumbnail)]),
        330: (4, [below]),
    }
    return deflated([inner[8:]], first)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(deflated([PIXELS], {279: None}), id="no size of its one strip"),
        pytest.param(deflated([PIXELS], {279: (4, [0])}), id="a size of 0"),
        pytest.param(deflated([PIXELS], {278: None}), id="no number of rows"),
        pytest.param(deflated([PIXELS], {277: None}), id="no number of samples"),
        pytest.param(deflated([PIXELS[:-1]]), id="half a checksum"),
        pytest.param(deflated([PIXELS[:-4]]), id="no checksum"),
        pytest.param(sub_directory(zlib.compress(b""), 8, PIXELS), id="a thumbnail that ends early"),
        pytest.param(sub_directory(b"no JPEG", 7, PIXELS), id="a thumbnail that FFmpeg does not read"),
    ],
)
def test_a_deflated_tiff_that_says_little_is_read(data: bytes) -> None:
    np.testing.assert_array_equal(load(data)[..., 0], LEVELS)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_a_deflated_tiff_of_few_bits(bits: int) -> None:
    levels = np.random.default_rng(0).integers(0, 1 << bits, (60, 100), np.uint8)
    packed = np.packbits(np.unpackbits(levels[..., None], axis=2)[..., 8 - bits :].reshape(60, -1), axis=1)
    stored = np.frombuffer(zlib.compress(packed.tobytes()), np.uint8)
    turned = np.packbits(np.unpackbits(stored, bitorder="little")).tobytes()
    for strip, order in ((stored.tobytes(), 1), (turned, 2)):
        data = deflated([strip], {258: (3, [bits]), 266: (3, [order])})
        np.testing.assert_array_equal(load(data)[..., 0], levels * (255 // ((1 << bits) - 1)))
    with pytest.raises(RuntimeError, match=r"strip 1 of 1 inflates to less than the \d+ bytes of its rows"):
        load(deflated([zlib.compress(packed.tobytes()[:-1])], {258: (3, [bits])}))


def test_a_deflated_tiff_of_subsampled_chroma() -> None:
    colors = {258: (3, [8, 8, 8]), 262: (3, [6]), 277: (3, [3])}
    content = bytes([90]) * 9000
    gray = load(deflated([zlib.compress(bytes([90] * 4 + [128] * 2) * 1500)], {**colors, 530: (3, [2, 2])}))
    assert np.abs(gray.astype(int) - 90).max() <= 1
    for shared, size in ((None, 18000), ((3, [2, 2]), 9000), ((3, [2, 1]), 12000), ((3, [4, 4]), 6750)):
        with pytest.raises(RuntimeError, match=rf"inflates to less than the {size} bytes of its rows"):
            load(deflated([zlib.compress(content[: min(size - 1, 9000)])], {**colors, 530: shared}))


short = zlib.compress(LEVELS.tobytes()[:-1])
stored_lie = b"\x78\x01\x01" + struct.pack("<HH", 6001, 6001 ^ 0xFFFF) + bytes(30)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (deflated([short]), "strip 1 of 1 inflates to less than the 6000 bytes of its rows"),
        (deflated([zlib.compress(b"")]), "strip 1 of 1 inflates to less than the 6000 bytes"),
        (deflated([b"", b""]), "strip 1 of 2 inflates to less than the 3000 bytes"),
        (deflated([PIXELS[:-9]]), "strip 1 of 1 is damaged, or ends before it has inflated"),
        (deflated([PIXELS[:-1] + b"x"]), "strip 1 of 1 is damaged"),
        (deflated([PIXELS[2:]]), "strip 1 of 1 is damaged"),
        (deflated([stored_lie]), "strip 1 of 1 is damaged"),
        (deflated([zlib.compress(bytes(6000), 9)[:-7]]), "strip 1 of 1 is damaged"),
        (sub_directory(PIXELS, 8, short), "strip 1 of 1 inflates to less"),
        (deflated([PIXELS], {257: (4, [80]), 278: (4, [10])}), "its directory has 1 of the 8 strips that its 80 rows"),
        (
            deflated([PIXELS], {258: (3, [8] * 3), 262: (3, [2]), 277: None, 284: (3, [2])}),
            "its directory has 1 of the 3 strips",
        ),
        (deflated([PIXELS], {273: (4, [9999])}), "strip 1 of 1 is said to have .* bytes from byte 9999 on, of a file"),
        (
            deflated([PIXELS] * 2, {273: (4, [8] * 60), 278: (4, [1]), 279: (4, [len(PIXELS)] * 60)}),
            "strip 3 of 60 is said to have",
        ),
        (deflated([PIXELS], {258: (3, [64] * 5), 277: (3, [5])}), "its pixels are of 5 samples of 64 bits"),
        (
            deflated([PIXELS], {259: (5, [8]), 270: (3, [8])}),
            "its directory's entry 259 is damaged, or not of integers",
        ),
        (
            deflated([PIXELS], {258: (5, [8]), 270: (3, [8])}),
            "its directory's entry 258 is damaged",
        ),
        (
            deflated([short], {t: (4, [13000]) for t in (256, 257, 278)}),
            "strip 1 of 1 inflates to less than the 169000000 bytes",
        ),
    ],
)
def test_a_deflated_tiff_whose_strips_are_not_what_it_says_is_an_error(data: bytes, message: str) -> None:
    # FFmpeg shows what was in memory before.
    with pytest.raises(RuntimeError, match="cannot decode the image as tiff: .*" + message):
        load(data)


@pytest.mark.parametrize("option", ["page", "subimage", "thumbnail"])
def test_the_other_pictures_of_a_tiff_are_looked_at_where_they_are_asked_for(option: str) -> None:
    config = decode_config(decoder_options={option: "1"})
    for data in (sub_directory(PIXELS, 8, short), deflated([short], {254: (4, [1])})):
        with pytest.raises(RuntimeError, match="strip 1 of 1 inflates to less than the 6000 bytes of its rows"):
            load(data, decode_config=config)
    np.testing.assert_array_equal(load(sub_directory(PIXELS, 8, PIXELS), decode_config=config)[..., 0], LEVELS)


def test_a_tiff_of_16_bit_gray() -> None:
    values = np.random.default_rng(0).integers(0, 1 << 16, (43, 61), np.uint16)
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate"):
        data = encode(Image.fromarray(values), "TIFF", compression=compression)
        np.testing.assert_array_equal(load(data), np.repeat(values[..., None] >> 8, 3, 2))


@pytest.mark.parametrize("config", [None, FFMPEG])
@pytest.mark.parametrize("order", ["<", ">"])
def test_what_ffmpeg_does_not_read_in_a_tiff_is_an_error(order: str, config: Any) -> None:
    # It would give a black picture.
    message = "its pixels are stored in tiles, which FFmpeg does not read: store it as a TIFF of strips"
    tiles = tiff(np.asarray(make_image(61, 43)), order=order, tile=(16, 32))
    with pytest.raises(RuntimeError, match=message):
        load(tiles, decode_config=config)
    with pytest.raises(RuntimeError, match=message):
        load_image_batch([tiles], width=8, height=8, decode_config=config)
    with pytest.raises(RuntimeError, match="its pixels are compressed as JPEG, which FFmpeg does not read"):
        load(encode(make_image(61, 43), "TIFF", compression="jpeg"), decode_config=config)
    with pytest.raises(
        RuntimeError, match="its pixels are compressed with LZMA, of which FFmpeg takes no notice where"
    ):
        load(tiff(np.asarray(make_image(61, 43)), compression=34925, compress=lzma.compress), decode_config=config)
    gray = tiff(np.zeros((8, 8, 1), np.uint8), order=order, lowest_bit_first=True)
    few = gray.replace(struct.pack(order + "HHIH", 258, 3, 1, 8), struct.pack(order + "HHIH", 258, 3, 1, 4))
    with pytest.raises(RuntimeError, match="its pixels are of 2 or 4 bits, the lowest of a byte first, which FFmpeg"):
        load(few, decode_config=config)


# ---- What its samples are ------------------------------------------------------------------------------------------

SAMPLES = np.random.default_rng(1).integers(0, 256, (60, 100, 4), np.uint8)


def stored(samples: Any, changes: Entries) -> bytes:
    """Make a TIFF of 100x60 pixels, without compression, from what its strip holds; `changes` as for `deflated`."""
    content = samples if isinstance(samples, bytes) else samples.tobytes()
    count = samples.shape[2] if getattr(samples, "ndim", 2) == 3 else 1
    bits = 8 if isinstance(samples, bytes) else 8 * samples.itemsize
    return deflated([content], {258: (3, [bits] * count), 259: (3, [1]), 277: (3, [count]), **changes})


RGB_TIFF: Entries = {262: (3, [2])}


ALL_LEVELS, LEVELS_OF_VIDEO = (0, 255, 128, 255, 128, 255), (16, 235, 128, 240, 128, 240)


def ycbcr(samples: Any, levels: Sequence[int], denominator: int = 1) -> bytes:
    """Return a TIFF of YCbCr that says which samples are black and white."""
    fractions = [part for level in levels for part in (level * denominator, denominator)]
    said: Entries = {262: (3, [6]), 530: (3, [1, 1]), 532: (5, fractions)}
    return deflated([zlib.compress(samples.tobytes())], {258: (3, [8] * 3), 277: (3, [3]), **said})


@pytest.mark.parametrize("levels", [ALL_LEVELS, LEVELS_OF_VIDEO])
@pytest.mark.parametrize("denominator", [1, 1000])
def test_black_and_white_may_have_the_levels_of_video(levels: Sequence[int], denominator: int) -> None:
    samples = np.asarray(make_image(100, 60).convert("YCbCr"))
    black, white, gray, most = levels[:4]
    luma = (samples[..., 0].astype(float) - black) * 255 / (white - black)
    blue, red = ((samples[..., i].astype(float) - gray) * 127 / (most - gray) for i in (1, 2))
    # ITU-R BT.601.
    expected = np.stack([luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue], -1)
    found = load(ycbcr(samples, levels, denominator))
    assert np.abs(found - expected.clip(0, 255)).max() <= 2
    assert np.abs(found.astype(int) - decode_with_pillow(ycbcr(samples, levels))).max() <= 4  # libtiff is less exact.


def test_a_tiff_written_by_ffmpeg() -> None:
    image = make_image(64, 48)
    options = ("-f", "rawvideo", "-s", "64x48", "-pix_fmt", "rgb24", "-i", "-", "-pix_fmt", "yuv444p")
    data = pipe_ffmpeg(image.tobytes(), *options, "-c:v", "tiff", "-f", "image2pipe", "-")
    assert np.abs(load(data).astype(int) - decode_with_pillow(data)).max() <= 3  # It writes a black of 15, not 16.
    assert np.abs(load(data).astype(int) - np.asarray(image)).max() <= 4


def test_other_levels_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="black and white are neither 0 and 255 nor 16 and 235"):
        load(ycbcr(np.zeros((60, 100, 3), np.uint8), (0, 219, 128, 240, 128, 240)))


@pytest.mark.parametrize("config", [None, FFMPEG])
def test_colours_that_were_multiplied_by_alpha_are_divided(config: Any) -> None:
    samples = SAMPLES.copy()
    samples[:20, :, 3] = np.array([0, 1, 128, 254, 255])[np.arange(100) % 5]
    data = stored(samples, {**RGB_TIFF, 338: (3, [1])})
    np.testing.assert_array_equal(load(data, decode_config=config), np.asarray(decode_with_pillow(data)))
    for kind in (0, 2):
        assert_pillows(stored(samples, {**RGB_TIFF, 338: (3, [kind])}))


def test_a_tiff_need_not_say_how_many_rows_a_strip_has() -> None:
    assert_pillows(stored(SAMPLES[..., :3], {**RGB_TIFF, 278: None}))


def test_differences_are_not_undone_where_nothing_is_compressed() -> None:
    assert_pillows(stored(SAMPLES[..., :3], {**RGB_TIFF, 317: (3, [2])}))


def test_notes_that_are_damaged_do_not_matter() -> None:
    notes: Entries = {270: (4, [1, 2, 3]), 282: (3, [7]), 305: (3, [1] * 40), 700: (4, [1] * 9), 34665: (4, [99999999])}
    np.testing.assert_array_equal(load(stored(SAMPLES[..., :3], {**RGB_TIFF, **notes})), SAMPLES[..., :3])
    text = stored(SAMPLES[..., :3], {**RGB_TIFF, 270: (4, [10**6] * 2)})
    entry = text.index(struct.pack("<HHI", 270, 4, 2))
    far = text[: entry + 2] + struct.pack("<HII", 2, 10**6, 10**6) + text[entry + 12 :]
    np.testing.assert_array_equal(load(far), SAMPLES[..., :3])


PALETTE = (3, list(range(0, 768 * 85, 85)))
UNREAD: dict[str, tuple[bytes, str]] = {
    "CMYK of 16 bits": (stored(SAMPLES.astype(np.uint16), {262: (3, [5])}), "of 4 samples of 16 bits in the colour"),
    "a palette with alpha": (
        stored(SAMPLES[..., :2], {262: (3, [3]), 320: PALETTE, 338: (3, [2])}),
        "of 2 samples of 8 bits in the colour space 3",
    ),
    "a palette without colours": (stored(SAMPLES[..., 0], {262: (3, [3])}), "indices of colours that it does not"),
    "too few colours": (
        stored(SAMPLES[..., 0], {262: (3, [3]), 320: (3, [1] * 767)}),
        "indices of colours that it does not have",
    ),
    "gray multiplied by alpha": (
        stored(SAMPLES[..., :2], {338: (3, [1])}),
        "of 2 samples, multiplied by alpha, of 8 bits",
    ),
    "16 bits multiplied by alpha": (
        stored(SAMPLES.astype(np.uint16), {**RGB_TIFF, 338: (3, [1])}),
        "of 4 samples, multiplied by alpha, of 16 bits",
    ),
    "planes multiplied by alpha": (
        stored(SAMPLES, {**RGB_TIFF, 338: (3, [1]), 284: (3, [2])}),
        "of 4 samples, multiplied by alpha, of 8 bits",
    ),
    "Lab": (stored(SAMPLES[..., :3], {262: (3, [8])}), "of 3 samples of 8 bits in the colour space 8"),
    "signed samples": (stored(SAMPLES[..., 0], {339: (3, [2])}), "of signed or floating-point samples"),
    "floats": (stored(SAMPLES[..., 0].astype(np.float32), {339: (3, [3])}), "of signed or floating-point samples"),
    "different bits": (stored(SAMPLES[..., :3], {**RGB_TIFF, 258: (3, [8, 8, 4])}), "of samples that have different"),
    "no meaning": (stored(SAMPLES[..., 0], {262: None}), "of samples of unknown meaning"),
    "a raw photo": (stored(SAMPLES[..., 0], {50706: (4, [1])}), "those of a raw photo"),
    "planes of no kind": (stored(SAMPLES[..., :3], {**RGB_TIFF, 284: (3, [3])}), r"laid out in a way \(number 3\)"),
    "JPEG 2000": (stored(SAMPLES[..., 0], {259: (3, [34712])}), r"compressed in a way \(number 34712\)"),
    "old LZW": (
        stored(b"\0\1" + bytes(6000), {259: (3, [5])}),
        "compressed with LZW of the old style, which FFmpeg does not read",
    ),
    "differences of 4 bits": (
        deflated([zlib.compress(bytes(3000))], {258: (3, [4]), 317: (3, [2])}),
        "differences of samples that have neither 8 nor 16 bits",
    ),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_pixels_that_ffmpeg_takes_for_others_are_an_error(kind: str) -> None:
    data, reason = UNREAD[kind]
    with pytest.raises(RuntimeError, match=f"cannot decode the image as tiff: its pixels are {reason}"):
        load(data)


def test_a_tiff_that_ends_within_its_directory_is_an_error() -> None:
    data = stored(SAMPLES[..., :3], {**RGB_TIFF, 258: (3, [8] * 3)})
    at = struct.unpack_from("<I", data, 4)[0]
    with pytest.raises(RuntimeError, match="cannot decode the image as tiff: it ends before its directory does"):
        load(data[: at + 2 + 12 * 5])
    with pytest.raises(RuntimeError, match="its directory's entry 258 is damaged"):
        load(data[:-4])


def test_damaged_lzw_is_an_error() -> None:
    image = make_image(61, 43)
    data = encode(image, "TIFF", compression="tiff_lzw")
    refused = 0
    for at in range(9, 4000, 37):
        damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        try:
            expected = np.asarray(decode_with_pillow(damaged))
        except OSError:
            with pytest.raises(RuntimeError, match="cannot decode the image as tiff"):
                load(damaged)
            refused += 1
        else:
            np.testing.assert_array_equal(load(damaged), expected)
    assert refused > 20
