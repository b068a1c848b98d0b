"""Formats and configuration of the encoding of images."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, check_int, refuse
from spdl.io._image.config import check_ffmpeg_text, copy_ffmpeg_options
from spdl.io._image.options import MAX_SIDE

if TYPE_CHECKING:
    from collections.abc import Mapping


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


Subsampling: TypeAlias = Literal["4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1"]

CHROMA_GRIDS: dict[Subsampling, tuple[int, int]] = {
    "4:4:4": (1, 1),
    "4:2:2": (2, 1),
    "4:2:0": (2, 2),
    "4:4:0": (1, 2),
    "4:1:1": (4, 1),
}
"""How many pixels share a chroma sample, across and down."""

_MAX_QUALITY = 100


@dataclass(frozen=True)
class EncodeConfig:
    """How an image is encoded; made by `encode_config`, which describes the fields.

    Attributes:
        format: The file format, or None for the one of the path's suffix.
        width: The width in pixels to scale to, or None for the array's own.
        height: The height in pixels to scale to, or None for the array's own.
        scale_algo: FFmpeg's name of the interpolation.
        quality: From 1 to 100, or None for 75.
        subsampling: How JPEG stores chroma.
        encoder: An encoder by FFmpeg's name.
        encoder_options: Options of that encoder.

    Example:
        >>> encode_config(format="jpeg", quality=90).quality
        90
    """

    format: str | None = None
    width: int | None = None
    height: int | None = None
    scale_algo: str = "bicubic"
    quality: int | None = None
    subsampling: Subsampling | None = None
    encoder: str | None = None
    encoder_options: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without FFmpeg."""
        check_choice("format", self.format, (*FORMATS, None))
        for name, side in (("width", self.width), ("height", self.height)):
            if side is not None:
                check_int(name, side, least=1, most=MAX_SIDE)
        check_ffmpeg_text("scale_algo", self.scale_algo)
        if self.quality is not None:
            check_int("quality", self.quality, least=1, most=_MAX_QUALITY)
        check_choice("subsampling", self.subsampling, (*get_args(Subsampling), None))
        if self.encoder is not None:
            check_ffmpeg_text("encoder", self.encoder)
        object.__setattr__(self, "encoder_options", copy_ffmpeg_options("encoder_options", self.encoder_options))


def encode_config(
    *,
    format: str | None = None,  # noqa: A002 - the field's word, and FFmpeg's.
    width: int | None = None,
    height: int | None = None,
    scale_algo: str = "bicubic",
    quality: int | None = None,
    subsampling: Subsampling | None = None,
    encoder: str | None = None,
    encoder_options: Mapping[str, str] | None = None,
) -> EncodeConfig:
    """Configure how `encode_image` encodes.

    Args:
        format: ``"jpeg"``, ``"png"``, ``"webp"``, ``"bmp"``, ``"tiff"``, ``"gif"``, ``"jpeg2000"``, ``"avif"``,
            ``"qoi"``, ``"ppm"`` or ``"pgm"``. None takes the format of the path's suffix.
        width: The width in pixels to scale to. None is the array's own. The two sides are scaled independently.
        height: The height in pixels to scale to. None is the array's own.
        scale_algo: FFmpeg's name of the interpolation, as in `get_video_filter_desc`. Images in rgb24, bgr24 and gray
            are scaled as `load_image_batch` does it, others by FFmpeg.
        quality: From 1 to 100, for WebP, and for JPEG that FFmpeg does not encode; otherwise it is an error. None is
            75. From 95 on, a JPEG becomes larger but hardly better.
        subsampling: How JPEG stores chroma: ``"4:4:4"`` at full resolution, ``"4:2:2"`` at half the width,
            ``"4:4:0"`` at half the height, ``"4:2:0"`` at half of both, ``"4:1:1"`` at a quarter of the width. None is
            ``"4:2:0"``. It has no effect on gray images.
        encoder: An encoder by FFmpeg's name, such as ``"librav1e"`` for AVIF, in place of the format's usual one.
            FFmpeg then encodes JPEG too.
        encoder_options: Options of FFmpeg's encoder, with values as text, such as ``{"lossless": "1"}`` for WebP or
            ``{"compression_level": "9"}`` for PNG. FFmpeg then encodes JPEG too.

    Returns:
        A configuration for the argument ``encode_config``. It holds a copy of the options, and any number of threads
        may share it.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or a string holds a null character.

    Example:
        >>> encode_config(format="jpeg", quality=90).quality
        90
    """
    return EncodeConfig(format, width, height, scale_algo, quality, subsampling, encoder, encoder_options)
