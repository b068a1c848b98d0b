"""Configuration of the encoding of audio and video."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdl._check import check_int
from spdl.io._av.frame_rate import parse_frame_rate
from spdl.io._image.config import check_ffmpeg_text
from spdl.io._image.options import MAX_SIDE

if TYPE_CHECKING:
    from spdl.io._av.frame_rate import FrameRate

_MAX_CHANNELS = 64
_MAX_INT = 2**31 - 1
_MAX_QSCALE = 1 << 16
_MAX_BIT_RATE = 2**62


@dataclass(frozen=True)
class AudioEncodeConfig:
    """The sound for an encoder, and how it is encoded; made by `audio_encode_config`.

    Attributes:
        num_channels: The number of channels.
        sample_rate: The samples per second.
        sample_fmt: The sample format by FFmpeg's name.
        bit_rate: The bits per second to aim at; -1 leaves it to the encoder.
        compression_level: How hard to compress; -1 leaves it to the encoder.
        qscale: The quality, in the encoder's own scale; -1 leaves it to the encoder.

    Example:
        >>> audio_encode_config(num_channels=2, sample_rate=48000).sample_fmt
        'fltp'
    """

    num_channels: int
    sample_rate: int
    sample_fmt: str = "fltp"
    bit_rate: int = -1
    compression_level: int = -1
    qscale: int = -1

    def __post_init__(self) -> None:
        """Check what can be checked without FFmpeg."""
        check_int("num_channels", self.num_channels, least=1, most=_MAX_CHANNELS)
        check_int("sample_rate", self.sample_rate, least=1, most=_MAX_INT)
        check_ffmpeg_text("sample_fmt", self.sample_fmt)
        _check_common(self)


@dataclass(frozen=True)
class VideoEncodeConfig:
    """The pictures for an encoder, and how they are encoded; made by `video_encode_config`.

    Attributes:
        height: The height in pixels.
        width: The width in pixels.
        frame_rate: The frames per second as (numerator, denominator); None is 25.
        pix_fmt: The pixel format by FFmpeg's name.
        bit_rate: The bits per second to aim at; -1 leaves it to the encoder.
        compression_level: How hard to compress; -1 leaves it to the encoder.
        qscale: The quality, in the encoder's own scale; -1 leaves it to the encoder.
        gop_size: The largest distance of key frames; -1 leaves it to the encoder.
        max_b_frames: The most B-frames in a row; -1 leaves it to the encoder.
        colorspace: The colour space by FFmpeg's name.
        color_primaries: The primaries by FFmpeg's name.
        color_trc: The transfer characteristic by FFmpeg's name.

    Example:
        >>> video_encode_config(height=48, width=64, frame_rate=30).frame_rate
        (30, 1)
    """

    height: int
    width: int
    frame_rate: FrameRate | None = None
    pix_fmt: str = "rgb24"
    bit_rate: int = -1
    compression_level: int = -1
    qscale: int = -1
    gop_size: int = -1
    max_b_frames: int = -1
    colorspace: str | None = None
    color_primaries: str | None = None
    color_trc: str | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without FFmpeg."""
        check_int("height", self.height, least=1, most=MAX_SIDE)
        check_int("width", self.width, least=1, most=MAX_SIDE)
        if self.frame_rate is not None:
            object.__setattr__(self, "frame_rate", parse_frame_rate("frame_rate", self.frame_rate))
        check_ffmpeg_text("pix_fmt", self.pix_fmt)
        _check_common(self)
        check_int("gop_size", self.gop_size, least=-1, most=_MAX_INT)
        check_int("max_b_frames", self.max_b_frames, least=-1, most=_MAX_INT)
        for name in ("colorspace", "color_primaries", "color_trc"):
            if getattr(self, name) is not None:
                check_ffmpeg_text(name, getattr(self, name))


