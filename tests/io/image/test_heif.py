"""HEIC against known samples: every way to store them, tiles, crops, turns, alpha, damage and what is refused."""

import contextlib
import itertools
import re
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.io.av.ffmpeg import need_encoder
from tests.io.avif_files import Item, box, full_box, grid
from tests.io.heif_files import WEIGHTS, add, colours, colr, heif, hevc, samples, size_box
from tests.io.images import Array, make_jpeg

from spdl.io import decode_config, load_image, load_image_batch, to_numpy

FULL = colr(6, full=True)
LAYOUTS = ["gray", "yuv420p", "yuv422p", "yuv444p"]


@pytest.fixture(autouse=True)
def _need_x265() -> None:
    need_encoder("libx265")


def load(data: bytes, **keywords: Any) -> Array:
    buffer = load_image(data, **keywords)
    assert buffer.backends == ("heif",)
    array: Array = to_numpy(buffer)
    return array


def upright(data: bytes) -> Array:
    array: Array = to_numpy(load_image_batch([data], width=None, height=None, mode="stretch", exif=True))[0]
    return array


def assert_refused(data: bytes, message: str, **keywords: Any) -> None:
    with pytest.raises(RuntimeError, match=message):
        load(data, **keywords)


def alpha(item: Item, *, name: bytes = b"urn:mpeg:hevc:2015:auxid:1", to: int = 1) -> Item:
    return replace(add(item, full_box(b"auxC", name + b"\0")), links=((b"auxl", to),))


# ---- Pixels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", ["full", "limited"])
@pytest.mark.parametrize("depth", [8, 10, 12])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout(layout: str, depth: int, levels: str) -> None:
    full = levels == "full"
    shown = samples(64, 48, layout, depth)
    data = heif(hevc(shown, colr(6, full=full)))
    np.testing.assert_array_equal(load(data), colours(shown, full=full, depth=8))
    stored = load(data, filter_desc=None)
    levels_of = colours(shown, full=full)
    # White is white.
    expected = levels_of if depth == 8 else levels_of << (16 - depth) | levels_of >> (2 * depth - 16)
    np.testing.assert_array_equal(stored, expected[..., :1] if layout == "gray" else expected)


@pytest.mark.parametrize("layout", ["yuv420p", "yuv444p"])
@pytest.mark.parametrize("matrix", WEIGHTS)
def test_each_matrix(matrix: int, layout: str) -> None:
    shown = samples(64, 48, layout)
    data = heif(hevc(shown, colr(matrix, full=True)))
    np.testing.assert_array_equal(load(data), colours(shown, matrix=matrix))


def test_what_needs_no_factors() -> None:
    shown = samples(64, 48, "yuv444p")
    luma, cb, cr = (plane.astype(int) for plane in shown.planes)
    np.testing.assert_array_equal(load(heif(hevc(shown, colr(0, full=True)))), np.stack([cr, luma, cb], -1))
    green, orange = cb - 128, cr - 128
    expected = np.stack([luma - green + orange, luma + green, luma - green - orange], -1)
    np.testing.assert_array_equal(load(heif(hevc(shown, colr(8, full=True)))), np.clip(expected, 0, 255))


def test_a_matrix_by_its_primaries() -> None:
    shown = samples(64, 48, "yuv444p")
    by_name = load(heif(hevc(shown, colr(9, full=True)))).astype(int)
    by_primaries = load(heif(hevc(shown, colr(12, full=True, primaries=9))))
    assert np.abs(by_name - by_primaries).max() <= 1
    assert_refused(heif(hevc(shown, colr(12, full=True, primaries=10))), "primaries, whose number 10 is not known")


@pytest.mark.parametrize("matrix", [3, 10, 11, 13, 14, 99])
def test_colours_that_are_not_known_are_an_error(matrix: int) -> None:
    assert_refused(heif(hevc(samples(64, 48), colr(matrix, full=True))), f"matrix number {matrix}, which is not known")


