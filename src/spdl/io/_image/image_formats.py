"""The file formats that images are written in, and the pixel formats of the arrays they are written from."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from spdl._check import refuse


class ImageFormat(NamedTuple):
    """A file format: its suffixes, and FFmpeg's names of its encoder and muxer."""

    suffixes: tuple[str, ...]
    encoder: str
    muxer: str = ""
    """Empty if the output of the encoder is the file."""
    quality_option: str | None = None
    """The encoder's option for a quality from 1 to 100."""


FORMATS = {
    "jpeg": ImageFormat((".jpg", ".jpeg", ".jpe", ".jfif"), "mjpeg"),
    "png": ImageFormat((".png",), "png"),
    "webp": ImageFormat((".webp",), "libwebp", quality_option="quality"),
    "bmp": ImageFormat((".bmp", ".dib"), "bmp"),
    "tiff": ImageFormat((".tiff", ".tif"), "tiff"),
    "gif": ImageFormat((".gif",), "gif", "gif"),
    "jpeg2000": ImageFormat((".jp2",), "jpeg2000"),
    "avif": ImageFormat((".avif",), "libaom-av1", "avif"),
    "qoi": ImageFormat((".qoi",), "qoi"),
    "ppm": ImageFormat((".ppm",), "ppm"),
    "pgm": ImageFormat((".pgm",), "pgm"),
}

_BY_SUFFIX = {suffix: name for name, image_format in FORMATS.items() for suffix in image_format.suffixes}


def format_of(path: str) -> str:
    """Return the format of a file's suffix.

    Raises:
        ValueError: If no format has that suffix.
    """
    suffix = os.path.splitext(path)[1].lower()  # noqa: PTH122 - half the time of a Path.
    if suffix not in _BY_SUFFIX:
        remedy = "Or name the format with `encode_image(..., encode_config=encode_config(format=...))`."
        refuse(ValueError, "path", f"a name that ends in one of {', '.join(_BY_SUFFIX)}", path, remedy)
    return _BY_SUFFIX[suffix]


class PixelFormat(NamedTuple):
    """How pixels lie in an array: (H, W, channels), or (channels, H, W) where each channel is a plane."""

    channels: int
    bits: int = 8
    planar: bool = False

    @property
    def alpha(self) -> bool:
        """True if its last channel is alpha."""
        return self.channels in (2, 4)

    @property
    def shape(self) -> str:
        """The shape that an array must have."""
        if self.planar:
            return f"({self.channels}, H, W)"
        return "(H, W) or (H, W, 1)" if self.channels == 1 else f"(H, W, {self.channels})"


_DEEP = {"gray16": 1, "ya16": 2, "rgb48": 3, "bgr48": 3, "rgba64": 4, "bgra64": 4}

PIXEL_FORMATS = {
    "rgb24": PixelFormat(3),
    "bgr24": PixelFormat(3),
    "rgba": PixelFormat(4),
    "bgra": PixelFormat(4),
    "gray": PixelFormat(1),
    "ya8": PixelFormat(2),
    "yuv444p": PixelFormat(3, planar=True),
    **{name + order: PixelFormat(channels, 16) for name, channels in _DEEP.items() for order in ("le", "be")},
}
"""The pixel formats by FFmpeg's names."""

_NATIVE_ORDER = "le" if sys.byteorder == "little" else "be"

ALIASES = {"gray8": "gray", "y400a": "ya8", "yuvj444p": "yuv444p", **{name: name + _NATIVE_ORDER for name in _DEEP}}
"""Other names of these. Names of 16-bit formats without a byte order mean the machine's order."""


def base_name(pix_fmt: str) -> str:
    """Return the name without a byte order."""
    return pix_fmt[:-2] if pix_fmt[:-2] in _DEEP else pix_fmt
