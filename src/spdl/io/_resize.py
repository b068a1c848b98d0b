"""Which resizes native code does itself, and how they are asked for."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from spdl.io._lazy import native

if TYPE_CHECKING:
    from spdl.io._native import Resize

Mode: TypeAlias = Literal["pad", "stretch"]
Interpolation: TypeAlias = Literal["nearest", "area", "bilinear", "bicubic", "lanczos"]

MAX_SIDE = 65535
"""The longest side in pixels, of input and output: that of the largest JPEG."""

_SCALE_FLAGS: dict[str, Interpolation] = {
    "neighbor": "nearest",
    "area": "area",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos": "lanczos",
}

MAX_PIXELS = 178_956_970
"""The most pixels of an output: the size above which Pillow refuses an image as a decompression bomb."""

# The forms in which get_video_filter_desc writes what native code does itself.
_SERVED = re.compile(
    r"(?:scale=w=(?P<width>\d+):h=(?P<height>\d+):flags=(?P<flags>\w+)"
    r"(?P<pad>:force_original_aspect_ratio=decrease,pad=w=(?P=width):h=(?P=height):x=-1:y=-1:color=black)?,)?"
    r"format=pix_fmts=rgb24"
)


def resize_to(width: int | None, height: int | None, mode: Mode, interpolation: Interpolation) -> Resize:
    """Check a resize and bring it into the form that native code takes.

    Raises:
        TypeError, ValueError: If an argument is not what it must be.
    """
    if mode not in get_args(Mode):
        msg = f"`mode` must be one of {', '.join(map(repr, get_args(Mode)))}, got {mode!r}"
        raise ValueError(msg)
    if interpolation not in get_args(Interpolation):
        msg = f"`interpolation` must be one of {', '.join(map(repr, get_args(Interpolation)))}, got {interpolation!r}"
        raise ValueError(msg)
    sides = _side("width", width), _side("height", height)
    if sides[0] * sides[1] > MAX_PIXELS:
        msg = f"`width` x `height` must be at most {MAX_PIXELS} pixels, got {sides[0]}x{sides[1]}"
        raise ValueError(msg)
    return native.Resize(*sides, mode, interpolation)


def scale_flags(interpolation: Interpolation) -> str:
    """Return FFmpeg's name of an interpolation."""
    return next(flags for flags, name in _SCALE_FLAGS.items() if name == interpolation)


@lru_cache(maxsize=64)
def parse_served(filter_desc: str) -> Resize | None:
    """Return the resize that a filter description asks for, or None where it is for FFmpeg to interpret."""
    found = _SERVED.fullmatch(filter_desc)
    if found is None:
        return None
    if found["width"] is None:
        return native.Resize(0, 0, "stretch", "bicubic")
    width, height = int(found["width"]), int(found["height"])
    if found["flags"] not in _SCALE_FLAGS or max(width, height) > MAX_SIDE:
        return None
    return native.Resize(width, height, "pad" if found["pad"] else "stretch", _SCALE_FLAGS[found["flags"]])


def _side(name: str, side: int | None) -> int:
    if side is None:
        return 0
    try:
        pixels = side.__index__()
    except AttributeError:
        msg = f"`{name}` must be an integer or None, got {type(side).__name__}"
        raise TypeError(msg) from None
    if not 1 <= pixels <= MAX_SIDE:
        msg = f"`{name}` must be from 1 to {MAX_SIDE} pixels, got {pixels}"
        raise ValueError(msg)
    return pixels