def test_samples_without_a_word_about_colours_have_limited_levels() -> None:
    shown = samples(64, 48)
    np.testing.assert_array_equal(load(heif(hevc(shown))), colours(shown, full=False))
    # A profile says nothing about them.
    np.testing.assert_array_equal(
        load(heif(hevc(shown, box(b"colr", b"prof" + bytes(40))))), colours(shown, full=False)
    )


# ---- Crops and turns ---------------------------------------------------------------------------------------------


def clap(*numbers: int) -> bytes:
    """Return a clean aperture: numerators and denominators of width, height and both offsets."""
    return box(b"clap", struct.pack(">8i", *numbers))


@pytest.mark.parametrize(
    ("aperture", "part"),
    [
        (clap(61, 1, 43, 1, -3, 2, -5, 2), np.s_[:43, :61]),
        (clap(30, 1, 20, 1, 0, 1, 0, 1), np.s_[14:34, 17:47]),
        (clap(66, 3, 21, 1, 5, 2, -1, 2), np.s_[13:34, 24:46]),
        (clap(64, 1, 48, 1, 8, 1, 0, 1), np.s_[:, 8:]),
    ],
    ids=["odd", "centred", "fractions", "beyond"],
)
def test_a_clean_aperture(aperture: bytes, part: tuple[slice, slice]) -> None:
    shown = samples(64, 48)
    np.testing.assert_array_equal(load(heif(hevc(shown, FULL, aperture))), colours(shown)[part])


@pytest.mark.parametrize("numbers", [(0, 1, 9, 1, 0, 1, 0, 1), (9, 0, 9, 1, 0, 1, 0, 1), (9, 1, 9, 1, 90, 1, 0, 1)])
def test_a_clean_aperture_of_nothing_is_an_error(numbers: tuple[int, ...]) -> None:
    assert_refused(heif(hevc(samples(64, 48), FULL, clap(*numbers))), "clean aperture shows nothing|damaged")


TURNS = [box(b"irot", bytes([quarters])) for quarters in range(4)]
MIRRORS = [box(b"imir", bytes([axis])) for axis in (0, 1)]


def turned(image: NDArray[Any], properties: tuple[bytes, ...]) -> NDArray[Any]:
    for each in properties:
        if each[4:8] == b"irot":
            image = np.rot90(image, each[8])
        elif each[4:8] == b"imir":
            image = image[:, ::-1] if each[8] else image[::-1]
        else:
            image = image[3:-3, 5:-5]
    return image


@pytest.mark.parametrize(
    "properties",
    [
        *itertools.product(TURNS),
        *itertools.product(MIRRORS),
        *itertools.product(TURNS, MIRRORS),
        *itertools.product(MIRRORS, TURNS),
        (TURNS[1], MIRRORS[0], TURNS[2], MIRRORS[1]),
    ],
    ids=lambda properties: "-".join(each[4:].decode("latin1").replace("\0", "0") for each in properties),
)
def test_turns_and_mirrors_in_their_order(properties: tuple[bytes, ...]) -> None:
    shown = samples(64, 48)
    item = hevc(shown, FULL)
    data = heif(add(item, *properties))
    np.testing.assert_array_equal(upright(data), turned(colours(shown), properties))
    np.testing.assert_array_equal(load(data), colours(shown))  # As it is stored.


def test_a_crop_behind_a_turn() -> None:
    shown = samples(64, 48)
    crop = clap(38, 1, 58, 1, 0, 1, 0, 1)
    np.testing.assert_array_equal(
        upright(heif(hevc(shown, FULL, TURNS[1], crop))), turned(colours(shown), (TURNS[1], crop))
    )


def test_exif_data_do_not_turn_a_heic() -> None:
    shown = samples(64, 48)
    exif = bytes(4) + b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    data = heif(hevc(shown, FULL), Item(b"Exif", exif, (), links=((b"cdsc", 1),)))
    np.testing.assert_array_equal(upright(data), colours(shown))


# ---- Pictures of several items -----------------------------------------------------------------------------------


