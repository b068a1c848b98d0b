"""The resizes that native code does by itself, given by arguments or by a filter description."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, check_int, refuse
from spdl.io._common.native import native

Mode: TypeAlias = Literal["pad", "stretch", "crop"]
Interpolation: TypeAlias = Literal["nearest", "area", "bilinear", "bicubic", "lanczos"]

_MODES = get_args(Mode)
_INTERPOLATIONS = get_args(Interpolation)

MAX_SIDE = 65535
"""The longest side of inputs and outputs in pixels: that of the largest JPEG."""

_SIDE = f"an int from 1 to {MAX_SIDE} pixels or None"

MAX_PIXELS = 178_000_000
"""The most pixels of an output."""

PIXEL_FORMATS = {"rgb24": 3, "bgr24": 3, "gray": 1}
"""FFmpeg's names of the pixel formats that native code writes, and how many channels they have."""

_SCALE_FLAGS: dict[str, Interpolation] = {
    "neighbor": "nearest",
    "area": "area",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos": "lanczos",
}

# The resizes that native code does itself, with named options, of which it leaves FFmpeg's defaults out.
_SERVED = re.compile(
    r"(?:scale=w=(?P<width>\d+):h=(?P<height>\d+)(?::flags=(?P<flags>\w+))?"
    r"(?:(?P<pad>:force_original_aspect_ratio=decrease,pad=w=(?P=width):h=(?P=height):x=-1:y=-1)"
    r"|(?P<crop>:force_original_aspect_ratio=increase,crop=w=(?P=width):h=(?P=height)))?,)?"
    r"(?:crop=w=(?P<center_width>[1-9]\d*):h=(?P<center_height>[1-9]\d*),)?"
    r"(?P<flip>hflip,)?"
    rf"format=pix_fmts=(?P<pix_fmt>{'|'.join(PIXEL_FORMATS)})"
)


class Resize(NamedTuple):
    """The size and pixel format that an image gets, and how. A side of 0 follows from the image."""

    target: tuple[int, int] = (0, 0)
    mode: Mode = "stretch"
    center: tuple[int, int] = (0, 0)
    """The size that is cut out of the centre of the result."""
    interpolation: Interpolation = "bicubic"
    flip: bool = False
    pix_fmt: str = "rgb24"


def resize_to(
    width: int | None, height: int | None, mode: Mode, interpolation: Interpolation, pix_fmt: str = "rgb24"
) -> Resize:
    """Return the resize that the arguments describe.

    Raises:
        TypeError, ValueError: If an argument is wrong.
    """
    check_choice("mode", mode, _MODES)
    check_choice("interpolation", interpolation, _INTERPOLATIONS)
    sides = _side("width", width), _side("height", height)
    if sides[0] * sides[1] > MAX_PIXELS:
        refuse(ValueError, "width", f"such that `width` x `height` is at most {MAX_PIXELS} pixels", sides)
    return Resize(sides, mode, (0, 0), interpolation, flip=False, pix_fmt=pix_fmt)


@lru_cache(maxsize=64)
def parse_served(filter_desc: str) -> Resize | None:
    """Return the resize that a filter description stands for, or None if only FFmpeg can run it."""
    found = _SERVED.fullmatch(native.with_named_options(filter_desc))
    if found is None:
        return None
    width, height, center_width, center_height = (
        int(found[side] or 0) for side in ("width", "height", "center_width", "center_height")
    )
    flags = found["flags"] or "bicubic"
    if flags not in _SCALE_FLAGS or max(width, height, center_width, center_height) > MAX_SIDE:
        return None
    if found["crop"] and not (width and height):
        return None
    mode: Mode = "pad" if found["pad"] else "crop" if found["crop"] else "stretch"
    return Resize(
        (width, height),
        mode,
        (center_width, center_height),
        _SCALE_FLAGS[flags],
        flip=found["flip"] is not None,
        pix_fmt=found["pix_fmt"],
    )


def scale_flags(interpolation: Interpolation) -> str:
    """Return FFmpeg's name of an interpolation."""
    return next(flags for flags, name in _SCALE_FLAGS.items() if name == interpolation)


def _side(name: str, side: int | None) -> int:
    return 0 if side is None else check_int(name, side, least=1, most=MAX_SIDE, accepted=_SIDE)
