"""The pages of a TIFF, against Pillow's `seek`: which there are, what is in them, and what is refused."""

import io
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.io.image_files import AnyArray
from tests.io.images import encode, make_image
from tests.io.tiff_files import LEVELS, PIXELS, deflated, sub_directory

from spdl.io import (
    ImageOptions,
    LoadError,
    count_pages,
    decode_config,
    demux_config,
    get_video_filter_desc,
    load_image,
    load_image_batch,
    to_numpy,
)

SHAPES = [(61, 43), (20, 31), (61, 43), (7, 5)]


def pages_of(*images: Image.Image, **options: Any) -> bytes:
    first, *rest = images
    return encode(first, "TIFF", save_all=True, append_images=rest, **options)


STACK = pages_of(*(make_image(61, 43, seed) for seed in range(5)))
MIXED = pages_of(*(make_image(*shape, seed) for seed, shape in enumerate(SHAPES)))


def load(data: Any, pages: Any, **keywords: Any) -> AnyArray:
    buffer = load_image(data, pages=pages, **keywords)
    assert set(buffer.backends) == {"libtiff"}
    return to_numpy(buffer)


def pillows(data: bytes, page: int, mode: str | None = "RGB") -> AnyArray:
    """Return a page in a mode, or if that is None, as it is stored."""
    with Image.open(io.BytesIO(data)) as image:
        image.seek(page)
        return np.asarray(image if mode is None else image.convert(mode))


def chained(*files: bytes) -> bytes:
    """Put TIFFs of one page, whose offsets count from byte 0, behind one another: the first directory leads to all."""
    data = bytearray(files[0])
    for file in files[1:]:
        start = len(data)
        moved = bytearray(file)
        (at,) = struct.unpack_from("<I", moved, 4)
        (count,) = struct.unpack_from("<H", moved, at)
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag, kind, number, value = struct.unpack_from("<HHII", moved, entry)
            if (2 if kind == 3 else 4) * number > 4 or tag == 273:
                struct.pack_into("<I", moved, entry + 8, value + start)
        link_last(data, start + at)
        data += moved
    return bytes(data)