def tiled(layout: str = "yuv420p", size: tuple[int, int] = (150, 100)) -> tuple[bytes, NDArray[Any]]:
    """Return a picture of three by two tiles, and all of its pixels."""
    shown = [samples(64, 64, layout, seed=number) for number in range(6)]
    rows = [np.concatenate([colours(each) for each in row], 1) for row in (shown[:3], shown[3:])]
    whole, *tiles = grid([hevc(each, FULL) for each in shown], 3, size)
    data = heif(replace(whole, properties=(size_box(*size), FULL)), *tiles)
    return data, np.concatenate(rows)[: size[1], : size[0]]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(150, 100), (192, 128), (129, 65)], ids=str)
def test_a_grid_of_tiles(size: tuple[int, int], layout: str) -> None:
    data, expected = tiled(layout, size)
    np.testing.assert_array_equal(load(data), expected)


@settings(deadline=None, max_examples=30)
@given(corners=st.tuples(st.integers(0, 149), st.integers(0, 99), st.integers(1, 150), st.integers(1, 100)))
def test_a_part_of_a_grid(corners: tuple[int, int, int, int]) -> None:
    left, top, width, height = corners
    data, expected = tiled()
    box = (left, top, min(left + width, 150), min(top + height, 100))
    part = to_numpy(load_image_batch([data], width=None, height=None, crop=[box]))[0]
    np.testing.assert_array_equal(part, expected[box[1] : box[3], box[0] : box[2]])


def test_a_part_needs_only_its_tiles() -> None:
    data, expected = tiled()
    damaged = data[:-2000] + bytes(2000)  # The last tile.
    part = to_numpy(load_image_batch([damaged], width=None, height=None, crop=[(0, 0, 70, 60)]))[0]
    np.testing.assert_array_equal(part, expected[:60, :70])


def test_an_item_that_is_another() -> None:
    shown = samples(64, 48)
    identity = Item(b"iden", b"\0", (size_box(48, 64), TURNS[1]), (2,))
    data = heif(identity, hevc(shown, FULL, TURNS[1]))
    np.testing.assert_array_equal(upright(data), np.rot90(colours(shown), 2))


def test_thumbnails_and_other_pictures_are_left_out() -> None:
    shown = samples(64, 48)
    small = replace(hevc(samples(32, 32, seed=3), FULL), links=((b"thmb", 1),))
    depth = alpha(hevc(samples(64, 48, "gray"), FULL), name=b"urn:mpeg:hevc:2015:auxid:2")
    np.testing.assert_array_equal(load(heif(hevc(shown, FULL), small, depth)), colours(shown))
    assert load(heif(hevc(shown, FULL), small, depth), filter_desc=None).shape[-1] == 3


# ---- Alpha -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [b"urn:mpeg:hevc:2015:auxid:1", b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"])
@pytest.mark.parametrize("layout", ["gray", "yuv420p"])
def test_alpha(layout: str, name: bytes) -> None:
    shown, covers = samples(64, 48), samples(64, 48, layout, seed=5)
    data = heif(hevc(shown, FULL), alpha(hevc(covers), name=name))
    expected = np.concatenate([colours(shown), covers.planes[0][..., np.newaxis]], -1)
    np.testing.assert_array_equal(load(data), expected[..., :3])
    np.testing.assert_array_equal(load(data, filter_desc=None), expected)
    np.testing.assert_array_equal(load(data, filter_desc="format=rgba"), expected)


def test_gray_with_alpha() -> None:
    shown, covers = samples(64, 48, "gray"), samples(64, 48, "gray", seed=5)
    data = heif(hevc(shown, FULL), alpha(hevc(covers)))
    np.testing.assert_array_equal(load(data, filter_desc=None), np.stack([shown.planes[0], covers.planes[0]], -1))


def test_alpha_of_another_size_covers_the_picture() -> None:
    covers = samples(32, 48, "gray", seed=5)
    data = heif(hevc(samples(64, 48), FULL), alpha(hevc(covers)))
    np.testing.assert_array_equal(load(data, filter_desc=None)[..., 3], covers.planes[0].repeat(2, 1))


