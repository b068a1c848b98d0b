"""The layout and the values of the array that images are loaded into."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, TypeAlias

from spdl.io._image.choice import check_choice

Layout: TypeAlias = Literal["NHWC", "NCHW"]
Dtype: TypeAlias = Literal["uint8", "float16", "float32"]


class ArrayFormat(NamedTuple):
    """The layout and the values of an array. Floats are ``(byte / 255 - mean) / std``."""

    layout: Layout = "NHWC"
    dtype: Dtype = "uint8"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


DEFAULT_ARRAY_FORMAT = ArrayFormat()
"""The format of images in other libraries: bytes, the channels of a pixel side by side."""


def make_array_format(layout: Layout, dtype: Dtype, mean: Any, std: Any) -> ArrayFormat:
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


def make_factors(array_format: ArrayFormat, channels: int) -> tuple[list[float], list[float]]:
    """Return what a byte is multiplied by, and what is then added to it, for red, green and blue.

    Raises:
        ValueError: If `mean` or `std` have another number of values than the image has channels.
    """
    means = _per_channel("mean", array_format.mean, 0.0, channels)
    deviations = _per_channel("std", array_format.std, 1.0, channels)
    if array_format.dtype == "uint8":
        return [1.0] * 3, [0.0] * 3
    scale = [1 / (255 * deviation) for deviation in deviations]
    return scale, [-mean / deviation for mean, deviation in zip(means, deviations, strict=True)]


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
