"""The options by which native code loads images itself, without FFmpeg's filters."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from spdl.io._common.native import native
from spdl.io._image.array_format import DEFAULT_ARRAY_FORMAT, ArrayFormat, make_factors
from spdl.io._image.resize import PIXEL_FORMATS, Resize

if TYPE_CHECKING:
    from spdl.io._native import Request


@lru_cache(maxsize=64)
def make_load_options(
    resize: Resize, array_format: ArrayFormat = DEFAULT_ARRAY_FORMAT, *, exact: bool = True, exif: bool = False
) -> Request:
    """Return the options as native code takes them.

    Raises:
        ValueError: If `mean` or `std` has not one value for each channel of the image.
    """
    scale, offset = make_factors(array_format, PIXEL_FORMATS[resize.pix_fmt])
    return native.Request(
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
    )