def test_premultiplied_alpha() -> None:
    shown, covers = samples(64, 48), samples(64, 48, "gray", seed=5)
    item = replace(hevc(shown, FULL), links=((b"prem", 2),))
    colour, by = colours(shown), covers.planes[0].astype(int)[..., np.newaxis]
    expected = np.where(by == 0, colour, np.minimum(colour * 255 // np.maximum(by, 1), 255))
    np.testing.assert_array_equal(load(heif(item, alpha(hevc(covers)))), expected)


def test_alpha_that_is_not_read_is_an_error() -> None:
    shown, covers = hevc(samples(64, 48), FULL), hevc(samples(64, 48, "gray"))
    assert_refused(heif(shown, alpha(add(covers, TURNS[1]))), "its alpha is turned in another way")
    tiles = grid([shown, shown], 2, (128, 48))
    whole = replace(tiles[0], properties=(size_box(128, 48),))
    assert_refused(heif(whole, *tiles[1:], alpha(covers, to=2)), "have their own alpha")


def test_an_item_that_is_named_for_every_tile_is_refused() -> None:
    tile = hevc(samples(64, 48))
    item = replace(grid([tile], 1, (64, 48))[0], data=bytes([0, 0, 59, 59]) + struct.pack(">HH", 3840, 2880))
    many = replace(item, tiles=(2,) * 3600, properties=(size_box(3840, 2880),))
    assert_refused(heif(many, tile), "its tiles have more data than there are in the file")


# ---- Where things lie --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("iloc", [0, 1, 2])
@pytest.mark.parametrize("extents", [1, 3])
def test_where_the_data_lie(extents: int, iloc: int) -> None:
    shown = samples(64, 48)
    item = replace(hevc(shown, FULL), extents=extents)
    for inside, last in itertools.product((False, True) if iloc else (False,), (False, True)):
        data = heif(item, inside=inside, pitm_last=last, iloc=iloc)
        np.testing.assert_array_equal(load(data), colours(shown))


@pytest.mark.parametrize("brands", [b"mif1\0\0\0\0heic", b"heix\0\0\0\0mif1", b"msf1\0\0\0\0hevcmif1"])
def test_other_brands(brands: bytes) -> None:
    shown = samples(64, 48)
    np.testing.assert_array_equal(load(heif(hevc(shown, FULL), brands=brands)), colours(shown))


# ---- What is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (b"av01", "AV1, for which the file lacks the brand of AVIF"),
        (b"jpeg", "JPEG"),
        (b"avc1", "H.264"),
        (b"iovl", "several pictures that lie upon each other"),
        (b"x\nyz", 'items of the type "x\\x0ayz"'),
    ],
)
def test_items_that_are_not_read_are_named(kind: bytes, name: str) -> None:
    item = replace(hevc(samples(64, 48), FULL), kind=kind)
    assert_refused(heif(item), "cannot read the HEIF: its picture is made of " + re.escape(name))


def test_a_sequence_is_an_error() -> None:
    data = box(b"ftyp", b"msf1\0\0\0\0hevc") + box(b"moov", bytes(20))
    assert_refused(data, "it is a sequence of pictures without a single one; read it as a video")


def test_items_that_are_made_of_themselves_are_an_error() -> None:
    assert_refused(heif(Item(b"iden", b"\0", (), (1,))), "made of others that are made of others")
    whole, *_ = grid([hevc(samples(64, 48), FULL)], 1, (64, 48))
    assert_refused(heif(replace(whole, tiles=(1,))), 'items of the type "grid"')


