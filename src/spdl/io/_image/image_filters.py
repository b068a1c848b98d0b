"""Descriptions of FFmpeg filter graphs, from keyword arguments: those for pictures, and the values in all of them."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, Literal

from spdl._check import check_choice, check_int, check_number, check_str, refuse
from spdl.io._image.config import check_ffmpeg_text

DEFAULT_FILTER_DESC = "format=pix_fmts=rgb24"
"""The default filters: a conversion to 8-bit RGB, in the image's own size."""


def get_video_filter_desc(
    *,
    frame_rate: tuple[int, int] | Fraction | int | None = None,
    timestamp: tuple[float, float] | None = None,
    scale_width: int | None = None,
    scale_height: int | None = None,
    scale_algo: str = "bicubic",
    scale_mode: Literal["pad", "crop"] | None = "pad",
    crop_width: int | None = None,
    crop_height: int | None = None,
    pix_fmt: str | None = "rgb24",
    num_frames: int | None = None,
    pad_mode: str | None = None,
    filter_desc: str | None = None,
) -> str | None:
    """Describe a filter graph for images or video in FFmpeg's syntax.

    The filters come in the order of the arguments, except that `pix_fmt` is last.

    Args:
        frame_rate: Frames per second as (numerator, denominator), a ``Fraction`` or an int. Video only.
        timestamp: Keep the frames from the first number of seconds to just before the second; infinite bounds are left
            out.
        scale_width, scale_height: The size in pixels to scale to. None for one side keeps the image's own, or less, as
            ``"pad"`` keeps the aspect ratio; ``"crop"`` needs both sides. If `scale_mode` is None, ``-n`` stands for
            the multiple of n that keeps the aspect ratio best.
        scale_algo: FFmpeg's name of the interpolation: ``"neighbor"``, ``"area"``, ``"bilinear"``, ``"bicubic"``,
            ``"lanczos"``, ...
        scale_mode: ``"pad"`` keeps the aspect ratio, fits the image into the size and centres it on `pad_mode`'s
            colour; ``"crop"`` keeps the aspect ratio, covers the size and cuts off the rest; None stretches. Without a
            side to scale to it has no effect, like `scale_algo`.
        crop_width, crop_height: The size in pixels of the centre to cut out, after scaling. FFmpeg needs both sides.
        pix_fmt: The pixel format to convert to, by FFmpeg's name. None keeps the stored one.
        num_frames: The exact number of frames of a video: it is cut, or continued with its last frame (or with frames
            in `pad_mode`'s colour).
        pad_mode: The colour of padding, by FFmpeg's name. None is black around a frame, and the last frame after the
            end of a video.
        filter_desc: More filters, inserted unchanged.

    Returns:
        The description, or None if there is nothing to do.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a side is given and `scale_mode` is unknown, a number is out of range or NaN, the window is
            empty, or a name holds anything but letters, digits and underscores.

    Example:
        >>> get_video_filter_desc(scale_width=256, scale_height=128, scale_mode=None)
        'scale=w=256:h=128:flags=bicubic,format=pix_fmts=rgb24'
    """
    filters = []
    fill = None if pad_mode is None else filter_color("pad_mode", pad_mode)
    if frame_rate is not None:
        filters.append(f"fps={filter_rate('frame_rate', frame_rate)}")
    if timestamp is not None and (bounds := filter_window(timestamp)):
        filters.append(f"trim={':'.join(bounds)}")
    if scale_width is not None or scale_height is not None:
        check_choice("scale_mode", scale_mode, ("pad", "crop", None))
        width = _side("scale_width", scale_width, scale_mode)
        height = _side("scale_height", scale_height, scale_mode)
        filters += _scale(width, height, filter_names("scale_algo", scale_algo), scale_mode, fill)
    if crop_width is not None or crop_height is not None:
        width = 0 if crop_width is None else filter_count("crop_width", crop_width, least=0)
        height = 0 if crop_height is None else filter_count("crop_height", crop_height, least=0)
        filters.append(f"crop=w={width}:h={height}")
    if num_frames is not None:
        mode = "stop_mode=clone" if fill is None else f"stop_mode=add:color={fill}"
        filters += [f"tpad=stop=-1:{mode}", f"trim=end_frame={filter_count('num_frames', num_frames)}"]
    if filter_desc is not None:
        check_ffmpeg_text("filter_desc", filter_desc)
        filters += [filter_desc] if filter_desc else []
    if pix_fmt is not None:
        filters.append(f"format=pix_fmts={filter_names('pix_fmt', pix_fmt)}")
    return ",".join(filters) or None


