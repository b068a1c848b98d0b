"""Configurations of demuxing and decoding, and the texts that FFmpeg takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from spdl._check import check_choice, check_instance, check_int, check_str, refuse
from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.io._native import DecodeOptions, DemuxOptions


def check_ffmpeg_text(argument: str, value: object) -> None:
    if "\0" in check_str(argument, value):
        refuse(ValueError, argument, "a str without null characters", value, "FFmpeg would stop reading at the first.")


def copy_ffmpeg_options(argument: str, options: object) -> dict[str, str] | None:
    if options is None:
        return None
    check_instance(argument, options, Mapping, "a mapping of options' names to their values, both str, or None")
    assert isinstance(options, Mapping)
    copied = dict(options)
    for name, value in copied.items():
        check_ffmpeg_text(f"{argument}.keys()", name)
        check_ffmpeg_text(f"{argument}[{name!r}]", value)
    return copied


Backend: TypeAlias = Literal[
    "libjpeg-turbo",
    "libdeflate",
    "libavif",
    "libtiff",
    "heif",
    "libwebp",
    "openjpeg",
    "gif",
    "bmp",
    "qoi",
    "pnm",
    "ffmpeg",
]

DEFAULT_MAX_PIXELS = 178_000_000
"""The approximate size above which Pillow refuses an image as a decompression bomb."""

_LARGEST_MAX_PIXELS = 65535 * 65535  # The sides of the largest JPEG.
_DEFAULT_BUFFER_SIZE = 8096
_MAX_BUFFER_SIZE = 1 << 30  # FFmpeg counts in a C int, and adds to it.


@dataclass(frozen=True)
class DemuxConfig:
    """How FFmpeg finds the image in the bytes.

    `demux_config` is another name of it. Any number of threads may share one. It holds a copy of options.

    With a format or an option, FFmpeg also reads and decodes JPEG, instead of libjpeg-turbo.

    Args:
        format: A demuxer by FFmpeg's name, such as ``"png_pipe"``. None recognises the image from its first bytes. A
            demuxer of another format, such as ``"pam_pipe"``, gives the pixels that FFmpeg makes of it.
        format_options: Options of that demuxer, with values as text, such as ``{"loop": "1"}``.
        buffer_size: How many bytes FFmpeg reads at a time, from 1 to 2**30.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `buffer_size` is out of range, or a string holds a null character.

    Example:
        >>> demux_config(format="png_pipe").format
        'png_pipe'
    """

    format: str | None = None
    format_options: Mapping[str, str] | None = None
    buffer_size: int = _DEFAULT_BUFFER_SIZE

    def __post_init__(self) -> None:
        if self.format is not None:
            check_ffmpeg_text("format", self.format)
        object.__setattr__(self, "format_options", copy_ffmpeg_options("format_options", self.format_options))
        check_int("buffer_size", self.buffer_size, least=1, most=_MAX_BUFFER_SIZE)


demux_config = DemuxConfig


@dataclass(frozen=True)
class DecodeConfig:
    """How images are decoded, and which are too large.

    `decode_config` is another name of it. Any number of threads may share one. It holds a copy of options.

    With a decoder or an option, FFmpeg also decodes JPEG.

    Args:
        decoder: A decoder by FFmpeg's name, such as ``"mjpeg"``. None leaves the choice to FFmpeg. A decoder that does
            not exist, or does not decode the image's codec, is an error when decoding.
        decoder_options: Options of that decoder, with values as text, such as ``{"lowres": "1"}``. Unknown options are
            an error when decoding.
        max_pixels: The most pixels, width times height, that an image may have. An image whose header says more is
            refused before any memory is allocated: it may be a decompression bomb of a few bytes.
        backend: The library that does the work. ``"libjpeg-turbo"`` insists on libjpeg-turbo and our own filters: other
            formats than JPEG and other filters are errors. ``"libdeflate"`` does so for PNG, ``"libavif"`` for AVIF,
            ``"libtiff"`` for TIFF, ``"libwebp"`` for WebP, ``"heif"`` for HEIC and ``"openjpeg"`` for JPEG 2000, of
            which they also give the pixels to other filters.
            ``"gif"``, ``"bmp"``, ``"qoi"`` and ``"pnm"`` (PBM, PGM, PPM) are our own decoders of these formats.
            ``"ffmpeg"`` leaves everything to FFmpeg's decoders and filters. A truncated or damaged JPEG is an error
            there, too, and so is a TIFF whose palette or deflated strips are damaged. None takes the fastest one that
            can do the work; ``ImageFrames.backend`` and ``CPUBuffer.backends`` say which one decoded. All give the same
            shapes. On JPEG photos, FFmpeg's pixels differ by 2.5 levels on average at most, and by a fraction of a
            level if chroma is not subsampled, since FFmpeg has another inverse DCT, chroma upsampling and filters.
            FFmpeg before 7 squeezes gray pictures that it scales into 16 to 235; ours have all levels.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a string holds a null character, or another argument is out of range.

    Example:
        >>> load_image(photo, decode_config=decode_config(backend="ffmpeg")).backends
        ('ffmpeg',)
    """

    decoder: str | None = None
    decoder_options: Mapping[str, str] | None = None
    _: KW_ONLY
    max_pixels: int = DEFAULT_MAX_PIXELS
    backend: Backend | None = None

    def __post_init__(self) -> None:
        if self.decoder is not None:
            check_ffmpeg_text("decoder", self.decoder)
        object.__setattr__(self, "decoder_options", copy_ffmpeg_options("decoder_options", self.decoder_options))
        check_int("max_pixels", self.max_pixels, least=1, most=_LARGEST_MAX_PIXELS)
        check_choice("backend", self.backend, (*get_args(Backend), None))


decode_config = DecodeConfig


def demux_options(config: DemuxConfig | None, bsf: str | None, *, for_ffmpeg: bool = False) -> DemuxOptions:
    """Return a configuration as native code takes it. `for_ffmpeg` says that FFmpeg will decode."""
    if config is None and bsf is None:
        return _plain_demux_options(for_ffmpeg=for_ffmpeg)
    if config is None:
        config = DemuxConfig()
    check_instance("demux_config", config, DemuxConfig, "a DemuxConfig, as `demux_config` returns, or None")
    if bsf is not None:
        check_ffmpeg_text("bsf", bsf)
    return native.DemuxOptions(
        config.format or "", list((config.format_options or {}).items()), config.buffer_size, bsf or "", for_ffmpeg
    )


def decode_options(config: DecodeConfig | None, *, keep_damaged: bool = False) -> DecodeOptions:
    if config is None:
        return _plain_decode_options(keep_damaged=keep_damaged)
    check_instance("decode_config", config, DecodeConfig, "a DecodeConfig, as `decode_config` returns, or None")
    return native.DecodeOptions(
        config.decoder or "",
        list((config.decoder_options or {}).items()),
        config.max_pixels,
        config.backend or "",
        keep_damaged,
    )


@cache
def _plain_demux_options(*, for_ffmpeg: bool) -> DemuxOptions:
    return native.DemuxOptions("", [], _DEFAULT_BUFFER_SIZE, "", for_ffmpeg)


@cache
def _plain_decode_options(*, keep_damaged: bool) -> DecodeOptions:
    return native.DecodeOptions("", [], DEFAULT_MAX_PIXELS, "", keep_damaged)
