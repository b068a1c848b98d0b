"""PNGs as other writers make them, and damaged ones, against Pillow's pixels and errors."""

import io
import itertools
import struct
import warnings
import zlib
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.io.image_files import PASSES, AnyArray, png, png_chunk
from tests.io.images import Array, encode, make_image

from spdl.io import decode_config, demux_image, load_image, load_image_batch, to_numpy

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, GRAY_ALPHA: 2, RGBA: 4}
KINDS = [
    *((GRAY, depth) for depth in (1, 2, 4, 8, 16)),
    *((PALETTE, depth) for depth in (1, 2, 4, 8)),
    *((kind, depth) for kind in (RGB, GRAY_ALPHA, RGBA) for depth in (8, 16)),
]
END = png_chunk(b"IEND", b"")
SEED = np.random.default_rng(0)


def predicted(filtering: int, row: AnyArray, above: AnyArray, step: int) -> AnyArray:
    """Return what the filters of the PNG specification predict of a row of bytes."""
    left = np.concatenate([np.zeros(step, int), row[:-step]])
    corner = np.concatenate([np.zeros(step, int), above[:-step]])
    distances = np.stack([np.abs(above - corner), np.abs(left - corner), np.abs(left + above - 2 * corner)])
    # The first of equal ones, which is the order of the specification.
    nearest = np.choose(distances.argmin(0), [left, above, corner])
    all_of_them: AnyArray = np.stack([np.zeros_like(row), left, above, (left + above) // 2, nearest])
    return cast("AnyArray", all_of_them[filtering])


def header(width: int, height: int, depth: int, color: int, interlaced: int = 0) -> bytes:
    fields = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", fields)


def filtered_png(
    samples: AnyArray, depth: int, color: int, filters: list[int], pieces: int, *, interlaced: bool = False
) -> bytes:
    """Make a PNG whose rows take turns with these filters, and whose pixels lie in so many chunks."""
    height, width, channels = samples.shape
    turns = itertools.cycle(filters)
    content = b""
    for left, across, top, down in PASSES if interlaced else [(0, 1, 0, 1)]:
        part = samples[top::down, left::across]
        if part.size == 0:
            continue
        rows = part.astype(">u2" if depth == 16 else "u1").reshape(len(part), -1).view("u1").astype(int)
        above = np.zeros_like(rows[0])
        for row, filtering in zip(rows, turns, strict=False):
            difference = row - predicted(filtering, row, above, channels * depth // 8)
            content += bytes([filtering]) + difference.astype("u1").tobytes()
            above = row
    data = zlib.compress(content)
    bounds = np.linspace(0, len(data), pieces + 1).astype(int)
    parts = [png_chunk(b"IDAT", data[a:b]) for a, b in itertools.pairwise(bounds)]
    return header(width, height, depth, color, int(interlaced)) + b"".join(parts) + END


def pillows(data: bytes) -> Array:
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # Transparent palettes.
        array: Array = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    return array


@given(
    color=st.sampled_from(sorted(CHANNELS)),
    depth=st.sampled_from([8, 16]),
    size=st.tuples(st.integers(1, 40), st.integers(1, 12)),
    filters=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    pieces=st.integers(1, 4),
    interlaced=st.booleans(),
    smooth=st.booleans(),
    seed=st.integers(0, 9),
)
def test_every_filter(
    *,
    color: int,
    depth: int,
    size: tuple[int, int],
    filters: list[int],
    pieces: int,
    interlaced: bool,
    smooth: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    # Where neighbours are alike, all three predictions of the last filter are near.
    samples = rng.integers(0, 4 if smooth else 1 << depth, (size[1], size[0], CHANNELS[color]))
    data = filtered_png(samples, depth, color, filters, pieces, interlaced=interlaced)
    expected = samples >> (depth - 8)
    expected = expected[..., :3] if color in (RGB, RGBA) else expected[..., [0, 0, 0]]
    loaded = load_image(data)
    assert loaded.backends == ("libdeflate",)
    np.testing.assert_array_equal(to_numpy(loaded), expected)
    if (color, depth) != (GRAY, 16):  # Pillow keeps its bits.
        np.testing.assert_array_equal(pillows(data), expected)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA", "1"])
@pytest.mark.parametrize("pixel_format", ["rgb24", "bgr24", "gray"])
def test_channels(mode: str, pixel_format: str) -> None:
    image = make_image(37, 23).convert(mode)
    data = encode(image, "PNG")
    expected = pillows(data)
    if pixel_format == "bgr24":
        expected = expected[..., ::-1]
    elif pixel_format == "gray":
        expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB").convert("L"))[..., np.newaxis]
    batch = load_image_batch([data], width=37, height=23, mode="stretch", pix_fmt=pixel_format)
    assert batch.backends == ("libdeflate",)
    np.testing.assert_array_equal(to_numpy(batch)[0], expected)


@pytest.mark.parametrize("box", [(0, 0, 37, 23), (5, 3, 25, 14), (36, 22, 37, 23), (0, 22, 37, 23)])
def test_parts(box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = box
    data = encode(make_image(37, 23), "PNG")
    part = load_image_batch([data], width=right - left, height=bottom - top, mode="stretch", crop=[box])
    np.testing.assert_array_equal(to_numpy(part)[0], pillows(data)[top:bottom, left:right])


def small(extra: bytes = b"", content: bytes | None = None, end: bytes = END) -> bytes:
    return header(5, 4, 8, RGB) + extra + png_chunk(b"IDAT", COMPRESSED if content is None else content) + end


ROWS = b"".join(b"\0" + SEED.bytes(15) for _ in range(4))
COMPRESSED = zlib.compress(ROWS)
WRONG_SUM = png_chunk(b"tEXt", b"Comment\0a")[:-1] + b"x"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(small(), id="sound"),
        pytest.param(small(end=b""), id="no end"),
        pytest.param(small(end=WRONG_SUM), id="wrong checksum behind the pixels"),
        pytest.param(small(content=COMPRESSED + b"more"), id="bytes behind the compressed ones"),
        pytest.param(small(content=zlib.compress(ROWS + bytes(1000))), id="more pixels"),
        pytest.param(small(extra=png_chunk(b"IDAT", b"")), id="an empty chunk of pixels"),
        pytest.param(small(extra=png_chunk(b"PLTE", bytes(7))), id="a palette of two colours and a third"),
        pytest.param(small(extra=png_chunk(b"iCCP", b"name\0\0no profile")), id="a broken profile"),
        pytest.param(small(extra=png_chunk(b"zTXt", b"name\0\0no text")), id="a broken text"),
    ],
)
def test_what_pillow_reads(data: bytes) -> None:
    np.testing.assert_array_equal(to_numpy(load_image(data)), pillows(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(small(extra=WRONG_SUM), "the checksum of a chunk tEXt is wrong", id="checksum"),
        pytest.param(small(extra=png_chunk(b"PLTE", bytes(6))[:-1] + b"x"), "chunk PLTE is wrong", id="palette"),
        pytest.param(small()[:29] + b"x" + small()[30:], "chunk IHDR is wrong", id="header"),
        pytest.param(small(content=COMPRESSED[:-1] + b"x"), "its pixels cannot be inflated", id="sum of the pixels"),
        pytest.param(small(content=zlib.compress(b"\5" + ROWS[1:])), "row 0 has the filter 5", id="filter"),
        pytest.param(small(content=zlib.compress(ROWS[:-1])), "it has fewer pixels than it says", id="fewer"),
        pytest.param(small(content=b""), "is damaged: its (0 compressed|pixels)", id="nothing"),
        pytest.param(small(content=COMPRESSED[:20], end=WRONG_SUM), "its pixels cannot be inflated", id="a gap"),
        pytest.param(small()[:60], "truncated: it ends within a chunk IDAT", id="cut"),
        pytest.param(small()[:61], "truncated: it ends within a chunk IDAT", id="cut later"),
        pytest.param(
            small()[:40],
            "cannot decode the PNG: the data is truncated: its 40 bytes end before its picture begins",
            id="cut early",
        ),
        pytest.param(header(5, 4, 8, RGB) + END, "it has no pixels", id="no pixels"),
        pytest.param(header(5, 4, 8, PALETTE) + small()[33:], "it has no palette", id="no palette"),
        pytest.param(header(5000, 4000, 8, RGB) + small()[33:], "compressed bytes cannot hold its picture", id="size"),
    ],
)
def test_what_pillow_refuses(data: bytes, message: str) -> None:
    with pytest.raises(Exception, match=r"truncated|broken|cannot|unrecognized|bad|palette|unpack"):
        pillows(data)
    with pytest.raises(RuntimeError, match=message):
        load_image(data)


def test_what_follows_the_pixels_has_a_limit() -> None:
    with pytest.raises(RuntimeError, match="it has many more pixels than it says"):
        load_image(small(content=zlib.compress(ROWS + bytes(100 << 20))))


@pytest.mark.parametrize("end", range(1, 400, 7))
def test_every_cut(end: int) -> None:
    data = encode(make_image(20, 15), "PNG")[:-20]
    with pytest.raises(RuntimeError):
        load_image(data[: -end if end < len(data) else 1])


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("transparent", [False, True])
@pytest.mark.parametrize(("color", "depth"), KINDS)
def test_every_kind_as_it_is_stored(*, color: int, depth: int, transparent: bool, interlaced: bool) -> None:
    rng = np.random.default_rng(depth)
    samples = rng.integers(0, 1 << depth, (11, 13, CHANNELS.get(color, 1)))
    most = (1 << max(depth, 8)) - 1
    palette, alphas = rng.integers(0, 256, (256, 3)), np.append(rng.integers(0, 256, 3), [255] * 253)
    extra = png_chunk(b"PLTE", palette.astype(np.uint8).tobytes()) if color == PALETTE else b""
    pixels = palette[samples[..., 0]] if color == PALETTE else samples * (most // ((1 << depth) - 1))
    if transparent and color == PALETTE:
        extra += png_chunk(b"tRNS", alphas[:3].astype(np.uint8).tobytes())
        pixels = np.dstack([pixels, alphas[samples[..., 0]]])
    elif transparent and color in (GRAY, RGB):
        # Bits above those of a sample do not count.
        chosen = samples[3, 4] | (0xA500 if depth == 8 else 0)
        extra += png_chunk(b"tRNS", chosen.astype(">u2").tobytes())
        pixels = np.dstack([pixels, np.where((samples == samples[3, 4]).all(2), 0, most)])
    data = png(samples, depth, color, interlaced=interlaced, extra=extra)
    stored = load_image(data, filter_desc=None)
    assert stored.backends == ("libdeflate",)
    expected = pixels.astype(np.uint16 if depth == 16 else np.uint8)
    assert to_numpy(stored).dtype == expected.dtype
    np.testing.assert_array_equal(to_numpy(stored), expected)
    np.testing.assert_array_equal(to_numpy(load_image(data, filter_desc="vflip")), expected[::-1])
    names = {1: "gray", 2: "ya", 3: "rgb", 4: "rgba"}
    name = demux_image(data).pix_fmt
    assert name.startswith(names[expected.shape[2]])
    assert ("16" in name or "48" in name or "64" in name) == (depth == 16)
    if depth < 16:
        colors = expected[..., [0, 0, 0]] if expected.shape[2] < 3 else expected[..., :3]
        alpha = expected[..., -1] if expected.shape[2] in (2, 4) else np.full((11, 13), 255)
        rgba = to_numpy(load_image(data, filter_desc="format=pix_fmts=rgba"))
        np.testing.assert_array_equal(rgba, np.dstack([colors, alpha]))


@pytest.mark.parametrize("mode", ["P", "RGB", "RGBA", "LA"])
def test_alpha_is_pillows(mode: str) -> None:
    image = make_image(37, 23).convert(mode)
    if mode in ("RGBA", "LA"):
        image.putalpha(make_image(37, 23, 1).convert("L"))
    transparency = {"P": bytes(range(200)), "RGB": image.getpixel((3, 4))}.get(mode)
    data = encode(image, "PNG", **({} if transparency is None else {"transparency": transparency}))
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))
    assert (expected[..., 3] < 255).any()
    rgba = to_numpy(load_image(data, filter_desc="format=pix_fmts=rgba"))
    np.testing.assert_array_equal(rgba, expected)


INTERLACED = png(np.random.default_rng(0).integers(0, 256, (23, 37, 3)), 8, RGB, interlaced=True)


@pytest.mark.parametrize("box", [(0, 0, 37, 23), (5, 3, 25, 14), (36, 22, 37, 23), (0, 22, 37, 23)])
def test_parts_of_an_interlaced_one(box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = box
    part = load_image_batch([INTERLACED], width=right - left, height=bottom - top, mode="stretch", crop=[box])
    np.testing.assert_array_equal(to_numpy(part)[0], pillows(INTERLACED)[top:bottom, left:right])


LATE = {"pHYs": bytes(9), "tRNS": bytes(6), "PLTE": bytes(9), "gAMA": bytes(4)}


@pytest.mark.parametrize("kind", LATE)
@pytest.mark.parametrize("interlaced", [False, True])
def test_chunks_behind_the_pixels_do_not_count(kind: str, interlaced: bool) -> None:  # noqa: FBT001
    data = INTERLACED if interlaced else encode(make_image(37, 23), "PNG")
    late = data[:-12] + png_chunk(kind.encode(), LATE[kind]) + data[-12:]
    for filters in ("format=pix_fmts=rgb24", None):
        np.testing.assert_array_equal(to_numpy(load_image(late, filter_desc=filters)), pillows(data))


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(png_chunk(b"PLTE", bytes(range(1, 20))), id="a part of a colour"),
        pytest.param(png_chunk(b"PLTE", bytes(range(1, 91))) + png_chunk(b"PLTE", bytes([7] * 9)), id="two palettes"),
        pytest.param(png_chunk(b"tRNS", bytes(9)) + png_chunk(b"PLTE", bytes(range(90))), id="alpha before colours"),
        pytest.param(png_chunk(b"PLTE", bytes(range(9))) + png_chunk(b"tRNS", bytes(300)), id="too much alpha"),
    ],
)
def test_odd_palettes_are_pillows(extra: bytes) -> None:
    samples = np.random.default_rng(0).integers(0, 32, (9, 13, 1))
    data = png(samples, 8, PALETTE, extra=extra)
    np.testing.assert_array_equal(to_numpy(load_image(data)), pillows(data))


def test_an_animation_with_alpha_gives_the_picture_that_every_reader_shows() -> None:
    pictures = [make_image(31, 22, seed).convert("RGBA") for seed in range(3)]
    data = encode(pictures[0], "PNG", save_all=True, append_images=pictures[1:], default_image=True)
    np.testing.assert_array_equal(to_numpy(load_image(data, filter_desc=None)), np.asarray(pictures[0]))


SHORT: dict[str, Callable[[bytes], bytes]] = {
    "rows are missing": lambda rows: zlib.compress(rows[:-200]),
    "a filter that does not exist": lambda rows: zlib.compress(rows[: -1 - 3 * 37] + b"\x09" + rows[-3 * 37 :]),
    "a chunk is missing": lambda rows: zlib.compress(rows)[: len(rows) // 2],
    "nothing": lambda _: b"",
}
CALLS: dict[str, Callable[[bytes], object]] = {
    "rgb": load_image,
    "batch": lambda data: load_image_batch([data], width=8, height=8),
    "the top": lambda data: load_image_batch([data], width=37, height=3, mode="stretch", crop=[(0, 0, 37, 3)]),
    "rgba": lambda data: load_image(data, filter_desc="format=pix_fmts=rgba"),
    "stored": lambda data: load_image(data, filter_desc=None),
    "by name": lambda data: load_image(data, decode_config=decode_config(backend="libdeflate")),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", SHORT)
@pytest.mark.parametrize("interlaced", [False, True])
def test_pixels_that_are_missing_are_an_error_in_every_call(kind: str, call: str, interlaced: bool) -> None:  # noqa: FBT001
    samples = np.random.default_rng(0).integers(0, 256, (23, 37, 3))
    whole = png(samples, 8, RGB, interlaced=interlaced)
    at = whole.index(b"IDAT") + 4
    rows = zlib.decompress(whole[at:-16])
    data = whole[: at - 8] + png_chunk(b"IDAT", SHORT[kind](rows)) + END
    with pytest.raises(RuntimeError, match=r"cannot decode the PNG: the data is (damaged|truncated)"):
        CALLS[call](data)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (3, 0, "one of its sides is said to be of 0 pixels"),
        (0, 0xFF, "one of its sides is said to be of 4278190085 pixels"),
        (8, 3, "there is no colour type 2 of 3 bits"),
        (9, 5, "there is no colour type 5 of 8 bits"),
        (10, 1, "its pixels are compressed by the unknown method 1"),
        (12, 2, "its pixels are interlaced by the unknown method 2"),
    ],
)
def test_headers_that_cannot_be(at: int, value: int, message: str) -> None:
    fields = bytearray(small()[16:29])
    fields[at] = value
    data = small()[:8] + png_chunk(b"IHDR", bytes(fields)) + small()[33:]
    with pytest.raises(RuntimeError, match=f"cannot decode the PNG: the data is damaged: {message}"):
        load_image(data)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (png_chunk(b"CgBI", bytes(4)) + small()[8:33], "it does not begin with a chunk IHDR but with CgBI"),
        (png_chunk(b"IHDR", bytes(12)), "its chunk IHDR has 12 bytes instead of 13"),
        (small()[8:33] * 2, "it has two chunks IHDR"),
        (small()[8:33] + png_chunk(b"tRNS", bytes(5)), "its chunk tRNS has 5 bytes instead of 6"),
    ],
)
def test_first_chunks_that_cannot_be(start: bytes, message: str) -> None:
    with pytest.raises(RuntimeError, match=f"cannot decode the PNG: the data is damaged: {message}"):
        load_image(small()[:8] + start + small()[33:])
