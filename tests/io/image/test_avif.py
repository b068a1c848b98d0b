"""AVIF, against Pillow: every way to store pixels, boxes in unusual orders, sequences, damage and limits."""

import io
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, UnidentifiedImageError
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.avif_files import Item, avif, box, cut_out, find_box, full_box, grid, picture
from tests.io.image.mutated_files import compare_with_pillow
from tests.io.images import Array, decode_with_pillow, encode, make_image

from spdl.io import (
    convert_frames,
    decode_config,
    decode_packets,
    demux_image,
    load_image,
    load_image_batch,
    to_numpy,
)
from spdl.io.utils import get_entropy_decoder

# Whether the libraries are the pinned ones.
PINNED = get_entropy_decoder() == "own"
IMAGE = make_image(61, 43)
ALPHA = Image.merge("RGBA", (*IMAGE.split(), make_image(61, 43, 1).getchannel(0)))
SUBSAMPLINGS = ["4:0:0", "4:2:0", "4:2:2", "4:4:4"]


def load(data: bytes, **keywords: Any) -> Array:
    buffer = load_image(data, **keywords)
    assert buffer.backends == ("libavif",)
    array: Array = to_numpy(buffer)
    return array


def pillows(data: bytes) -> Array:
    with Image.open(io.BytesIO(data)) as file:
        return np.asarray(file.convert("RGBA"))


def assert_pillows(data: bytes) -> None:
    expected = pillows(data)
    np.testing.assert_array_equal(load(data), expected[..., :3])
    np.testing.assert_array_equal(load(data, filter_desc="format=rgba"), expected)
    np.testing.assert_array_equal(to_numpy(load_image_batch([data], width=None, height=None))[0], expected[..., :3])


# ---- Pixels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", ["full", "limited"])
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("image", [IMAGE, ALPHA], ids=["RGB", "RGBA"])
def test_each_subsampling(image: Image.Image, subsampling: str, span: str) -> None:
    assert_pillows(encode(image, "AVIF", subsampling=subsampling, range=span, quality=90))


@settings(deadline=None, max_examples=60)
@given(
    size=st.tuples(st.integers(1, 140), st.integers(1, 140)),
    mode=st.sampled_from(["L", "RGB", "RGBA", "LA"]),
    options=st.fixed_dictionaries(
        {
            "subsampling": st.sampled_from(SUBSAMPLINGS),
            "range": st.sampled_from(["full", "limited"]),
            "quality": st.sampled_from([1, 50, 100]),
            "alpha_premultiplied": st.booleans(),
            "autotiling": st.booleans(),
            "tile_rows": st.integers(0, 2),
        }
    ),
    colors=st.none() | st.tuples(st.sampled_from([1, 2, 5, 6, 9, 12]), st.sampled_from([1, 2, 5, 6, 8, 9, 12])),
)
def test_any_picture(size: tuple[int, int], mode: str, options: dict[str, Any], colors: tuple[int, int] | None) -> None:
    image = Image.merge("RGBA", (*make_image(*size).split(), make_image(*size, 1).getchannel(0))).convert(mode)
    data = bytearray(encode(image, "AVIF", speed=10, **options))
    if colors is not None:
        primaries, matrix = colors
        said = data.index(b"nclx") + 4
        struct.pack_into(">H", data, said, primaries)
        struct.pack_into(">HB", data, said + 4, matrix, 0x80)
    assert_pillows(bytes(data))


MATRICES = {"BT.709": 1, "FCC": 4, "SMPTE 240M": 7, "YCgCo": 8, "BT.2020": 9, "from the primaries": 12, "identity": 0}


@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
def test_each_matrix(matrix: int) -> None:
    data = bytearray(encode(IMAGE, "AVIF", subsampling="4:4:4"))
    plain = load(bytes(data))
    struct.pack_into(">H", data, data.index(b"nclx") + 8, matrix)
    assert_pillows(bytes(data))
    assert (load(bytes(data)) != plain).any()


@pytest.mark.parametrize("matrix", [3, 10, 11, 14])
def test_colours_that_are_not_known_are_an_error(matrix: int) -> None:
    data = bytearray(encode(IMAGE, "AVIF"))
    struct.pack_into(">H", data, data.index(b"nclx") + 8, matrix)
    with pytest.raises(RuntimeError, match="cannot decode the AVIF: its samples stand for colours in a way"):
        load(bytes(data))


def test_gray_of_limited_range_has_all_levels() -> None:
    ramp = np.repeat(np.arange(0, 256, 15).astype(np.uint8), 16)[np.newaxis].repeat(16, 0)
    data = encode(Image.fromarray(ramp), "AVIF", quality=100, range="limited")
    assert_pillows(data)
    assert np.abs(load(data)[..., 0].astype(int) - ramp).max() <= 2