def test_the_limit_is_one_of_what_is_shown() -> None:
    shown = hevc(samples(64, 48), FULL)
    view = (clap(61, 1, 43, 1, -3, 2, -5, 2), box(b"irot", b"\1"))
    turned = add(shown, *view)
    for data, (width, height) in (
        (heif(turned), (61, 43)),
        (heif(turned, alpha(hevc(samples(64, 48, "gray"), *view))), (61, 43)),
        (heif(*grid([shown] * 2, 2, (70, 48))), (70, 48)),
    ):
        whole = load(data, decode_config=decode_config(max_pixels=width * height))
        assert whole.shape == (height, width, 3)
        limit = decode_config(max_pixels=width * height - 1)
        assert_refused(data, f"its size of {width}x{height} is outside what is accepted", decode_config=limit)
    # Blocks around it may be more, but not any number of pixels.
    hvcc, _, colour = shown.properties
    padded = replace(shown, properties=(hvcc, size_box(4000, 4000), colour, clap(61, 1, 43, 1, 0, 1, 0, 1)))
    assert_refused(heif(padded), "the size of an item of 4000x4000", decode_config=decode_config(max_pixels=10_000))


def test_sizes_that_do_not_fit_are_an_error() -> None:
    item = hevc(samples(64, 48), FULL)
    hvcc, _, colour = item.properties
    assert_refused(heif(replace(item, properties=(hvcc, size_box(64, 40), colour))), "said to have 64x40 pixels")
    huge = replace(item, properties=(hvcc, size_box(60000, 60000), colour))
    assert_refused(heif(huge), "the size of an item of 60000x60000 is outside what is accepted")
    limit = decode_config(max_pixels=64 * 48 - 1)
    assert_refused(heif(item), "its size of 64x48 is outside .*max_pixels", decode_config=limit)
    whole, *tiles = grid([item] * 2, 2, (129, 48))
    assert_refused(heif(replace(whole, properties=()), *tiles), "said to have 129x48 pixels, and its tiles have 128x48")
    assert_refused(heif(replace(whole, properties=(), tiles=(2,)), *tiles), "2x1 tiles, and refers to 1")


def test_tiles_that_differ_are_an_error() -> None:
    first, other = hevc(samples(64, 48), FULL), hevc(samples(64, 48, "yuv444p"), FULL)
    whole, *tiles = grid([first, other], 2, (128, 48))
    assert_refused(heif(replace(whole, properties=()), *tiles), "its tiles differ")


def test_what_must_be_known_is_an_error() -> None:
    assert_refused(
        heif(hevc(samples(64, 48), FULL, box(b"abcd", b""))), 'essential property "abcd", which is not known'
    )


def test_only_heif_goes_to_its_backend() -> None:
    config = decode_config(backend="heif")
    assert_refused(make_jpeg(), r"heif decodes HEIF \(HEIC\) only", decode_config=config)
    shown = samples(64, 48)
    np.testing.assert_array_equal(load(heif(hevc(shown, FULL)), decode_config=config), colours(shown))


# ---- Damage ------------------------------------------------------------------------------------------------------


def test_a_file_that_is_cut_off_is_an_error() -> None:
    data, _ = tiled()
    for size in range(12, len(data), 97):
        with pytest.raises(RuntimeError, match=r"cannot (read|decode) the (HEIF|image)"):
            load_image(data[:size])


@settings(deadline=None, max_examples=200)
@given(start=st.floats(0, 1), junk=st.binary(min_size=1, max_size=20))
def test_whatever_a_file_says_nothing_else_happens(start: float, junk: bytes) -> None:
    shown = hevc(samples(64, 48), FULL)
    whole, *tiles = grid([shown, shown], 2, (100, 40))
    data = heif(replace(whole, properties=(FULL, TURNS[1])), *tiles, alpha(hevc(samples(64, 48, "gray"), TURNS[1])))
    at = int(start * data.index(b"mdat"))
    with contextlib.suppress(RuntimeError):
        load_image(data[:at] + junk + data[at + len(junk) :], decode_config=decode_config(max_pixels=1 << 16))


def test_ffmpeg_alone_reads_what_it_can() -> None:
    shown = samples(64, 48)
    with contextlib.suppress(RuntimeError):  # From release 7 on.
        buffer = load_image(heif(hevc(shown, FULL)), decode_config=decode_config(backend="ffmpeg"))
        assert to_numpy(buffer).shape == (48, 64, 3)
