"""Pictures that were stored without compression, as arrays."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from spdl.io import FormatError

__all__ = ["decode_picture"]

# How many values a pixel has, and of which type, by Pillow's modes.
_MODES = {"L": (1, "u1"), "RGB": (3, "u1"), "RGBA": (4, "u1"), "CMYK": (4, "u1"), "YCbCr": (3, "u1"), "HSV": (3, "u1")}
_MODES |= {"LA": (2, "u1"), "La": (2, "u1"), "PA": (2, "u1"), "P": (1, "u1"), "LAB": (3, "u1"), "RGBX": (4, "u1")}
_MODES |= {"RGBa": (4, "u1"), "I": (1, "<i4"), "F": (1, "<f4"), "I;16": (1, "<u2"), "I;16L": (1, "<u2")}
_MODES |= {"I;16B": (1, ">u2")}
# A bit for each pixel.
_BITS = "1"


def decode_picture(content: memoryview, *, mode_first: bool) -> np.ndarray[Any, Any]:
    """Return the pixels of a picture of Pillow's that was stored with its size and mode.

    Args:
        content: Three numbers, the mode, and the pixels.
        mode_first: Whether the length of the mode is the first of the numbers, or the last.
    """
    numbers = struct.unpack_from("<3I", content)
    length, width, height = numbers if mode_first else (numbers[2], *numbers[:2])
    mode = bytes(content[12 : 12 + min(length, 16)]).decode("ascii", "replace")
    if mode == _BITS:
        rows = np.frombuffer(content[12 + length :], np.uint8).reshape((height, -(-width // 8)))
        return np.unpackbits(rows, axis=1, count=width).view(bool)
    if mode not in _MODES:
        raise FormatError(f"pictures of the mode {mode!r} cannot be read: {', '.join((_BITS, *_MODES))} can")
    channels, kind = _MODES[mode]
    pixels = np.frombuffer(content[12 + length :], kind)
    return pixels.reshape((height, width, channels) if channels > 1 else (height, width))