def test_colours_that_are_multiplied_by_alpha_are_divided() -> None:
    flat = Image.new("RGBA", (16, 16), (200, 100, 50, 64))
    data = encode(flat, "AVIF", quality=100, subsampling="4:4:4", alpha_premultiplied=True)
    assert_pillows(data)
    assert np.abs(load(data)[8, 8].astype(int) - (200, 100, 50)).max() <= 4


@pytest.mark.parametrize(
    ("image", "pixel_format"), [(IMAGE.convert("L"), "gray"), (IMAGE, "rgb24"), (ALPHA, "rgba")], ids=["L", "RGB", "A"]
)
def test_the_stored_format_has_gray_colours_or_alpha(image: Image.Image, pixel_format: str) -> None:
    data = encode(image, "AVIF")
    packets = demux_image(data)
    codec = packets.codec
    assert (codec.name, codec.width, codec.height, codec.pix_fmt) == ("av1", 61, 43, pixel_format)
    frames = decode_packets(packets, None)
    assert (frames.pix_fmt, frames.backend) == (pixel_format, "libavif")
    with Image.open(io.BytesIO(data)) as file:
        expected = np.asarray(file)
    np.testing.assert_array_equal(to_numpy(convert_frames(frames)).reshape(expected.shape), expected)


SAME = ("-colorspace", "rgb", "-color_range", "pc")
"""The three planes are what they are called."""


@pytest.mark.parametrize("bits", [10, 12])
def test_more_than_8_bits(bits: int, tmp_path: Path) -> None:
    most = (1 << bits) - 1
    pixels = np.random.default_rng(0).integers(0, most + 1, (32, 48, 3), np.uint16)
    raw, file = tmp_path / "raw", tmp_path / "image.avif"
    # The planes are green, blue and red.
    raw.write_bytes(pixels[..., [1, 2, 0]].transpose(2, 0, 1).astype("<u2").tobytes())
    encoder = need_encoder("libaom-av1")
    stored = ("-f", "rawvideo", "-pix_fmt", f"gbrp{bits}le", "-s", "48x32", "-i", raw)
    run_ffmpeg(
        *stored, "-c:v", encoder, "-aom-params", "lossless=1", "-cpu-used", "8", "-still-picture", "1", *SAME, file
    )
    data = file.read_bytes()
    # By default, as Pillow rounds them.
    np.testing.assert_array_equal(load(data), pillows(data)[..., :3])
    assert np.abs(load(data) - pixels * (255 / most)).max() < 1
    whole = load(data, filter_desc=None)
    assert whole.dtype == np.uint16
    assert np.abs(whole - pixels * (65535 / most)).max() < 1.1


# ---- Boxes -------------------------------------------------------------------------------------------------------

PLAIN = picture(IMAGE)


@pytest.mark.parametrize("extents", [1, 2, 5])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("pitm_last", [False, True])
def test_wherever_the_data_lie(pitm_last: bool, inside: bool, extents: int) -> None:  # noqa: FBT001
    item = Item(PLAIN.kind, PLAIN.data, PLAIN.properties, extents=extents)
    data = avif([item], pitm_last=pitm_last, inside=inside)
    assert_pillows(data)
    np.testing.assert_array_equal(load(data), load(encode(IMAGE, "AVIF")))


@pytest.mark.parametrize(("columns", "size"), [(1, (64, 250)), (2, (120, 100)), (4, (256, 64))])
@pytest.mark.parametrize("subsampling", ["4:2:0", "4:4:4"])
def test_a_grid_of_tiles(subsampling: str, columns: int, size: tuple[int, int]) -> None:
    images = [make_image(64, 64, seed) for seed in range(4)]
    tiles = [picture(image, subsampling=subsampling) for image in images]
    data = avif(grid(tiles, columns, size))
    assert_pillows(data)
    rows = [np.hstack([load(avif([tile])) for tile in tiles[row : row + columns]]) for row in range(0, 4, columns)]
    # Where chroma is interpolated, it is so across the borders of the tiles.
    difference = np.abs(load(data).astype(int) - np.vstack(rows)[: size[1], : size[0]])
    assert difference.mean() < (1 if subsampling == "4:2:0" else 1e-9)


