"""How images become an array: its layout and values, their size, in one record or by arguments."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, check_flag, check_instance, check_int, refuse
from spdl.io._common.native import native
from spdl.io._image.config import DecodeConfig, DemuxConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._native import LoadOptions

Layout: TypeAlias = Literal["NHWC", "NCHW"]
Dtype: TypeAlias = Literal["uint8", "float16", "float32"]
IdDtype: TypeAlias = Literal["uint8", "uint16", "int32", "int64"]

_LAYOUTS = get_args(Layout)
_DTYPES = get_args(Dtype)
_MOST_CHANNELS = 4


class ArrayFormat(NamedTuple):
    """The layout and the values of an array. Floats are ``(byte / 255 - mean) / std``."""

    layout: Layout = "NHWC"
    dtype: Dtype | IdDtype = "uint8"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


DEFAULT_ARRAY_FORMAT = ArrayFormat()
"""The format of images in other libraries: bytes, the channels of a pixel side by side."""


def make_array_format(
    layout: Layout, dtype: Dtype | IdDtype, mean: Any, std: Any, *, dtypes: tuple[str, ...] = _DTYPES
) -> ArrayFormat:
    check_choice("layout", layout, _LAYOUTS)
    check_choice("dtype", dtype, dtypes)
    if not _are_floats(dtype) and not (mean is None and std is None):
        accepted = "'float16' or 'float32' with `mean` or `std`, which make fractions"
        refuse(ValueError, "dtype", accepted, dtype)
    deviations = _numbers("std", std)
    if deviations is not None and not all(deviations):
        refuse(ValueError, "std", "numbers other than 0, since values are divided by them", std)
    means = _numbers("mean", mean)
    if means and min(means) > 1:
        # Every value would be below 0, and nearly the same.
        accepted = "the means of values from 0 to 1"
        refuse(ValueError, "mean", accepted, mean, "If these are of bytes, divide `mean` and `std` by 255.")
    return ArrayFormat(layout, dtype, means, deviations)


def make_factors(array_format: ArrayFormat, channels: int) -> tuple[list[float], list[float]]:
    """Return the factors and summands that turn bytes into values, for red, green and blue."""
    means = _per_channel("mean", array_format.mean, 0.0, channels)
    deviations = _per_channel("std", array_format.std, 1.0, channels)
    if not _are_floats(array_format.dtype):
        return [1.0] * 3, [0.0] * 3
    scale = [1 / (255 * deviation) for deviation in deviations]
    return scale, [-mean / deviation for mean, deviation in zip(means, deviations, strict=True)]


def make_float_scale(array_format: ArrayFormat, channels: int) -> list[float]:
    """Return the factors for values that are floats from 0 to 1 already. The summands come from `make_factors`."""
    return [1 / deviation for deviation in _per_channel("std", array_format.std, 1.0, channels)]


def _are_floats(dtype: Dtype | IdDtype) -> bool:
    return dtype in ("float16", "float32")


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


Mode: TypeAlias = Literal["pad", "stretch", "crop"]
Interpolation: TypeAlias = Literal["nearest", "area", "bilinear", "bicubic", "lanczos"]

_MODES = get_args(Mode)
_INTERPOLATIONS = get_args(Interpolation)

MAX_SIDE = 65535
"""The longest side of inputs and outputs in pixels: the largest JPEG's."""

_MOST_PAGES = 0x7FFF_FFFE

_SIDE = f"an int from 1 to {MAX_SIDE} pixels or None"

MAX_PIXELS = 178_000_000
"""The most pixels of an output."""

PIXEL_FORMATS = {"rgb24": 3, "bgr24": 3, "gray": 1}
"""FFmpeg's names of the pixel formats that native code writes, and how many channels they have."""

ID_DTYPES: dict[str, tuple[IdDtype, ...]] = {
    "index": ("uint8", "uint16", "int32", "int64"),
    "gray16": ("uint16", "int32", "int64"),
}
"""The pixel formats that stand for ids, which are never mixed or scaled, and the types that have room for them."""

_SCALE_FLAGS: dict[str, Interpolation] = {
    "neighbor": "nearest",
    "area": "area",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos": "lanczos",
}

# The resizes that native code does itself, with named options but without FFmpeg's defaults.
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
    pad: tuple[int, int, int] = (0, 0, 0)
    """The bytes of a pixel where no image is. An id has its lowest byte first."""


def are_ids(pix_fmt: str | None, dtype: Dtype | IdDtype) -> bool:
    """Return whether these arguments stand for ids. FFmpeg has a gray16, too, whose levels it scales."""
    return pix_fmt == "index" or (pix_fmt == "gray16" and dtype in ID_DTYPES[pix_fmt])


def check_unmixed(resize: Resize) -> None:
    if resize.target != (0, 0) and resize.interpolation != "nearest":
        accepted = f"'nearest' with `pix_fmt={resize.pix_fmt!r}`, since the mean of two ids is another id"
        refuse(ValueError, "interpolation", accepted, resize.interpolation)


def dtypes_of(pix_fmt: str | None) -> tuple[str, ...]:
    return ID_DTYPES.get(pix_fmt or "", _DTYPES)


def check_pages(pages: int | None) -> int | None:
    if pages is None:
        return None
    return check_int("pages", pages, least=-_MOST_PAGES, most=_MOST_PAGES, accepted="an int or None")