def _check_common(config: AudioEncodeConfig | VideoEncodeConfig) -> None:
    check_int("bit_rate", config.bit_rate, least=-1, most=_MAX_BIT_RATE)
    check_int("compression_level", config.compression_level, least=-1, most=_MAX_INT)
    check_int("qscale", config.qscale, least=-1, most=_MAX_QSCALE)


def audio_encode_config(
    *,
    num_channels: int,
    sample_rate: int,
    sample_fmt: str = "fltp",
    bit_rate: int = -1,
    compression_level: int = -1,
    qscale: int = -1,
) -> AudioEncodeConfig:
    """Configure an encoder of sound; see `Muxer.add_encode_stream`.

    Args:
        num_channels: The number of channels of the frames.
        sample_rate: Their samples per second. Some encoders take only certain rates: Opus takes 48000.
        sample_fmt: Their sample format, by FFmpeg's name. If the encoder takes another one that holds every sample
            unchanged, the frames are converted, as also for lossy codecs. Otherwise it is an error, which lists what
            the encoder takes: FLAC takes ``"s16"`` and ``"s32"``.
        bit_rate: The bits per second to aim at. -1 leaves this setting and those below to the encoder.
        compression_level: How hard to compress: 0 to 12 for FLAC.
        qscale: The quality in place of a bit rate, in the encoder's own scale.

    Returns:
        The configuration, which any number of threads may share.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or `sample_fmt` holds a null character.

    Example:
        >>> audio_encode_config(num_channels=2, sample_rate=48000, sample_fmt="s16").sample_rate
        48000
    """
    return AudioEncodeConfig(num_channels, sample_rate, sample_fmt, bit_rate, compression_level, qscale)


def video_encode_config(
    *,
    height: int,
    width: int,
    frame_rate: FrameRate | None = None,
    pix_fmt: str = "rgb24",
    bit_rate: int = -1,
    compression_level: int = -1,
    qscale: int = -1,
    gop_size: int = -1,
    max_b_frames: int = -1,
    colorspace: str | None = None,
    color_primaries: str | None = None,
    color_trc: str | None = None,
) -> VideoEncodeConfig:
    """Configure an encoder of video; see `Muxer.add_encode_stream`.

    Args:
        height: The height of the frames in pixels. With subsampled chroma, some encoders take no odd sides.
        width: Their width in pixels.
        frame_rate: Their frames per second: ``(30000, 1001)``, a ``Fraction`` or an int. The times of frames
            are rounded to it, and two frames at one time are an error. None is 25.
        pix_fmt: Their pixel format, by FFmpeg's name. If the encoder takes another one, lossless codecs are given a
            format that holds the pixels unchanged; for lossy ones, red, green and blue in 8 bits, and gray, are
            converted to the YUV format that the encoder puts first, often yuv420p. Otherwise it is an error, which
            lists what the encoder takes.
        bit_rate: The bits per second to aim at. -1 leaves this setting and those below to the encoder.
        compression_level: How hard to compress.
        qscale: The quality in place of a bit rate, in the encoder's own scale: 1 (best) to 31 for MPEG-4 and MJPEG.
        gop_size: The largest distance of key frames, in frames.
        max_b_frames: The most B-frames in a row.
        colorspace: The colour space by FFmpeg's name, such as ``"bt709"``, which is stored if the file format has a
            field for it. Conversions from red, green and blue use it; None means BT.601.
        color_primaries: The primaries by FFmpeg's name, stored in the same way.
        color_trc: The transfer characteristic by FFmpeg's name, stored in the same way.

    Returns:
        The configuration, which any number of threads may share.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or a string holds a null character.

    Example:
        >>> video_encode_config(height=48, width=64, frame_rate=(30000, 1001)).pix_fmt
        'rgb24'
    """
    return VideoEncodeConfig(
        height,
        width,
        frame_rate,
        pix_fmt,
        bit_rate,
        compression_level,
        qscale,
        gop_size,
        max_b_frames,
        colorspace,
        color_primaries,
        color_trc,
    )
