"""HEIC files around pictures whose samples are known, and the colours that libheif makes of such samples."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tests.io.av.ffmpeg import need_encoder, pipe_ffmpeg
from tests.io.avif_files import Item, avif, box, find_box, full_box

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.io.images import Array

SHIFTS = {"gray": None, "yuv420p": (1, 1), "yuv422p": (0, 1), "yuv444p": (0, 0)}
"""How often rows and columns of chroma are halved."""

WEIGHTS = {1: (0.2126, 0.0722), 4: (0.30, 0.11), 6: (0.299, 0.114), 7: (0.212, 0.087), 9: (0.2627, 0.0593)}
"""The parts of red and blue in luma, by the number of the matrix."""

BRANDS = b"heic\0\0\0\0mif1heicmiaf"


@dataclass(frozen=True)
class Samples:
    """The planes of a picture, of which there are one or three."""

    planes: tuple[Array, ...]
    layout: str = "yuv420p"
    depth: int = 8


def samples(width: int, height: int, layout: str = "yuv420p", depth: int = 8, seed: int = 0) -> Samples:
    """Return waves that reach all levels, with some noise."""
    rng = np.random.default_rng(seed)
    shift = SHIFTS[layout]
    sizes = [(height, width)] + ([] if shift is None else [(height >> shift[0], width >> shift[1])] * 2)
    planes = []
    for number, size in enumerate(sizes):
        y, x = np.mgrid[: size[0], : size[1]]
        wave = np.sin((x + 3 * seed) / (5 + 2 * number)) + np.cos(y / (7 - number)) + rng.normal(0, 0.1, size)
        levels = np.clip(wave / 3.6 + 0.5, 0, 1) * ((1 << depth) - 1)
        planes.append(levels.astype(np.uint8 if depth == 8 else np.uint16))
    return Samples(tuple(planes), layout, depth)


def colr(matrix: int, *, full: bool, primaries: int = 1) -> bytes:
    return box(b"colr", b"nclx" + struct.pack(">HHHB", primaries, 13, matrix, 0x80 * full))


def size_box(width: int, height: int) -> bytes:
    return full_box(b"ispe", struct.pack(">II", width, height))


def hevc(shown: Samples, *properties: bytes) -> Item:
    """Return an item from which a decoder gets exactly these samples. Skip the test if nothing can make it."""
    encoder = need_encoder("libx265")
    height, width = shown.planes[0].shape
    layout = shown.layout + ("" if shown.depth == 8 else f"{shown.depth}le")
    raw = b"".join(np.ascontiguousarray(plane).tobytes() for plane in shown.planes)
    made = pipe_ffmpeg(
        raw,
        *("-f", "rawvideo", "-pix_fmt", layout, "-s", f"{width}x{height}", "-i", "pipe:0"),
        *("-c:v", encoder, "-x265-params", "lossless=1:log-level=none:pools=none:frame-threads=1", "-tag:v", "hvc1"),
        *("-movflags", "frag_keyframe+empty_moov", "-f", "mp4", "pipe:1"),
    )
    data = find_box(made, b"mdat")[8:]
    return Item(b"hvc1", data, (find_box(made, b"hvcC"), size_box(width, height), *properties))


def heif(*items: Item, brands: bytes = BRANDS, **options: object) -> bytes:
    """Return a file whose picture is the first of the items, which get the numbers from 1 on."""
    return avif(items, brands=brands, **options)  # type: ignore[arg-type]


def add(item: Item, *properties: bytes) -> Item:
    return replace(item, properties=(*item.properties, *properties))


def colours(shown: Samples, *, matrix: int = 6, full: bool = True, depth: int | None = None) -> NDArray[np.int64]:
    """Return the RGB that libheif makes of samples, with so many bits: those of the samples, if None.

    Chroma is repeated. Picture of 4:2:0 and all levels become bytes by integers, and others by floats.
    """
    wanted = shown.depth if depth is None else depth
    shift = SHIFTS[shown.layout]
    by_integers = shift == (1, 1) and full and wanted == 8
    cut = shown.depth - 8 if by_integers else 0
    inner = shown.depth - cut
    planes = [plane.astype(np.int64) >> cut for plane in shown.planes]
    zero, luma_factor, chroma_factor = (0, 1, 1) if full else (16 << (inner - 8), 1.1689, 1.1429)
    most = (1 << inner) - 1

    def rounded(values: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.clip((values + np.float32(0.5)).astype(np.int64), 0, most)

    luma = (planes[0].astype(np.float32) - np.float32(zero)) * np.float32(luma_factor)
    if shift is None:
        result = np.repeat(rounded(luma)[..., np.newaxis], 3, 2)
    else:
        cb, cr = (plane.repeat(1 << shift[0], 0).repeat(1 << shift[1], 1) - (1 << (inner - 1)) for plane in planes[1:])
        red, blue = (np.float32(weight) for weight in WEIGHTS[matrix])
        rest = blue + red - np.float32(1)
        factors = np.array([2 * (1 - red), 2 * blue * (1 - blue) / rest, 2 * red * (1 - red) / rest, 2 * (1 - blue)])
        if by_integers:
            red_cr, green_cb, green_cr, blue_cb = np.rint(factors * 256).astype(np.int64)
            parts = (red_cr * cr, green_cb * cb + green_cr * cr, blue_cb * cb)
            result = np.clip(np.stack([planes[0] + (part + 128 >> 8) for part in parts], -1), 0, most)
        else:
            red_cr, green_cb, green_cr, blue_cb = factors.astype(np.float32)
            by_cb, by_cr = (chroma.astype(np.float32) * np.float32(chroma_factor) for chroma in (cb, cr))
            sums = (luma + red_cr * by_cr, luma + green_cb * by_cb + green_cr * by_cr, luma + blue_cb * by_cb)
            result = np.stack([rounded(each) for each in sums], -1)
    return result >> (inner - wanted)