def id_range(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest id that arrays of a type may have."""
    return {"uint8": (0, 0xFF), "uint16": (0, 0xFFFF)}.get(dtype, (-0x8000, 0xFFFF))


def make_pad(pad_value: int | Sequence[int], pix_fmt: str, dtype: Dtype | IdDtype) -> tuple[int, int, int]:
    """Return the bytes of a pixel that has this value, or these, one for each channel."""
    channels = PIXEL_FORMATS.get(pix_fmt, 1)
    least, most = (0, 0xFF) if pix_fmt in PIXEL_FORMATS else id_range(dtype)
    accepted = f"an int from {least} to {most}"
    if channels > 1:
        accepted += f", or {channels} of them, one for each channel"
    values = tuple(pad_value) if isinstance(pad_value, tuple | list) else (pad_value,) * channels
    if len(values) != channels:
        refuse(ValueError, "pad_value", accepted, pad_value)
    checked = [check_int("pad_value", value, least=least, most=most, accepted=accepted) for value in values]
    if channels == 1:
        return checked[0] & 0xFF, checked[0] >> 8 & 0xFF, checked[0] >> 16 & 0xFF
    red, green, blue = checked
    return red, green, blue


def resize_to(
    width: int | None, height: int | None, mode: Mode, interpolation: Interpolation, pix_fmt: str = "rgb24"
) -> Resize:
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
    return next(flags for flags, name in _SCALE_FLAGS.items() if name == interpolation)


def _side(name: str, side: int | None) -> int:
    return 0 if side is None else check_int(name, side, least=1, most=MAX_SIDE, accepted=_SIDE)


@lru_cache(maxsize=64)
def make_load_options(
    resize: Resize, array_format: ArrayFormat = DEFAULT_ARRAY_FORMAT, *, exact: bool = True, exif: bool = False
) -> LoadOptions:
    scale, offset = make_factors(array_format, PIXEL_FORMATS.get(resize.pix_fmt, 1))
    return native.LoadOptions(
        target=resize.target,
        mode=resize.mode,
        center=resize.center,
        interpolation=resize.interpolation,
        pix_fmt=resize.pix_fmt,
        layout=array_format.layout,
        dtype=array_format.dtype,
        scale=scale,
        offset=offset,
        flip=resize.flip,
        exact=exact,
        upright=exif,
        pad=resize.pad,
    )


@dataclass(frozen=True)
class ImageOptions:
    """How `load_image_batch` makes an array of images: size, pixels, values, layout.

    The record can be shared, compared, pickled and used as a key. ``dataclasses.replace`` makes another one. All fields
    mean what the arguments of `load_image_batch` do, except that `exif` stands for itself.

    Args:
        width, height: The size in pixels. None keeps a side, as for `load_image_batch`.
        pix_fmt: ``"rgb24"``, ``"bgr24"`` or ``"gray"``, or ids: ``"index"`` or ``"gray16"``.
        exif: Whether to turn photos upright as their EXIF data says. True, whatever the mode is.
        mode, interpolation, layout, dtype, mean, std, exact, pad_value, pages: As for `load_image_batch`.
        demux_config, decode_config: As for `load_image_batch`.

    Raises:
        TypeError, ValueError: If a field is not as described; the message names it.

    Example:
        >>> options = ImageOptions(64, 48, mode="crop", dtype="float32", layout="NCHW", mean=[0.5] * 3, std=[0.25] * 3)
        >>> load_image_batch([photo, photo], options=options).shape
        (2, 3, 48, 64)
    """

    width: int | None
    height: int | None
    mode: Mode = "pad"
    interpolation: Interpolation = "bicubic"
    pix_fmt: str = "rgb24"
    layout: Layout = "NHWC"
    dtype: Dtype | IdDtype = "uint8"
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    exact: bool = True
    exif: bool = True
    demux_config: DemuxConfig | None = None
    decode_config: DecodeConfig | None = None
    pad_value: int | tuple[int, ...] = 0
    pages: int | None = None

    def __post_init__(self) -> None:
        resize = resize_to(self.width, self.height, self.mode, self.interpolation, self.pix_fmt)
        check_choice("pix_fmt", self.pix_fmt, (*PIXEL_FORMATS, *ID_DTYPES))
        dtypes = dtypes_of(self.pix_fmt)
        array_format = make_array_format(self.layout, self.dtype, self.mean, self.std, dtypes=dtypes)
        make_factors(array_format, PIXEL_FORMATS.get(self.pix_fmt, 1))
        if self.pix_fmt in ID_DTYPES:
            check_unmixed(resize)
        make_pad(self.pad_value, self.pix_fmt, self.dtype)
        if isinstance(self.pad_value, list):
            object.__setattr__(self, "pad_value", tuple(self.pad_value))
        check_pages(self.pages)
        check_flag("exact", self.exact)
        check_flag("exif", self.exif)
        configs: tuple[tuple[str, Any, type[Any]], ...] = (
            ("demux_config", self.demux_config, DemuxConfig),
            ("decode_config", self.decode_config, DecodeConfig),
        )
        for name, config, kind in configs:
            if config is not None:
                check_instance(name, config, kind, f"what `{name}` returns, or None")
        object.__setattr__(self, "mean", array_format.mean)
        object.__setattr__(self, "std", array_format.std)
