"""The layout and the values of the array that images are loaded into."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, refuse

Layout: TypeAlias = Literal["NHWC", "NCHW"]
Dtype: TypeAlias = Literal["uint8", "float16", "float32"]

_LAYOUTS = get_args(Layout)
_DTYPES = get_args(Dtype)
_MOST_CHANNELS = 4


class ArrayFormat(NamedTuple):
    """The layout and the values of an array. Floats are ``(byte / 255 - mean) / std``."""

    layout: Layout = "NHWC"
    dtype: Dtype = "uint8"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


DEFAULT_ARRAY_FORMAT = ArrayFormat()
"""The format of images in other libraries: bytes, the channels of a pixel side by side."""


def make_array_format(layout: Layout, dtype: Dtype, mean: Any, std: Any) -> ArrayFormat:
    """Return the array format that the arguments describe.

    Raises:
        TypeError, ValueError: If an argument is wrong.
    """
    check_choice("layout", layout, _LAYOUTS)
    check_choice("dtype", dtype, _DTYPES)
    if dtype == "uint8" and not (mean is None and std is None):
        accepted = "'float16' or 'float32' with `mean` or `std`, which make fractions"
        refuse(ValueError, "dtype", accepted, dtype)
    deviations = _numbers("std", std)
    if deviations is not None and not all(deviations):
        refuse(ValueError, "std", "numbers other than 0, since values are divided by them", std)
    return ArrayFormat(layout, dtype, _numbers("mean", mean), deviations)


def make_factors(array_format: ArrayFormat, channels: int) -> tuple[list[float], list[float]]:
    """Return the factors and summands that turn bytes into values, for red, green and blue.

    Raises:
        ValueError: If `mean` or `std` has not one value for each channel of the image.
    """
    means = _per_channel("mean", array_format.mean, 0.0, channels)
    deviations = _per_channel("std", array_format.std, 1.0, channels)
    if array_format.dtype == "uint8":
        return [1.0] * 3, [0.0] * 3
    scale = [1 / (255 * deviation) for deviation in deviations]
    return scale, [-mean / deviation for mean, deviation in zip(means, deviations, strict=True)]


def make_float_scale(array_format: ArrayFormat, channels: int) -> list[float]:
    """Return the factors for values that are floats from 0 to 1 already. The summands are those of `make_factors`."""
    return [1 / deviation for deviation in _per_channel("std", array_format.std, 1.0, channels)]


def _numbers(name: str, values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    try:
        # No more than it takes to see that there are too many.
        numbers = tuple(float(value) for value in itertools.islice(values, _MOST_CHANNELS + 1))
    except (TypeError, ValueError):
        refuse(TypeError, name, "a sequence of numbers, one for each channel, or None", values)
    if not all(map(math.isfinite, numbers)):
        refuse(ValueError, name, "finite numbers", values)
    return numbers


def _per_channel(name: str, values: tuple[float, ...] | None, default: float, channels: int) -> tuple[float, ...]:
    """Return three values, whatever the number of channels."""
    if values is None:
        return (default,) * 3
    if len(values) != channels:
        refuse(ValueError, name, f"a number for each of the {channels} channels", values)
    return values if channels == 3 else values * 3  # noqa: PLR2004 - red, green, blue.
