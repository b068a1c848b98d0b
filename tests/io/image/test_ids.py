"""Ids instead of colours, against Pillow and numpy: of palettes, of 16-bit gray, and of arrays."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.io.image_files import AnyArray, bmp, png, png_chunk, pnm, run_length_bmp, tiff_file
from tests.io.images import encode, make_image

from spdl.io import ImageOptions, LoadError, load_image_batch, load_mask_batch, random_resized_crop, to_numpy

Box = tuple[int, int, int, int]

VOC = np.array([0, 1, 2, 15, 20, 255], np.uint8)
"""The classes that VOC stores: background, some objects, and pixels that are ignored."""


def drawn(seed: int, size: tuple[int, int], most: int = 256) -> AnyArray:
    return np.random.default_rng(seed).integers(0, most, size[::-1])


def palette_of(seed: int, count: int = 256) -> AnyArray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3)).astype(np.uint8)


def with_palette(ids: AnyArray, seed: int = 0) -> Image.Image:
    image = Image.fromarray(ids.astype(np.uint8), "L")
    image.putpalette(palette_of(seed).tobytes())
    return image


def png_with_palette(ids: AnyArray, depth: int, *, interlaced: bool = False, transparent: bool = False) -> bytes:
    chunks = png_chunk(b"PLTE", palette_of(1, 1 << depth).tobytes())
    chunks += png_chunk(b"tRNS", b"\0\x80") if transparent else b""
    return png(ids[..., None], depth, 3, interlaced=interlaced, extra=chunks)


def tiff_with_palette(ids: AnyArray, bits: int, order: str = "<", extra: int = 0) -> bytes:
    """Make a TIFF of indices, with an alpha of 255 behind each if `extra` says so."""
    height, width = ids.shape
    samples = ids.astype(np.uint8)
    if extra:
        rows = np.stack([samples, np.full_like(samples, 255)], -1).tobytes()
    else:
        bits_of = np.unpackbits(samples[..., None], axis=-1)[..., 8 - bits :]
        rows = np.packbits(bits_of.reshape(height, -1), axis=1).tobytes()
    colors = palette_of(2, 1 << bits).astype(int).T.reshape(-1) * 257
    entries: list[tuple[int, int, Any]] = [
        (256, 3, [width]),
        (257, 3, [height]),
        (258, 3, [bits] * (1 + extra)),
        (259, 3, [1]),
        (262, 3, [3]),
        (273, 4, [8]),
        (277, 3, [1 + extra]),
        (278, 3, [height]),
        (279, 4, [len(rows)]),
        (320, 3, colors.tolist()),
        *([(338, 3, [2])] if extra else []),
    ]
    return tiff_file(entries, rows, order)


def palette_files(seed: int, size: tuple[int, int]) -> dict[str, tuple[bytes, AnyArray]]:
    """Return a file of each kind that has a palette, and the ids in it."""
    ids, few, two, bits = (drawn(seed, size, most) for most in (256, 16, 4, 2))
    return {
        "png": (png_with_palette(ids, 8), ids),
        "png of 4 bits": (png_with_palette(few, 4), few),
        "png of 2 bits": (png_with_palette(two, 2), two),
        "png of 1 bit": (png_with_palette(bits, 1), bits),
        "png, interlaced": (png_with_palette(few, 4, interlaced=True), few),
        "png, transparent": (png_with_palette(ids, 8, transparent=True), ids),
        "gif": (encode(with_palette(ids), "GIF", optimize=False), ids),
        "gif, interlaced": (encode(with_palette(ids), "GIF", optimize=False, interlace=1), ids),
        "gif of gray": (encode(Image.fromarray(ids.astype(np.uint8)), "GIF", optimize=False), ids),
        "bmp": (bmp(ids, 8, palette=palette_of(3)), ids),
        "bmp of 4 bits, from the top": (bmp(few, 4, palette=palette_of(3, 16), top_down=True), few),
        "bmp of 1 bit": (bmp(bits, 1, palette=palette_of(3, 2)), bits),
        "bmp of gray": (encode(Image.fromarray(ids.astype(np.uint8)), "BMP"), ids),
        "bmp, runs": (run_length_bmp(few), few),
        "bmp, runs of 4 bits": (run_length_bmp(few, 4), few),
        "tiff": (tiff_with_palette(ids, 8), ids),
        "tiff of 4 bits, swapped": (tiff_with_palette(few, 4, ">"), few),
        "tiff with alpha": (tiff_with_palette(ids, 8, extra=1), ids),
        "tiff, deflated": (encode(with_palette(ids), "TIFF", compression="tiff_adobe_deflate"), ids),
        "tiff, lzw": (encode(with_palette(ids), "TIFF", compression="tiff_lzw"), ids),
    }


GRAY16 = {
    "png": lambda ids: png(ids[..., None], 16, 0),
    "png, interlaced": lambda ids: png(ids[..., None], 16, 0, interlaced=True),
    "png with a transparent level": lambda ids: png(ids[..., None], 16, 0, extra=png_chunk(b"tRNS", b"\0\1")),
    "tiff": lambda ids: encode(Image.fromarray(ids.astype(np.uint16)), "TIFF"),
    "tiff, deflated": lambda ids: encode(Image.fromarray(ids.astype(np.uint16)), "TIFF", compression="tiff_deflate"),
    "pgm": lambda ids: pnm(5, 65535, ids[..., None]),
    "pgm as text": lambda ids: pnm(2, 65535, ids[..., None]),
}


def viewed(ids: AnyArray, box: Box, size: tuple[int, int], *, flip: bool) -> AnyArray:
    """Crop, resize by Pillow's nearest, and flip."""
    cut = Image.fromarray(ids.astype(np.int32), "I").crop(box).resize(size, Image.Resampling.NEAREST)
    return np.asarray(cut)[:, :: -1 if flip else 1]


