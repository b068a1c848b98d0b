"""TIFF files made entry by entry."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.io.image_files import tiff_file

Entry = tuple[int, Sequence[int]] | None
Entries = dict[int, Entry]
"""The kind and the values of each tag; None where there is no such entry."""

LEVELS = np.random.default_rng(0).integers(0, 256, (60, 100), np.uint8)
PIXELS = zlib.compress(LEVELS.tobytes())
SAMPLES = np.random.default_rng(1).integers(0, 256, (60, 100, 4), np.uint8)

RGB: Entries = {262: (3, [2])}
PALETTE = (3, list(range(0, 768 * 85, 85)))


def deflated(
    strips: Sequence[bytes], changes: Mapping[int, Entry] | None = None, before: bytes = b"", order: str = "<"
) -> bytes:
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
    chosen = {tag: entry for tag, entry in (entries | dict(changes or {})).items() if entry is not None}
    return tiff_file([(tag, *entry) for tag, entry in sorted(chosen.items())], before + b"".join(strips), order)


def stored(samples: Any, changes: Mapping[int, Entry] | None = None, order: str = "<") -> bytes:
    """Make a TIFF of 100x60 pixels, without compression, of samples (60, 100, C) or of what its strip holds."""
    content = samples if isinstance(samples, bytes) else samples.astype(samples.dtype.newbyteorder(order)).tobytes()
    count = samples.shape[2] if getattr(samples, "ndim", 2) == 3 else 1
    bits = 8 if isinstance(samples, bytes) else 8 * samples.itemsize
    entries: Entries = {258: (3, [bits] * count), 259: (3, [1]), 277: (3, [count])}
    return deflated([content], entries | dict(changes or {}), order=order)


def planes(samples: Any, changes: Mapping[int, Entry], order: str = "<") -> bytes:
    """Make the same of planes, a deflated strip each."""
    count, bits = samples.shape[2], 8 * samples.itemsize
    turned = samples.astype(samples.dtype.newbyteorder(order))
    strips = [zlib.compress(turned[..., index].tobytes()) for index in range(count)]
    entries: Entries = {258: (3, [bits] * count), 277: (3, [count]), 278: (4, [60]), 284: (3, [2])}
    return deflated(strips, entries | dict(changes), order=order)


def packed(levels: Any, bits: int, *, lowest_first: bool = False) -> bytes:
    """Put levels (60, 100, C) of so many bits side by side, the rows in whole bytes."""
    wide = levels.astype(">u2").view(np.uint8).reshape(*levels.shape, 2)
    rows = np.packbits(np.unpackbits(wide, axis=-1)[..., 16 - bits :].reshape(60, -1), axis=1)
    return (np.packbits(np.unpackbits(rows, bitorder="little")) if lowest_first else rows).tobytes()


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
