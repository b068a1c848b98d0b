"""What native code makes of images by itself, and how that is asked for: by arguments, or by a filter description."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from spdl.io._common.arguments import check_integer
from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.io._native import Request

Mode: TypeAlias = Literal["pad", "stretch", "crop"]
Interpolation: TypeAlias = Literal["nearest", "area", "bilinear", "bicubic", "lanczos"]
Layout: TypeAlias = Literal["NHWC", "NCHW"]
Dtype: TypeAlias = Literal["uint8", "float16", "float32"]

MAX_SIDE = 65535
"""The longest side in pixels, of input and output: that of the largest JPEG."""

MAX_PIXELS = 178_000_000
"""The most pixels of an output."""

PIXEL_FORMATS = {"rgb24": 3, "bgr24": 3, "gray": 1}
"""FFmpeg's names of those that native code writes, and how many channels they have."""

_SCALE_FLAGS: dict[str, Interpolation] = {
    "neighbor": "nearest",
    "area": "area",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos": "lanczos",
}

# The forms in which get_video_filter_desc writes what native code does itself.
_SERVED = re.compile(
    r"(?:scale=w=(?P<width>\d+):h=(?P<height>\d+):flags=(?P<flags>\w+)"
    r"(?:(?P<pad>:force_original_aspect_ratio=decrease,pad=w=(?P=width):h=(?P=height):x=-1:y=-1:color=black)"
    r"|(?P<crop>:force_original_aspect_ratio=increase,crop=w=(?P=width):h=(?P=height)))?,)?"
    r"(?:crop=w=(?P<center_width>[1-9]\d*):h=(?P<center_height>[1-9]\d*),)?"
    r"(?P<flip>hflip,)?"
    rf"format=pix_fmts=(?P<pix_fmt>{'|'.join(PIXEL_FORMATS)})"
)


class Resize(NamedTuple):
    """How an image comes to its size and pixel format. Sides of 0 are left open."""

    target: tuple[int, int] = (0, 0)
    mode: Mode = "stretch"
    center: tuple[int, int] = (0, 0)
    """What is cut out of the result."""
    interpolation: Interpolation = "bicubic"
    flip: bool = False
    pix_fmt: str = "rgb24"


class ArrayFormat(NamedTuple):
    """What the values of an array are. Floats are ``(byte / 255 - mean) / std``."""

    layout: Layout = "NHWC"
    dtype: Dtype = "uint8"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


BYTES = ArrayFormat()
"""What libraries for images call an image."""


def resize_to(
    width: int | None, height: int | None, mode: Mode, interpolation: Interpolation, pix_fmt: str = "rgb24"
) -> Resize:
    """Check a resize.

    Raises:
        TypeError, ValueError: If an argument is not what it must be.
    """
    check_choice("mode", mode, Mode)
    check_choice("interpolation", interpolation, Interpolation)
    sides = _side("width", width), _side("height", height)
    if sides[0] * sides[1] > MAX_PIXELS:
        msg = f"`width` x `height` must be at most {MAX_PIXELS} pixels, got {sides[0]}x{sides[1]}"
        raise ValueError(msg)
    return Resize(sides, mode, (0, 0), interpolation, flip=False, pix_fmt=pix_fmt)


def array_format(layout: Layout, dtype: Dtype, mean: Any, std: Any) -> ArrayFormat:
    """Check what the values of an array are to be.

    Raises:
        TypeError, ValueError: If an argument is not what it must be.
    """
    check_choice("layout", layout, Layout)
    check_choice("dtype", dtype, Dtype)
    if dtype == "uint8" and not (mean is None and std is None):
        msg = '`mean` and `std` make fractions: give `dtype="float32"` or `dtype="float16"` with them, got "uint8"'
        raise ValueError(msg)
    deviations = _numbers("std", std)
    if deviations is not None and not all(deviations):
        msg = f"`std` must not be 0, since values are divided by it, got {std!r}"
        raise ValueError(msg)
    return ArrayFormat(layout, dtype, _numbers("mean", mean), deviations)


@lru_cache(maxsize=64)
def make_request(resize: Resize, form: ArrayFormat = BYTES, *, exact: bool = True, exif: bool = False) -> Request:
    """Bring a request into the form that native code takes.

    Raises:
        ValueError: If `mean` or `std` have another number of values than the image has channels.
    """
    channels = PIXEL_FORMATS[resize.pix_fmt]
    means, deviations = _per_channel("mean", form.mean, 0.0, channels), _per_channel("std", form.std, 1.0, channels)
    scale, offset = [1.0] * 3, [0.0] * 3
    if form.dtype != "uint8":
        scale = [1 / (255 * deviation) for deviation in deviations]
        offset = [-mean / deviation for mean, deviation in zip(means, deviations, strict=True)]
    return native.Request(
        target=resize.target,
        mode=resize.mode,
        center=resize.center,
        interpolation=resize.interpolation,
        pix_fmt=resize.pix_fmt,
        layout=form.layout,
        dtype=form.dtype,
        scale=scale,
        offset=offset,
        flip=resize.flip,
        exact=exact,
        upright=exif,
    )


@lru_cache(maxsize=64)
def parse_served(filter_desc: str) -> Resize | None:
    """Return the resize that a filter description asks for, or None where it is for FFmpeg to interpret."""
    found = _SERVED.fullmatch(filter_desc)
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


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise ValueError unless `value` is one of a Literal's."""
    if value not in get_args(choices):
        msg = f"`{name}` must be one of {', '.join(map(repr, get_args(choices)))}, got {value!r}"
        raise ValueError(msg)


def _side(name: str, side: int | None) -> int:
    return 0 if side is None else check_integer(name, side, MAX_SIDE, "pixels", "an integer or None")


def _numbers(name: str, values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    try:
        numbers = tuple(float(value) for value in values)
    except TypeError:
        msg = f"`{name}` must be a sequence of numbers, one for each channel, or None, got {values!r}"
        raise TypeError(msg) from None
    if not all(map(math.isfinite, numbers)):
        msg = f"`{name}` must be finite numbers, got {values!r}"
        raise ValueError(msg)
    return numbers


def _per_channel(name: str, values: tuple[float, ...] | None, default: float, channels: int) -> tuple[float, ...]:
    """Three values, whatever the number of channels."""
    if values is None:
        return (default,) * 3
    if len(values) != channels:
        msg = f"`{name}` must have a number for each of the {channels} channels, got {len(values)}: {values!r}"
        raise ValueError(msg)
    return values if channels == 3 else values * 3  # noqa: PLR2004 - red, green, blue.
