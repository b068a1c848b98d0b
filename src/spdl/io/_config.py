"""How FFmpeg is to read and decode: options that most callers never need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from spdl.io._lazy import native

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spdl.io._native import DecodeOptions, DemuxOptions

_DEFAULT_BUFFER_SIZE = 8096


@dataclass(frozen=True)
class DemuxConfig:
    """How FFmpeg is to find the image in the bytes; made by `demux_config`."""

    format: str | None = None
    format_options: Mapping[str, str] | None = None
    buffer_size: int = _DEFAULT_BUFFER_SIZE

    def __post_init__(self) -> None:
        """Check what can be checked without FFmpeg."""
        if self.buffer_size < 1:
            msg = f"`buffer_size` must be at least 1 byte, got {self.buffer_size}"
            raise ValueError(msg)


@dataclass(frozen=True)
class DecodeConfig:
    """How FFmpeg is to decode; made by `decode_config`."""

    decoder: str | None = None
    decoder_options: Mapping[str, str] | None = None


def demux_config(
    format: str | None = None,  # noqa: A002 - the field's word, and FFmpeg's.
    format_options: Mapping[str, str] | None = None,
    buffer_size: int = _DEFAULT_BUFFER_SIZE,
) -> DemuxConfig:
    """Say how FFmpeg is to find the image in the bytes.

    Giving a format or an option takes JPEG away from libjpeg-turbo too: FFmpeg then does the whole work.

    Args:
        format: A demuxer by FFmpeg's name, such as ``"png_pipe"``. None finds it out from the bytes.
        format_options: Options of that demuxer.
        buffer_size: How many bytes FFmpeg reads at a time.

    Raises:
        ValueError: If `buffer_size` is not positive.

    Example:
        >>> demux_config(format="png_pipe").format
        'png_pipe'
    """
    return DemuxConfig(format, format_options, buffer_size)


def decode_config(decoder: str | None = None, decoder_options: Mapping[str, str] | None = None) -> DecodeConfig:
    """Say how FFmpeg is to decode. JPEG is then decoded by FFmpeg, not by libjpeg-turbo.

    Args:
        decoder: A decoder by FFmpeg's name, such as ``"mjpeg"``. None leaves the choice to FFmpeg. One that does not
            exist, or does not decode the image's codec, is an error when decoding.
        decoder_options: Options of that decoder, such as ``{"lowres": "1"}``. Unknown ones are an error when decoding.

    Example:
        >>> decode_config(decoder="mjpeg").decoder
        'mjpeg'
    """
    return DecodeConfig(decoder, decoder_options)


def demux_options(config: DemuxConfig | None, bsf: str | None) -> DemuxOptions:
    """Bring a configuration into the form that native code takes."""
    if config is None and bsf is None:
        return _plain_demux_options()
    config = config or DemuxConfig()
    return native.DemuxOptions(
        config.format or "", list((config.format_options or {}).items()), config.buffer_size, bsf or ""
    )


def decode_options(config: DecodeConfig | None) -> DecodeOptions:
    """Bring a configuration into the form that native code takes."""
    if config is None:
        return _plain_decode_options()
    return native.DecodeOptions(config.decoder or "", list((config.decoder_options or {}).items()))


@cache
def _plain_demux_options() -> DemuxOptions:
    return native.DemuxOptions("", [], _DEFAULT_BUFFER_SIZE, "")


@cache
def _plain_decode_options() -> DecodeOptions:
    return native.DecodeOptions("", [])
