"""Descriptions of FFmpeg filter graphs, written from keyword arguments."""

from __future__ import annotations

import math
from typing import Literal

from spdl._check import check_choice

DEFAULT_FILTER_DESC = "format=pix_fmts=rgb24"
"""The default filters: a conversion to 8-bit RGB, in the image's own size."""


def get_video_filter_desc(
    *,
    frame_rate: tuple[int, int] | None = None,
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
        frame_rate: Frames per second as (numerator, denominator). Video only.
        timestamp: Keep the frames from the first number of seconds to just before the second; infinite bounds are left
            out.
        scale_width: The width in pixels to scale to. None with a height keeps the image's own width, or less, as
            ``"pad"`` keeps the aspect ratio; ``"crop"`` needs both sides.
        scale_height: The height in pixels to scale to. None works as for the width.
        scale_algo: FFmpeg's name of the interpolation: ``"neighbor"``, ``"area"``, ``"bilinear"``, ``"bicubic"``,
            ``"lanczos"``, ...
        scale_mode: ``"pad"`` keeps the aspect ratio, fits the image into the size and centres it on `pad_mode`'s
            colour; ``"crop"`` keeps the aspect ratio, covers the size and cuts off the rest; None stretches. Without a
            side to scale to it has no effect, like `scale_algo`.
        crop_width: The width in pixels of the centre to cut out, after scaling. FFmpeg needs the height too.
        crop_height: The height in pixels of the centre to cut out, after scaling.
        pix_fmt: The pixel format to convert to, by FFmpeg's name. None keeps the stored one.
        num_frames: The exact number of frames of a video: it is cut, or continued with its last frame (or with frames
            in `pad_mode`'s colour).
        pad_mode: The colour of padding, by FFmpeg's name. None is black around a frame, and the last frame after the
            end of a video.
        filter_desc: More filters, inserted unchanged.

    Returns:
        The description, or None if there is nothing to do.

    Raises:
        ValueError: If there is a side to scale to and `scale_mode` is none of the above.

    Example:
        >>> get_video_filter_desc(scale_width=256, scale_height=128, scale_mode=None)
        'scale=w=256:h=128:flags=bicubic,format=pix_fmts=rgb24'
    """
    filters = []
    if frame_rate is not None:
        filters.append(f"fps={frame_rate[0]}/{frame_rate[1]}")
    if timestamp is not None:
        filters += _trim(*timestamp)
    if scale_width is not None or scale_height is not None:
        filters += _scale(scale_width or 0, scale_height or 0, scale_algo, scale_mode, pad_mode)
    if crop_width is not None or crop_height is not None:
        filters.append(f"crop=w={crop_width or 0}:h={crop_height or 0}")
    if num_frames is not None:
        fill = "stop_mode=clone" if pad_mode is None else f"stop_mode=add:color={pad_mode}"
        filters += [f"tpad=stop=-1:{fill}", f"trim=end_frame={num_frames}"]
    if filter_desc is not None:
        filters.append(filter_desc)
    if pix_fmt is not None:
        filters.append(f"format=pix_fmts={pix_fmt}")
    return ",".join(filters) or None


def _trim(start: float, end: float) -> list[str]:
    bounds = [f"{name}={value}" for name, value in (("start", start), ("end", end)) if not math.isinf(value)]
    return [f"trim={':'.join(bounds)}"] if bounds else []


def _scale(width: int, height: int, algo: str, mode: str | None, pad_mode: str | None) -> list[str]:
    scale = f"scale=w={width}:h={height}:flags={algo}"
    if mode is None:
        return [scale]
    if mode == "pad":
        pad = f"pad=w={width}:h={height}:x=-1:y=-1:color={pad_mode or 'black'}"
        return [f"{scale}:force_original_aspect_ratio=decrease", pad]
    check_choice("scale_mode", mode, ("pad", "crop", None))
    return [f"{scale}:force_original_aspect_ratio=increase", f"crop=w={width}:h={height}"]