@st.composite
def views(draw: st.DrawFn) -> tuple[tuple[int, int], Box, tuple[int, int], bool]:
    """Draw the size of an image, a box in it, what that becomes, and whether it is flipped."""
    width, height = size = draw(st.tuples(st.integers(8, 60), st.integers(8, 60)))
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    box = left, top, draw(st.integers(left + 1, width)), draw(st.integers(top + 1, height))
    own = box[2] - box[0], box[3] - box[1]
    target = draw(st.one_of(st.just(own), st.tuples(st.integers(1, 70), st.integers(1, 70))))
    return size, box, target, draw(st.booleans())


@settings(deadline=None, max_examples=60)
@given(kind=st.sampled_from(sorted(palette_files(0, (8, 8)))), seed=st.integers(0, 5), view=views())
def test_load_image_batch_gives_the_indices_of_palettes(kind: str, seed: int, view: Any) -> None:
    size, box, target, flip = view
    data, ids = palette_files(seed, size)[kind]
    arguments: dict[str, Any] = {"crop": [box], "flip": flip, "mode": "stretch", "interpolation": "nearest"}
    batch = load_image_batch([data], width=target[0], height=target[1], pix_fmt="index", **arguments)
    assert (to_numpy(batch)[0] == viewed(ids, box, target, flip=flip)).all()
    assert batch.dtype == "uint8"


@settings(deadline=None, max_examples=40)
@given(
    kind=st.sampled_from(sorted(GRAY16)),
    seed=st.integers(0, 5),
    view=views(),
    dtype=st.sampled_from(["uint16", "int32", "int64"]),
)
def test_load_image_batch_gives_gray16_as_it_is(kind: str, seed: int, view: Any, dtype: Any) -> None:
    size, box, target, flip = view
    ids = drawn(seed, size, 65536)
    arguments: dict[str, Any] = {"crop": [box], "flip": flip, "mode": "stretch", "interpolation": "nearest"}
    batch = load_image_batch(
        [GRAY16[kind](ids)], width=target[0], height=target[1], pix_fmt="gray16", dtype=dtype, **arguments
    )
    assert (to_numpy(batch)[0] == viewed(ids, box, target, flip=flip)).all()
    assert batch.dtype == dtype


def test_neighbouring_ids_stay_apart() -> None:
    ids = np.array([[26001, 26002]])
    (loaded,) = to_numpy(
        load_image_batch([png(ids[..., None], 16, 0)], width=None, height=None, pix_fmt="gray16", dtype="uint16")
    )
    assert loaded.tolist() == ids.tolist()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_ids_are_turned_upright(orientation: int) -> None:
    ids = drawn(1, (13, 9))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(with_palette(ids), "PNG", exif=exif)
    turns = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
    upright = Image.fromarray(ids.astype(np.int32), "I")
    if orientation > 1:
        upright = upright.transpose(Image.Transpose(turns[orientation]))
    (loaded,) = to_numpy(load_image_batch([data], width=None, height=None, pix_fmt="index", exif=True))
    assert (loaded == np.asarray(upright)).all()


