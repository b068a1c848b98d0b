"""PNGs as other writers make them, and damaged ones, against Pillow's pixels and errors."""

import io
import itertools
import struct
import zlib
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.io.image_files import AnyArray, png_chunk
from tests.io.images import Array, encode, make_image

from spdl.io import load_image, load_image_batch, to_numpy

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, GRAY_ALPHA: 2, RGBA: 4}
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


def header(width: int, height: int, depth: int, color: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))


def filtered_png(samples: AnyArray, depth: int, color: int, filters: list[int], pieces: int) -> bytes:
    """Make a PNG whose rows take turns with these filters, and whose pixels lie in so many chunks."""
    height, width, channels = samples.shape
    rows = samples.astype(">u2" if depth == 16 else "u1").reshape(height, -1).view("u1").astype(int)
    step = channels * depth // 8
    above = np.zeros_like(rows[0])
    content = b""
    for number, row in enumerate(rows):
        filtering = filters[number % len(filters)]
        content += bytes([filtering]) + (row - predicted(filtering, row, above, step)).astype("u1").tobytes()
        above = row
    data = zlib.compress(content)
    bounds = np.linspace(0, len(data), pieces + 1).astype(int)
    parts = [png_chunk(b"IDAT", data[a:b]) for a, b in itertools.pairwise(bounds)]
    return header(width, height, depth, color) + b"".join(parts) + END


def pillows(data: bytes) -> Array:
    array: Array = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    return array


@given(
    color=st.sampled_from(sorted(CHANNELS)),
    depth=st.sampled_from([8, 16]),
    size=st.tuples(st.integers(1, 40), st.integers(1, 12)),
    filters=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    pieces=st.integers(1, 4),
    smooth=st.booleans(),
    seed=st.integers(0, 9),
)
def test_every_filter(
    *, color: int, depth: int, size: tuple[int, int], filters: list[int], pieces: int, smooth: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    # Where neighbours are alike, all three predictions of the last filter are near.
    samples = rng.integers(0, 4 if smooth else 1 << depth, (size[1], size[0], CHANNELS[color]))
    data = filtered_png(samples, depth, color, filters, pieces)
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