def test_what_is_outside_the_clean_aperture_is_cut_off() -> None:
    whole = load(avif([PLAIN]))
    # 30x20 pixels, whose centre is 2.5 left of the picture's and 3.5 below.
    data = avif([cut_out(PLAIN, 30, 1, 20, 1, -5, 2, 7, 2)])
    np.testing.assert_array_equal(load(data), whole[15:35, 13:43])
    np.testing.assert_array_equal(load(data, filter_desc=None), whole[15:35, 13:43])
    resized = to_numpy(load_image_batch([data], width=15, height=10, mode="stretch", interpolation="bilinear"))[0]
    expected = Image.fromarray(whole[15:35, 13:43]).resize((15, 10), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(resized, np.asarray(expected))


@pytest.mark.parametrize(
    "numbers", [(30, 0, 20, 1, 0, 1, 0, 1), (61, 2, 20, 1, 0, 1, 0, 1), (60, 1, 20, 1, 40, 1, 0, 1)]
)
def test_a_clean_aperture_that_makes_no_sense_is_passed_over(numbers: tuple[int, ...]) -> None:
    assert_pillows(avif([cut_out(PLAIN, *numbers)]))


@pytest.mark.parametrize("angle", range(4))
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_part_is_cut_out_and_then_turned(axis: int | None, angle: int) -> None:
    turn = (box(b"irot", bytes((angle,))), *(() if axis is None else (box(b"imir", bytes((axis,))),)))
    whole = Item(PLAIN.kind, PLAIN.data, PLAIN.properties + turn)
    assert_pillows(avif([whole]))
    with Image.open(io.BytesIO(avif([whole]))) as file:
        part = file.crop((13, 15, 43, 35))
        part.getexif()[0x0112] = file.getexif().get(0x0112, 1)
    data = avif([cut_out(whole, 30, 1, 20, 1, -5, 2, 7, 2)])
    shown = to_numpy(load_image_batch([data], width=None, height=None, exif=True))[0]
    np.testing.assert_array_equal(shown, np.asarray(ImageOps.exif_transpose(part)))


# ---- Sequences ---------------------------------------------------------------------------------------------------

SEQUENCE = encode(ALPHA, "AVIF", save_all=True, append_images=[ALPHA.rotate(180)])


def test_of_a_sequence_the_first_picture_is_shown() -> None:
    assert_pillows(SEQUENCE)
    assert np.abs(load(SEQUENCE).astype(int) - np.asarray(IMAGE)).mean() < 10


def test_the_alpha_of_a_sequence_may_come_first() -> None:
    colors = SEQUENCE.index(b"trak") - 4
    size = struct.unpack_from(">I", SEQUENCE, colors)[0]
    alpha = find_box(SEQUENCE[colors + size :], b"trak")
    end = colors + size + len(alpha)
    swapped = SEQUENCE[:colors] + alpha + SEQUENCE[colors : colors + size] + SEQUENCE[end:]
    assert SEQUENCE[colors:end].count(b"trak") == 2
    assert_pillows(swapped)
    np.testing.assert_array_equal(load(swapped), load(SEQUENCE))


# ---- Damage, limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("brands", [b"mif1\0\0\0\0miafavif", b"avif\0\0\0\0", b"msf1\0\0\0\0avifmif1"])
def test_it_is_known_by_any_of_its_brands(brands: bytes) -> None:
    assert_pillows(avif([PLAIN], brands=brands))


def test_without_its_brands_it_is_none() -> None:
    other = avif([PLAIN], brands=b"mif1\0\0\0\0mif1miaf")
    with pytest.raises(UnidentifiedImageError):
        decode_with_pillow(other)
    with pytest.raises(RuntimeError, match="libavif decodes AVIF only"):
        load_image_batch([other], width=8, height=8, decode_config=decode_config(backend="libavif"))


@pytest.mark.parametrize("data", [avif([PLAIN]), encode(ALPHA, "AVIF"), SEQUENCE], ids=["plain", "alpha", "sequence"])
def test_one_that_ends_early_is_an_error(data: bytes) -> None:
    for size in [*range(20, len(data), 31), len(data) - 1]:
        messages = []
        for _ in range(2):
            with pytest.raises(RuntimeError, match="cannot decode the AVIF: the data is ") as raised:
                load_image(data[:size])
            messages.append(str(raised.value))
        assert messages[0] == messages[1]


def test_damaged_avifs() -> None:
    originals = {
        "gray": encode(IMAGE.convert("L"), "AVIF"),
        "RGB": encode(IMAGE, "AVIF"),
        "RGBA": encode(ALPHA, "AVIF"),
        "sequence": SEQUENCE,
        "grid": avif(grid([picture(make_image(64, 64, seed)) for seed in range(2)], 2, (128, 64))),
    }
    outcomes = compare_with_pillow(originals, 400)
    assert not outcomes.different
    assert len(outcomes.equal) > 100
    assert len(outcomes.both_refuse) > 150
    assert len(outcomes.only_pillow_reads) < 4
    # Of one the first brand is damaged. Debian 12's dav1d does not notice that the data of a picture are used up too
    # early.
    assert len(outcomes.only_we_read) < (2 if PINNED else 40)


def test_ffmpeg_alone_finds_the_picture_too() -> None:
    deeper = full_box(b"pixi", bytes([3, 10, 10, 10]))
    data = avif([replace(PLAIN, properties=(PLAIN.properties[0], deeper, *PLAIN.properties[2:]))])
    with pytest.raises(RuntimeError, match="depth specified by pixi property"):
        load(data)
    buffer = load_image(data, decode_config=decode_config(backend="ffmpeg"))
    assert buffer.backends == ("ffmpeg",)
    assert np.abs(to_numpy(buffer).astype(int) - pillows(avif([PLAIN]))[..., :3]).mean() < 8


def test_colours_where_the_file_says_gray_are_an_error() -> None:
    gray = picture(IMAGE.convert("L"))
    with pytest.raises(RuntimeError, match="its picture has another size or more channels than the file says"):
        load(avif([Item(b"av01", PLAIN.data, gray.properties)]))
    # The other way round there is nothing to lose.
    np.testing.assert_array_equal(load(avif([Item(b"av01", gray.data, PLAIN.properties)])), load(avif([gray])))


def test_limits() -> None:
    data = encode(IMAGE, "AVIF")
    assert load(data, decode_config=decode_config(max_pixels=61 * 43)).shape == (43, 61, 3)
    with pytest.raises(RuntimeError, match="its size of 61x43 is outside what is accepted"):
        load(data, decode_config=decode_config(max_pixels=61 * 43 - 1))
    # The size that the file says is small, that of the picture in it is not.
    small = bytearray(data)
    struct.pack_into(">II", small, small.index(b"ispe") + 8, 30, 20)
    assert_pillows(bytes(small))
    with pytest.raises(RuntimeError, match="cannot decode the AVIF: "):
        load(bytes(small), decode_config=decode_config(max_pixels=1000))
    struct.pack_into(">II", small, small.index(b"ispe") + 8, 30_000, 30_000)
    with pytest.raises(RuntimeError, match=r"dimensions are too large \[30000x30000\]"):
        load(bytes(small))


def test_more_pictures_than_there_are_bytes_for_are_an_error() -> None:
    data = bytearray(SEQUENCE)
    # Of each track: how many pictures a chunk has, and the size of all of them.
    for _ in range(2):
        at = data.index(b"stsc")
        struct.pack_into(">I", data, at + 16, 2_000_000)
        data[at : at + 4] = b"stsC"
    data = data.replace(b"stsC", b"stsc")
    with pytest.raises(RuntimeError, match="Exceeded avifDecoder's imageCountLimit"):
        load(bytes(data))


@pytest.mark.skipif(not PINNED, reason="the pinned libraries could not be built here")
def test_more_frames_than_a_picture_has_layers_are_an_error() -> None:
    """All are decoded, and a few bytes are a frame."""

    def with_frames(count: int) -> Item:
        return replace(PLAIN, data=PLAIN.data * count)

    alpha = picture(ALPHA.getchannel("A"))
    tile = picture(make_image(64, 64))
    auxiliary = full_box(b"auxC", b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0")

    def with_alpha(count: int) -> Item:
        properties = (*alpha.properties[:3], auxiliary)
        return Item(b"av01", alpha.data * count, properties, links=((b"auxl", 1),))

    assert_pillows(avif([with_frames(8)]))
    assert_pillows(avif([PLAIN, with_alpha(8)]))
    for items in (
        [with_frames(9)],
        [with_frames(3000)],
        [PLAIN, with_alpha(9)],
        grid([tile, replace(tile, data=tile.data * 9)], 2, (128, 64)),
    ):
        for inside in (False, True):
            with pytest.raises(RuntimeError, match="its data has more than 8 frames for one picture"):
                load(avif(items, inside=inside))
    # A size that is not said, and one of more bytes than there are.
    for end in (b"\x32", b"\x32\x7f", b"\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff"):
        assert_refused(avif([Item(b"av01", PLAIN.data * 8 + end, PLAIN.properties)]))


def assert_refused(data: bytes) -> None:
    with pytest.raises(RuntimeError, match="cannot decode the AVIF: "):
        load(data)


def test_many_threads_decode_at_once() -> None:
    files = [encode(make_image(90, 70, seed), "AVIF") for seed in range(4)] + [
        SEQUENCE,
        avif([cut_out(PLAIN, 31, 1, 21, 1, 0, 1, 0, 1)]),
    ]
    alone = [to_numpy(load_image_batch([data], width=20, height=20))[0] for data in files]
    together = to_numpy(load_image_batch(files * 10, width=20, height=20, num_threads=6))
    np.testing.assert_array_equal(together, np.stack(alone * 10))