REFUSED = {
    "a photo": (encode(make_image(8, 8)), "index", "this is mjpeg"),
    "colours": (encode(make_image(8, 8), "PNG"), "index", r"this is png (rgb24): 'rgb24' and 'gray' give its colours"),
    "gray": (encode(make_image(8, 8).convert("L"), "PNG"), "index", "8-bit gray: pix_fmt='gray' gives its levels"),
    "wide gray": (png(drawn(0, (8, 8), 65536)[..., None], 16, 0), "index", "pix_fmt='gray16' gives its levels"),
    "webp": (encode(make_image(8, 8), "WEBP"), "index", "this is webp"),
    "bits of colours": (bmp(drawn(0, (8, 8))[..., None].repeat(3, -1), 24), "index", "this is bmp"),
    "a palette": (encode(with_palette(drawn(0, (8, 8))), "PNG"), "gray16", "pix_fmt='index' gives its indices"),
    "narrow gray": (encode(make_image(8, 8).convert("L"), "PNG"), "gray16", "pix_fmt='gray' gives its levels"),
    "wide colours": (png(np.zeros((8, 8, 3), int), 16, 2), "gray16", "'rgb24' and 'gray' give its colours"),
    "wide gray with alpha": (png(np.zeros((8, 8, 2), int), 16, 4), "gray16", "'rgb24' and 'gray' give its colours"),
}