def _side(name: str, side: int | None, mode: str | None) -> int:
    if side is None:
        return 0
    number = filter_count(name, side, least=-1_000_000)
    if number < 0 and mode is not None:
        refuse(ValueError, name, f"at least 0, or None, as `scale_mode` is {mode!r}", side)
    return number


def _scale(width: int, height: int, algo: str, mode: str | None, fill: str | None) -> list[str]:
    scale = f"scale=w={width}:h={height}:flags={algo}"
    if mode is None:
        return [scale]
    if mode == "pad":
        pad = f"pad=w={width}:h={height}:x=-1:y=-1:color={fill or 'black'}"
        return [f"{scale}:force_original_aspect_ratio=decrease", pad]
    return [f"{scale}:force_original_aspect_ratio=increase", f"crop=w={width}:h={height}"]


# ---- values: each is checked, so that none ends its filter and begins another ----

_NAMES = re.compile(r"\w+(?:[+|]\w+)*", re.ASCII)
_COLOR = re.compile(r"#?\w+(?:@[\w.]+)?", re.ASCII)
_MAX = 2**31 - 1


def filter_names(argument: str, value: Any) -> str:
    """Return names of FFmpeg's, such as ``"rgb24"``, ``"rgb24|gray"`` or ``"bicubic+accurate_rnd"``."""
    if _NAMES.fullmatch(check_str(argument, value)) is None:
        refuse(ValueError, argument, "a name of letters, digits and underscores", value)
    return str(value)


def filter_color(argument: str, value: Any) -> str:
    """Return an FFmpeg colour, such as ``"black"``, ``"#ff8000"`` or ``"red@0.5"``."""
    if _COLOR.fullmatch(check_str(argument, value)) is None:
        refuse(ValueError, argument, 'a colour of FFmpeg\'s, such as "black", "#ff8000" or "red@0.5"', value)
    return str(value)


def filter_count(argument: str, value: Any, *, least: int = 1) -> int:
    return check_int(argument, value, least=least, most=_MAX)


def filter_rate(argument: str, value: Any) -> str:
    """Return a rate, given as (numerator, denominator), as FFmpeg writes it."""
    accepted = "a rate above 0 as (numerator, denominator), a Fraction or an int"
    if isinstance(value, (int, Fraction)) and not isinstance(value, bool):
        value = value.as_integer_ratio()
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) != 2:  # noqa: PLR2004 - a pair.
        refuse(TypeError, argument, accepted, value)
    numerator, denominator = (check_int(argument, each, least=1, most=_MAX, accepted=accepted) for each in value)
    return f"{numerator}/{denominator}"


def filter_window(value: Any) -> list[str]:
    """Return the bounds of a window in seconds as options of trim and atrim. Infinite ones are left out."""
    accepted = "a pair of seconds (start, end)"
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        refuse(TypeError, "timestamp", accepted, value)
    if len(value) != 2:  # noqa: PLR2004 - a pair.
        refuse(ValueError, "timestamp", accepted, value)
    start, end = (check_number(f"timestamp[{i}]", each, "a number of seconds") for i, each in enumerate(value))
    if not start < end:
        refuse(ValueError, "timestamp", "a window that starts before it ends", value)
    return [
        f"{name}={_seconds(each)}" for name, each in zip(("start", "end"), value, strict=True) if not math.isinf(each)
    ]


def _seconds(value: Any) -> str:
    text = str(value) if isinstance(value, int) else repr(float(value))
    # FFmpeg reads no exponents here, and counts in microseconds.
    return f"{float(value):.6f}" if "e" in text else text
