"""Image files that Pillow cannot write, put together by hand as their formats' specifications say."""

import itertools
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]

# Where each pass of an interlaced PNG begins, and its steps: across, then down.
PASSES = [(0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2)]


def png(samples: AnyArray, depth: int, color_type: int, *, interlaced: bool = False, extra: bytes = b"") -> bytes:
    """Make a PNG of samples (H, W, C) below ``2**depth``; `extra` are chunks to stand before the pixels."""
    height, width, _ = samples.shape
    passes = PASSES if interlaced else [(0, 1, 0, 1)]
    rows = [samples[top::down, left::across] for left, across, top, down in passes]
    content = b"".join(b"\0" + _packed(row, depth) for part in rows if part.size for row in part)
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, int(interlaced))
    chunks = png_chunk(b"IHDR", header) + extra + png_chunk(b"IDAT", zlib.compress(content)) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def png_chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def bmp(pixels: AnyArray, bits: int, *, palette: AnyArray | None = None, top_down: bool = False) -> bytes:
    """Make a BMP of indices (H, W), with a palette (N, 3) in RGB, or of pixels (H, W, 3 or 4) in BGR order."""
    height, width = pixels.shape[:2]
    lines = [_packed(row, min(bits, 8)) for row in pixels]
    padded = [line + bytes(-len(line) % 4) for line in lines]
    colors = b"" if palette is None else b"".join(bytes(color[::-1]) + b"\0" for color in palette)
    start = 14 + 40 + len(colors)
    content = b"".join(padded if top_down else padded[::-1])
    count = 0 if palette is None else len(palette)
    sides = width, -height if top_down else height
    info = struct.pack("<IiiHHIIiiII", 40, *sides, 1, bits, 0, len(content), 2835, 2835, count, 0)
    return b"BM" + struct.pack("<IHHI", start + len(content), 0, 0, start) + info + colors + content


def run_length_bmp(pixels: AnyArray, bits: int = 8, end: bytes = b"\0\1") -> bytes:
    """Make a BMP of indices (H, W) below 16, in runs; the last ones of each row lie one after the other."""
    last, content = 7, b""
    for row in pixels[::-1].tolist():
        for value, group in itertools.groupby(row[:-last]):
            content += bytes([len(list(group)), value * (17 if bits == 4 else 1)])
        packed = _packed(np.array(row[-last:]), bits)
        content += bytes([0, last]) + packed + bytes(len(packed) % 2) + b"\0\0"
    data = bmp(pixels, bits, palette=np.random.default_rng(1).integers(0, 256, (1 << bits, 3)))
    start = int.from_bytes(data[10:14], "little")
    return data[:30] + struct.pack("<I", 1 if bits == 8 else 2) + data[34:start] + content[:-2] + end


def pnm(kind: int, levels: int, samples: AnyArray) -> bytes:
    """Make a PBM, PGM or PPM, P1 to P6, of samples (H, W, C) from 0 to `levels`, with a comment."""
    head = b"P%d\n# a comment\n%d %d\n" % (kind, *samples.shape[1::-1])
    head += b"" if kind in (1, 4) else b"%d\n" % levels
    if kind == 4:
        return head + np.packbits(samples[..., 0].astype(np.uint8), axis=1).tobytes()
    if kind > 4:
        return head + samples.astype(">u2" if levels > 255 else "u1").tobytes()
    return head + b"\n".join(b" ".join(b"%d" % sample for sample in row.reshape(-1)) for row in samples) + b"\n"


def tiff(
    pixels: AnyArray,
    *,
    order: str = "<",
    rows: int | None = None,
    tile: tuple[int, int] | None = None,
    planar: bool = False,
    compression: int = 1,
    compress: Callable[[bytes], bytes] = bytes,
    lowest_bit_first: bool = False,
) -> bytes:
    """Make a TIFF of RGB pixels (H, W, 3) of 8 or 16 bits, in strips of so many rows, or in tiles (height, width).

    `compress` makes of a strip's bytes what is stored, and `compression` is the number of how it does.
    """
    height, width, channels = pixels.shape
    bits = 8 * pixels.itemsize
    stored = pixels.astype(pixels.dtype.newbyteorder("<" if order == "<" else ">"))
    entries: list[tuple[int, int, Sequence[int]]] = [
        (256, 3, [width]),
        (257, 3, [height]),
        (258, 3, [bits] * channels),
        (259, 3, [compression]),
        (262, 3, [2]),
        (266, 3, [2 if lowest_bit_first else 1]),
        (277, 3, [channels]),
        (284, 3, [2 if planar else 1]),
    ]
    if tile is not None:
        high, wide = tile
        padded = np.zeros((-(-height // high) * high, -(-width // wide) * wide, channels), stored.dtype)
        padded[:height, :width] = stored
        corners = [(y, x) for y in range(0, height, high) for x in range(0, width, wide)]
        chunks = [padded[y : y + high, x : x + wide].tobytes() for y, x in corners]
        entries += [(322, 3, [wide]), (323, 3, [high])]
    else:
        rows = rows or height
        planes = [stored[..., channel] for channel in range(channels)] if planar else [stored]
        chunks = [plane[y : y + rows].tobytes() for plane in planes for y in range(0, height, rows)]
        entries += [(278, 3, [rows])]
    chunks = [compress(chunk) for chunk in chunks]
    starts = [8 + sum(map(len, chunks[:index])) for index in range(len(chunks))]
    entries += [(324 if tile else 273, 4, starts), (325 if tile else 279, 4, [len(chunk) for chunk in chunks])]
    return tiff_file(sorted(entries), b"".join(chunks), order)


def tiff_file(entries: Sequence[tuple[int, int, Sequence[int]]], content: bytes, order: str = "<") -> bytes:
    """Make a TIFF of entries (tag, kind, values), in order, and of what lies from byte 8 on.

    Kinds are 3 for 16 bits, 4 for 32, and 5 for fractions, of two values each.
    """
    directory_at = 8 + len(content)
    far_at = directory_at + 2 + 12 * len(entries) + 4
    directory, far = struct.pack(order + "H", len(entries)), b""
    for tag, kind, values in entries:
        raw = struct.pack(f"{order}{len(values)}{'H' if kind == 3 else 'I'}", *values)
        field = raw.ljust(4, b"\0") if len(raw) <= 4 else struct.pack(order + "I", far_at + len(far))
        far += raw if len(raw) > 4 else b""
        directory += struct.pack(order + "HHI", tag, kind, len(values) // (2 if kind == 5 else 1)) + field
    mark = b"II" if order == "<" else b"MM"
    return mark + struct.pack(order + "HI", 42, directory_at) + content + directory + bytes(4) + far


def _packed(row: AnyArray, depth: int) -> bytes:
    """Put the samples of a row into bytes, the first one into the highest bits."""
    if depth == 16:
        return row.astype(">u2").tobytes()
    samples = row.reshape(-1).astype(np.uint8)
    bits = np.unpackbits(samples[:, None], axis=1)[:, 8 - depth :]
    return np.packbits(bits.reshape(-1)).tobytes()