@pytest.mark.parametrize("kind", sorted(REFUSED))
def test_load_image_batch_refuses_pictures_without_ids_by_name(kind: str) -> None:
    data, pix_fmt, words = REFUSED[kind]
    arguments: dict[str, Any] = {"pix_fmt": pix_fmt, "dtype": "uint16" if pix_fmt == "gray16" else "uint8"}
    with pytest.raises(LoadError, match=re.escape(words)):
        load_image_batch([data], width=None, height=None, **arguments)
    options = ImageOptions(None, None, **arguments)
    with pytest.raises(LoadError, match=re.escape(words)):
        load_image_batch([data], options=options)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"interpolation": "bilinear"}, "interpolation"),
        ({"dtype": "float32", "interpolation": "nearest"}, "dtype"),
        ({"dtype": "uint8", "mean": [0.5], "interpolation": "nearest"}, "dtype"),
        ({"pix_fmt": "gray16", "dtype": "uint16"}, "interpolation"),
        ({"pad_value": 256, "interpolation": "nearest"}, "pad_value"),
        ({"pad_value": (1, 2, 3), "interpolation": "nearest"}, "pad_value"),
    ],
)
def test_load_image_batch_refuses_what_would_change_ids(arguments: dict[str, Any], name: str) -> None:
    data = encode(with_palette(drawn(0, (8, 8))), "PNG")
    arguments = {"pix_fmt": "index", **arguments}
    for call in (
        lambda: load_image_batch([data], width=4, height=4, **arguments),
        lambda: ImageOptions(4, 4, **arguments),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            call()


@st.composite
def paddings(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[int, int], int, Any]:
    """Draw the arguments of a call, the size and the orientation of an image, and a value for its padding."""
    pix_fmt = draw(st.sampled_from(["rgb24", "bgr24", "gray", "index"]))
    width, height = draw(st.tuples(st.integers(1, 40), st.integers(1, 40)))
    dtypes = ["uint8", "int64"] if pix_fmt == "index" else ["uint8", "float32"]
    options = {"pix_fmt": pix_fmt, "width": width, "height": height, "dtype": draw(st.sampled_from(dtypes))}
    options |= {"layout": draw(st.sampled_from(["NHWC", "NCHW"])), "interpolation": "nearest", "exif": True}
    channels = 3 if pix_fmt.endswith("24") else 1
    values = draw(st.tuples(*[st.integers(0, 255)] * channels))
    size = draw(st.tuples(st.integers(1, 40), st.integers(1, 40)))
    return options, size, draw(st.sampled_from([1, 6])), values if channels == 3 else values[0]


@settings(deadline=None, max_examples=60)
@given(case=paddings())
def test_pad_value_is_where_no_image_is(case: Any) -> None:
    options, size, orientation, pad = case
    exif = Image.Exif()
    exif[0x0112] = orientation
    white = encode(Image.new("L", size, 255), "PNG", exif=exif)
    plain = {**options, "pix_fmt": "gray", "dtype": "uint8", "layout": "NHWC"}
    outside = to_numpy(load_image_batch([white], **plain))[0, ..., 0] == 0
    data = encode(with_palette(drawn(0, size)), "PNG", exif=exif)
    loaded, expected = (to_numpy(load_image_batch([data], **options, pad_value=value))[0] for value in (pad, 0))
    if options["pix_fmt"] != "index" and options["layout"] == "NCHW":
        loaded, expected = np.moveaxis(loaded, 0, -1), np.moveaxis(expected, 0, -1).copy()
    expected[outside] = np.asarray(pad) / (255 if loaded.dtype == np.float32 else 1)
    assert np.allclose(loaded, expected, rtol=1e-6)


ARRAYS = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", ">u2", ">i4"]


@settings(deadline=None, max_examples=60)
@given(
    dtype=st.sampled_from(ARRAYS),
    seed=st.integers(0, 5),
    view=views(),
    order=st.sampled_from(["C", "F", "reversed"]),
)
def test_load_mask_batch_takes_arrays_as_files(dtype: str, seed: int, view: Any, order: str) -> None:
    size, box, (width, height), flip = view
    ids = drawn(seed, size, 2 if dtype == "bool" else 128).astype(dtype)
    backwards = ids[::-1, ::-1].copy()[::-1, ::-1]
    array = {"C": ids, "F": np.asfortranarray(ids), "reversed": backwards}[order]
    levels = ids.astype(int)
    masks = [array, png(levels[..., None], 8, 0), encode(with_palette(levels), "GIF", optimize=False)]
    crops: Any = {"crop": [box] * len(masks), "flip": flip, "mode": "stretch"}
    loaded = to_numpy(load_mask_batch(masks, width=width, height=height, **crops))
    assert (loaded == viewed(ids, box, (width, height), flip=flip)).all()


NARROW = {
    "1 bit": lambda ids: png(ids[..., None], 1, 0),
    "2 bits": lambda ids: png(ids[..., None], 2, 0),
    "4 bits": lambda ids: png(ids[..., None], 4, 0),
    "pgm": lambda ids: pnm(5, 15, ids[..., None]),
    "pgm as text": lambda ids: pnm(2, 15, ids[..., None]),
    "tiff": lambda ids: encode(Image.fromarray(ids.astype(np.uint8)), "TIFF"),
    "tiff of 1 bit": lambda ids: encode(Image.fromarray(ids.astype(bool)), "TIFF"),
    "bmp": lambda ids: bmp(ids, 4, palette=palette_of(0, 16)),
}


@pytest.mark.parametrize("kind", sorted(NARROW))
def test_load_mask_batch_gives_numbers_as_they_are_stored(kind: str) -> None:
    ids = drawn(0, (13, 7), 2 if "1 bit" in kind else 4)
    assert (to_numpy(load_mask_batch([NARROW[kind](ids)], width=None, height=None))[0] == ids).all()


def test_load_mask_batch_takes_the_crops_of_images(tmp_path: Path) -> None:
    """Red and green of a photo are its columns and rows, and so are those of its masks."""
    rows, columns = np.mgrid[0:90, 0:120]
    photo = encode(Image.fromarray(np.stack([columns, rows, 0 * rows], -1).astype(np.uint8)), "PNG")
    path = tmp_path / "columns.png"
    path.write_bytes(encode(with_palette(columns), "PNG"))
    crop = random_resized_crop([5, 5, 5], seed=1, epoch=0)
    size: Any = {"width": 31, "height": 47, "mode": "stretch", "crop": crop, "flip": [True, True, True]}
    image = to_numpy(load_image_batch([photo] * 3, interpolation="nearest", **size))
    masks = to_numpy(load_mask_batch([path, rows, torch_of(rows)], dtype="int64", num_threads=2, **size))
    assert masks.dtype == np.int64
    assert (masks == np.stack([image[0, ..., 0], image[1, ..., 1], image[2, ..., 1]])).all()


def torch_of(array: AnyArray) -> Any:
    """Return an array of a library that shows it only by ``__array__``."""

    class Shown:
        ndim = 2
        shape = array.shape

        def __array__(self, dtype: Any = None, copy: Any = None) -> AnyArray:
            del dtype, copy
            return array

    return Shown()


def test_load_mask_batch_pads_with_an_id() -> None:
    ids = drawn(0, (6, 3))
    (mask,) = to_numpy(load_mask_batch([ids], width=6, height=6, pad_value=65535, dtype="int32"))
    assert (mask[1:4] == ids).all()
    assert set(mask[[0, 4, 5]].ravel().tolist()) == {65535}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("stored", ["int16", "int32", "int64"])
def test_load_mask_batch_takes_negative_ids(dtype: Any, stored: str) -> None:
    ids = np.array([[-32768, -1, 0], [-256, -100, 32767]], stored)
    for pad_value in (-32768, -100, -1, 65535):
        (mask,) = to_numpy(load_mask_batch([ids], width=3, height=4, pad_value=pad_value, dtype=dtype))
        assert mask.dtype == dtype
        assert mask.tolist() == [[pad_value] * 3, *ids.tolist(), [pad_value] * 3]
    # From the right to the left, and column by column.
    turned = to_numpy(load_mask_batch([ids[:, ::-1].T], width=None, height=None, flip=True, dtype=dtype))[0]
    assert turned.tolist() == ids[:, ::-1].T[:, ::-1].tolist()


MASK_FAILURES: dict[str, tuple[Any, str]] = {
    "negative": (np.array([[0, -1]]), "srcs[0], array (1, 2): the id -1 at row 0, column 1 is not from 0 to 255"),
    "large": (np.array([[0], [256]]), "the id 256 at row 1, column 0 is not from 0 to 255"),
    "beyond int64": (np.array([[1 << 63]], np.uint64), "is not from 0 to 255"),
    "wide": (png(np.zeros((1, 2, 1), int), 16, 0), "dtype='uint16' has room for them"),
    "a photo": (encode(make_image(8, 8)), "ids are read from a palette or from gray without alpha"),
    "a lossy tiff": (encode(make_image(8, 8).convert("L"), "TIFF", compression="jpeg"), "this is tiff (gray)"),
    "white is 0": (encode(make_image(8, 8).convert("L"), "TIFF", tiffinfo={262: 0}), "this is tiff (gray)"),
    "bits of ink": (pnm(4, 1, np.zeros((2, 2, 1), int)), "this is pbm (gray)"),
    "missing": (Path("/no/such/mask.png"), "srcs[0], /no/such/mask.png: cannot open the file"),
    "no picture": (b"nothing", "srcs[0], image of 7 bytes: "),
}


@pytest.mark.parametrize("kind", sorted(MASK_FAILURES))
def test_load_mask_batch_says_why_a_mask_fails(kind: str) -> None:
    source, words = MASK_FAILURES[kind]
    with pytest.raises(LoadError, match=f"1 of 1 masks could not be loaded(?s:.*){re.escape(words)}"):
        load_mask_batch([source], width=None, height=None)
    whole = np.full((4, 4), 3, np.uint8)
    skipped = load_mask_batch([source, whole], width=4, height=4, on_error="skip")
    assert to_numpy(skipped).tolist() == whole[None].tolist()
    zeros = load_mask_batch([source, whole], width=4, height=4, on_error="zero")
    assert to_numpy(zeros).tolist() == np.stack([0 * whole, whole]).tolist()
    assert [failure.index for failure in zeros.failures] == [0]


@pytest.mark.parametrize(
    ("srcs", "arguments", "error", "words"),
    [
        ([np.zeros((2, 2), np.uint8), np.zeros((2, 2), np.float32)], {}, TypeError, r"`srcs\[1\]`.* integers or bools"),
        ([np.zeros((0, 2), np.uint8)], {}, TypeError, r"`srcs\[0\]`"),
        ([np.zeros((2, 2, 1), np.uint8)], {}, TypeError, r"`srcs\[0\]` must be an array \(H, W\)"),
        ([], {}, ValueError, "`srcs`"),
        ([np.zeros((2, 2), np.uint8)], {"dtype": "float32"}, ValueError, "`dtype`"),
        ([np.zeros((2, 2), np.uint8)], {"pad_value": 256}, ValueError, "`pad_value`"),
        ([np.zeros((2, 2), np.uint8)], {"pad_value": -1, "dtype": "uint16"}, ValueError, "an int from 0 to 65535"),
        ([np.zeros((2, 2), np.uint8)], {"pad_value": -32769, "dtype": "int64"}, ValueError, "from -32768 to 65535"),
        ([np.zeros((2, 2), np.uint8)], {"on_error": "partial"}, ValueError, "`on_error`"),
        ([np.zeros((2, 2), np.uint8)], {"crop": [(0, 0, 1, 1)] * 2}, ValueError, "`crop`"),
    ],
)
def test_load_mask_batch_refuses_by_name(srcs: Any, arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        load_mask_batch(srcs, width=2, height=2, **arguments)


def test_load_mask_batch_writes_into_storage() -> None:
    room = np.zeros((2, 3, 3), np.uint16)
    load_mask_batch([np.full((3, 3), 300)] * 2, width=3, height=3, dtype="uint16", storage=room)
    assert (room == 300).all()