def directories(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Yield where each directory begins, and where its link to the next one is."""
    (at,) = struct.unpack_from("<I", data, 4)
    while at:
        link = at + 2 + 12 * struct.unpack_from("<H", data, at)[0]
        yield at, link
        (at,) = struct.unpack_from("<I", data, link)


def link_last(data: bytearray, to: int) -> None:
    *_, (_, link) = directories(data)
    struct.pack_into("<I", data, link, to)


@settings(deadline=None, max_examples=25)
@given(
    modes=st.lists(st.sampled_from(["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "F"]), min_size=1, max_size=5),
    options=st.fixed_dictionaries(
        {"big_tiff": st.booleans()}, optional={"compression": st.sampled_from(["tiff_lzw", "tiff_deflate", "zstd"])}
    ),
)
def test_every_page_is_pillows(modes: Sequence[str], options: dict[str, Any]) -> None:
    images = []
    for seed, mode in enumerate(modes):
        image = make_image(*SHAPES[seed % 4], seed)
        wide = np.asarray(image.convert("L")).astype(np.uint16) * 257
        images.append(Image.fromarray(wide) if mode == "I;16" else image.convert(mode))
    data = pages_of(*images, **options)
    assert count_pages(data) == len(modes)
    for page, mode in enumerate(modes):
        for number in (page, page - len(modes)):
            if mode == "I;16":
                np.testing.assert_array_equal(load(data, number, filter_desc=None)[..., 0], pillows(data, page, None))
            else:
                np.testing.assert_array_equal(load(data, number), pillows(data, page))
    if len(modes) == 1:
        np.testing.assert_array_equal(load_image(data), load(data, 0))


@pytest.mark.parametrize(
    "pages",
    [
        slice(None),
        slice(1, 4),
        slice(None, None, -2),
        slice(-2, None),
        [3],
        [4, 0, -1, 0],
        (1, 2),
        range(1, 5, 2),
        np.array([2, 0]),
    ],
    ids=str,
)
def test_several_pages_are_one_array(pages: Any, tmp_path: Path) -> None:
    numbers = range(5)[pages] if isinstance(pages, slice) else pages
    expected = np.stack([pillows(STACK, number % 5) for number in numbers])
    path = tmp_path / "stack.tif"
    path.write_bytes(STACK)
    with path.open("rb") as file:
        for src in (STACK, bytearray(STACK), path, str(path), file):
            np.testing.assert_array_equal(load(src, pages), expected)
            file.seek(0)
    assert count_pages(path) == 5
    with path.open("rb") as file:
        assert count_pages(file) == 5


@pytest.mark.parametrize("number", [np.int64(2), np.array(2)])
def test_a_number_of_numpy_is_one_page(number: Any) -> None:
    np.testing.assert_array_equal(load(STACK, number), pillows(STACK, 2))


def test_stored_pixels_and_filters() -> None:
    rng = np.random.default_rng(0)
    wide = rng.integers(0, 1 << 16, (3, 12, 17), np.uint16)
    data = pages_of(*map(Image.fromarray, wide))
    np.testing.assert_array_equal(load(data, slice(None), filter_desc=None)[..., 0], wide)
    np.testing.assert_array_equal(load(data, slice(None))[..., 0], wide >> 8)
    small = get_video_filter_desc(scale_width=30, scale_height=20, scale_mode=None, pix_fmt="rgb24")
    alone = [encode(make_image(*shape, seed), "TIFF") for seed, shape in enumerate(SHAPES)]
    resized = np.stack([np.asarray(load_image(data, filter_desc=small)) for data in alone])
    np.testing.assert_array_equal(load(MIXED, slice(None), filter_desc=small), resized)
    np.testing.assert_array_equal(load(MIXED, [0, 2], filter_desc="vflip"), load(MIXED, [0, 2])[:, ::-1])


# ---- In batches ------------------------------------------------------------------------------------------------------


def test_load_image_batch_takes_the_page_of_each_tiff() -> None:
    for page in (0, 2, 4, -1, -5):
        (loaded,) = to_numpy(load_image_batch([STACK], width=None, height=None, pages=page))
        np.testing.assert_array_equal(loaded, pillows(STACK, page % 5))
    for page in (5, -6):
        with pytest.raises(LoadError, match=f"there is no page {page}: it has 5 pages"):
            load_image_batch([STACK], width=None, height=None, pages=page)
    with pytest.raises(LoadError, match="only a TIFF has pages"):
        load_image_batch([encode(make_image(9, 9))], options=ImageOptions(8, 8, pages=0))
    with pytest.raises(TypeError, match="`pages`"):
        load_image_batch([STACK], width=8, height=8, pages=[0, 1])  # type: ignore[call-overload]


def test_each_page_is_turned_as_it_says() -> None:
    data = chained(*(deflated([PIXELS], {274: (3, [number])}) for number in (6, 1, 3)))
    for page, upright in enumerate((np.rot90(LEVELS, -1), LEVELS, LEVELS[::-1, ::-1])):
        (loaded,) = to_numpy(load_image_batch([data], width=None, height=None, pages=page, exif=True))
        np.testing.assert_array_equal(loaded[..., 0], upright)
        np.testing.assert_array_equal(loaded, pillows(data, page))


SMALLER, MASK = (deflated([PIXELS], {254: (4, [kind])}) for kind in (1, 4))


@pytest.mark.parametrize("data", [STACK, chained(deflated([PIXELS]), SMALLER, deflated([PIXELS]))], ids=["all", "last"])
@pytest.mark.parametrize(
    "load_first",
    [
        lambda data: load_image_batch([data], width=8, height=8),
        load_image,
        lambda data: load_image(data, filter_desc=None),
    ],
    ids=["batch", "image", "stored"],
)
def test_pages_that_are_left_out_are_said(data: bytes, load_first: Callable[[bytes], Any]) -> None:
    with pytest.warns(UserWarning, match="several pages, of which only the first is loaded"):
        load_first(data)


@pytest.mark.parametrize("rest", [[], [SMALLER], [MASK, SMALLER]], ids=["none", "smaller", "mask"])
def test_nothing_is_said_of_smaller_versions_and_masks(rest: list[bytes]) -> None:
    data = chained(deflated([PIXELS]), *rest)
    np.testing.assert_array_equal(to_numpy(load_image_batch([data], width=None, height=None))[0, ..., 0], LEVELS)
    np.testing.assert_array_equal(to_numpy(load_image(data))[..., 0], LEVELS)


# ---- What counts as a page -------------------------------------------------------------------------------------------


def test_smaller_versions_and_masks_count() -> None:
    smaller = deflated([PIXELS], {254: (4, [1])})
    mask = deflated([PIXELS], {254: (4, [4])})
    data = chained(deflated([PIXELS]), smaller, mask)
    with Image.open(io.BytesIO(data)) as image:
        assert count_pages(data) == getattr(image, "n_frames", 0) == 3
    np.testing.assert_array_equal(load(data, slice(None), filter_desc=None)[..., 0], np.stack([LEVELS] * 3))


def test_directories_below_others_do_not_count() -> None:
    thumbnail = np.zeros((60, 100), np.uint8)
    data = sub_directory(thumbnail.tobytes(), 1, PIXELS)
    assert count_pages(data) == 1
    # Without a page, the picture below the thumbnail is read.
    np.testing.assert_array_equal(to_numpy(load_image(data))[..., 0], LEVELS)
    np.testing.assert_array_equal(load(data, 0)[..., 0], thumbnail)
    np.testing.assert_array_equal(load(data, 0), pillows(data, 0))


@pytest.mark.parametrize("back_to", [0, 2, 4])
def test_a_chain_that_leads_back_ends_there(back_to: int) -> None:
    data = bytearray(STACK)
    link_last(data, list(directories(data))[back_to][0])
    with Image.open(io.BytesIO(data)) as image:
        assert count_pages(data) == getattr(image, "n_frames", 0) == 5
    np.testing.assert_array_equal(load(data, [4, 0]), load(STACK, [4, 0]))


# ---- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pages", "number"), [(5, 5), (-6, -6), ([0, 5], 5), ([0, -6], -6), (1 << 70, 1 << 70)])
def test_a_page_that_is_not_there(pages: Any, number: int) -> None:
    with pytest.raises(IndexError, match=rf"`pages` must be from -5 to 4, as a\.tif has 5 pages, got {number} \("):
        load_image(STACK, pages=pages, name="a.tif")


@pytest.mark.parametrize("pages", [[], slice(5, None), slice(2, 2)])
def test_no_pages_are_an_error(pages: Any) -> None:
    with pytest.raises(ValueError, match=r"`pages` must be at least one page \(image of .* has 5 pages\)"):
        load_image(STACK, pages=pages)


@pytest.mark.parametrize("pages", [True, 1.0, "1", ["1"], {0, 1}, [0.5], b"1", np.array([0.5])])
def test_what_numbers_no_page(pages: Any) -> None:
    with pytest.raises(TypeError, match="`pages` must be an int, a slice, a sequence of ints, or None, got"):
        load_image(STACK, pages=pages)


def test_pages_that_differ_are_named() -> None:
    with pytest.raises(
        RuntimeError, match="page 1 becomes 20x31, rgb24, but page 0 61x43, rgb24: load them one by one"
    ):
        load_image(MIXED, pages=slice(None))
    with pytest.raises(RuntimeError, match="page 3 becomes 7x5, rgb24, but page 2 61x43, rgb24"):
        load_image(MIXED, pages=[-2, -1])
    data = pages_of(make_image(9, 9), make_image(9, 9).convert("L"))
    assert load(data, slice(None)).shape == (2, 9, 9, 3)
    with pytest.raises(RuntimeError, match="page 1 becomes 9x9, gray, but page 0 9x9, rgb24"):
        load_image(data, pages=slice(None), filter_desc=None)


@pytest.mark.parametrize("file_format", ["GIF", "WEBP", "AVIF", "PNG", "JPEG", "JPEG2000", "BMP", "PPM", "QOI"])
def test_other_formats_have_no_pages(file_format: str) -> None:
    several = {"save_all": True, "append_images": [make_image(32, 32, 1)]} if file_format in ("GIF", "WEBP") else {}
    data = encode(make_image(32, 32), file_format, **several)
    name = {"WEBP": "WebP", "JPEG2000": "JPEG 2000"}.get(file_format, file_format)
    for work in (count_pages, lambda src: load_image(src, pages=0)):
        with pytest.raises(RuntimeError, match=f"only a TIFF has pages, and this is {name}. Leave `pages` out"):
            work(data)
    with pytest.raises(RuntimeError, match="cannot read its pages: it seems to be a PDF"):
        count_pages(b"%PDF-1.4 and so on")


def test_ffmpeg_reads_no_pages() -> None:
    for config in (decode_config(backend="ffmpeg"), decode_config("tiff"), decode_config(backend="libavif")):
        with pytest.raises(RuntimeError, match="page 1: only libtiff reads the pages of a TIFF"):
            load_image(STACK, pages=1, decode_config=config)
    with pytest.raises(RuntimeError, match="only libtiff reads the pages of a TIFF"):
        load_image(STACK, pages=1, demux_config=demux_config(format="tiff_pipe"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for work in (count_pages, lambda src: load_image(src, pages=0)):
        with pytest.raises(RuntimeError, match=r"none\.tif: cannot open the file: No such file"):
            work(tmp_path / "none.tif")
    (tmp_path / "empty.tif").write_bytes(b"")
    for data, message in (
        (tmp_path / "empty.tif", "cannot read its pages: there are no bytes in it"),
        (b"II*\0\0\0\0\0", "cannot read the TIFF: it has no page"),
    ):
        with pytest.raises(RuntimeError, match=message):
            count_pages(data)


def test_damage_behind_a_page_does_not_matter_to_it() -> None:
    second = list(directories(STACK))[1][0]
    cut = STACK[: second + 10]
    np.testing.assert_array_equal(load(cut, 0), load(STACK, 0))
    for pages in (1, -1, slice(0, 1), [0, 4]):
        with pytest.raises(
            RuntimeError, match="cannot read the TIFF: the directory of page 1 does not lie within the file"
        ):
            load_image(cut, pages=pages)
    with pytest.raises(
        RuntimeError, match="the directory of page 1 does not lie within the file, which may be truncated"
    ):
        count_pages(cut)


def test_a_damaged_page_is_named_and_others_are_read() -> None:
    data = chained(
        deflated([PIXELS]), deflated([PIXELS[:-9]]), deflated([PIXELS], {259: (3, [34925])}), deflated([PIXELS])
    )
    np.testing.assert_array_equal(load(data, [0, 3])[..., 0], np.stack([LEVELS] * 2))
    with pytest.raises(RuntimeError, match=r"a\.tif, page 1: cannot decode the TIFF: strip 1 of 1 is damaged"):
        load_image(data, pages=slice(None), name="a.tif")
    with pytest.raises(RuntimeError, match=r"page 2: cannot decode the TIFF: its pixels are compressed with LZMA"):
        load_image(data, pages=2)
    first = chained(deflated([PIXELS], {259: (3, [34925])}), deflated([PIXELS]))
    np.testing.assert_array_equal(load(first, 1)[..., 0], LEVELS)


def test_the_size_of_a_page_is_limited() -> None:
    config = decode_config(max_pixels=20 * 31)
    assert load(MIXED, 1, decode_config=config).shape == (31, 20, 3)
    with pytest.raises(RuntimeError, match=r"page 2: .*its size of 61x43 is outside what is accepted"):
        load_image(MIXED, pages=2, decode_config=config)


def test_the_size_of_all_pages_is_limited() -> None:
    data = chained(*[deflated([PIXELS])] * 5)
    config = decode_config(max_pixels=4 * LEVELS.size)
    assert load(data, slice(4), decode_config=config).shape[0] == 4
    with pytest.raises(RuntimeError, match=f"5 pages of .* have {5 * LEVELS.size} pixels, more than the"):
        load_image(data, pages=slice(None), decode_config=config)
    smaller = load_image(data, pages=slice(None), decode_config=config, filter_desc="scale=1:1,format=rgb24")
    assert to_numpy(smaller).shape == (5, 1, 1, 3)
