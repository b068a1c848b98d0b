"""Pictures that were stored without compression, as arrays."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from spdl.io import FormatError

__all__ = ["decode_picture"]

# How many values a pixel has, and of which type, by Pillow's modes.
_MODES = {"L": (1, "u1"), "RGB": (3, "u1"), "RGBA": (4, "u1"), "CMYK": (4, "u1"), "YCbCr": (3, "u1"), "HSV": (3, "u1")}
_MODES |= {"LA": (2, "u1"), "P": (1, "u1"), "I": (1, "<i4"), "F": (1, "<f4"), "I;16": (1, "<u2")}


def decode_picture(content: memoryview, *, mode_first: bool) -> np.ndarray[Any, Any]:
    """Return the pixels of a picture of Pillow's that was stored with its size and mode.

    Args:
        content: Three numbers, the mode, and the pixels.
        mode_first: Whether the length of the mode is the first of the numbers, or the last.
    """
    numbers = struct.unpack_from("<3I", content)
    length, width, height = numbers if mode_first else (numbers[2], *numbers[:2])
    mode = bytes(content[12 : 12 + min(length, 16)]).decode("ascii", "replace")
    if mode not in _MODES:
        raise FormatError(f"pictures of the mode {mode!r} cannot be read: {', '.join(_MODES)} can")
    channels, kind = _MODES[mode]
    pixels = np.frombuffer(content[12 + length :], kind)
    return pixels.reshape((height, width, channels) if channels > 1 else (height, width))
