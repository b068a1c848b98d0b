"""Encoders of sound and video, their settings, and frame rates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import check_instance, check_int, refuse
from spdl.io._common.native import native
from spdl.io._image.config import check_ffmpeg_text
from spdl.io._image.options import MAX_SIDE

if TYPE_CHECKING:
    from spdl.io._native import AudioEncoder as NativeAudioEncoder
    from spdl.io._native import AudioFrames, AudioPackets, VideoFrames, VideoPackets
    from spdl.io._native import VideoEncoder as NativeVideoEncoder

FrameRate: TypeAlias = tuple[int, int] | Fraction | int
"""Frames per second: a pair (numerator, denominator), a Fraction or an int."""

_ACCEPTED = "frames per second as (numerator, denominator), a Fraction or an int, above 0"
_MAX_INT = 2**31 - 1


def parse_frame_rate(argument: str, rate: Any) -> tuple[int, int]:
    """Return a frame rate in lowest terms.

    Raises:
        TypeError: If it is not a frame rate.
        ValueError: If it is not above 0, or too large for FFmpeg.
    """
    if isinstance(rate, Rational) and not isinstance(rate, bool):
        parts = (rate.numerator, rate.denominator)
    elif isinstance(rate, (tuple, list)) and len(rate) == 2:  # noqa: PLR2004 - a pair.
        parts = (rate[0], rate[1])
    else:
        refuse(TypeError, argument, _ACCEPTED, rate)
    numerator, denominator = (
        check_int(f"{argument}[{i}]", part, least=1, most=_MAX_INT, accepted=_ACCEPTED) for i, part in enumerate(parts)
    )
    return Fraction(numerator, denominator).as_integer_ratio()


_MAX_CHANNELS = 64
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


class AudioEncoder:
    """Encodes sound piece by piece; made by `Muxer.add_encode_stream`.

    Any number of threads may use an encoder; one at a time encodes, without the GIL.

    Example:
        >>> file = io.BytesIO()
        >>> muxer = Muxer(file, format="flac")
        >>> config = audio_encode_config(num_channels=1, sample_rate=8000, sample_fmt="s16")
        >>> encoder = muxer.add_encode_stream(config)
        >>> with muxer.open():
        ...     samples = np.zeros((8000, 1), np.int16)
        ...     for packets in (encoder.encode(create_reference_audio_frame(samples, "s16", 8000, 0)), encoder.flush()):
        ...         if packets is not None:
        ...             muxer.write(0, packets)
        >>> load_audio(file.getvalue()).shape
        (1, 8000)
    """

    def __init__(self, encoder: NativeAudioEncoder) -> None:
        self._native = encoder

    @property
    def frame_size(self) -> int:
        """How many samples each packet holds; 0 if that is free. Frames of any length may be given."""
        return self._native.frame_size()

    def encode(self, frames: AudioFrames) -> AudioPackets | None:
        """Encode the next sound.

        Args:
            frames: Sound in the form that the encoder was made for, of any length. It is not consumed. Its times say
                when it is heard; they must continue from one call to the next.

        Returns:
            The packets that are finished, for `Muxer.write`, or None.

        Raises:
            RuntimeError: If the frames have another form, begin before the end of those before them, or the encoder
                fails or was flushed.
            TypeError: If `frames` are not `AudioFrames`, or were consumed before.
        """
        check_instance("frames", frames, native.AudioFrames, "AudioFrames, as `decode_packets` returns")
        return self._native.encode(frames)

    def flush(self) -> AudioPackets | None:
        """Return the packets that are left, or None. After this the encoder takes no more.

        Raises:
            RuntimeError: If the encoder fails.
        """
        return self._native.flush()


class VideoEncoder:
    """Encodes pictures piece by piece; made by `Muxer.add_encode_stream`.

    Any number of threads may use an encoder; one at a time encodes, without the GIL.

    Example:
        >>> file = io.BytesIO()
        >>> muxer = Muxer(file, format="matroska")
        >>> encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64, frame_rate=10), encoder="ffv1")
        >>> pictures = np.zeros((10, 48, 64, 3), np.uint8)
        >>> with muxer.open():
        ...     frames = create_reference_video_frame(pictures, "rgb24", (10, 1), 0)
        ...     for packets in (encoder.encode(frames), encoder.flush()):
        ...         if packets is not None:
        ...             muxer.write(0, packets)
        >>> bool((to_numpy(load_video(file.getvalue())) == pictures).all())
        True
    """

    def __init__(self, encoder: NativeVideoEncoder) -> None:
        self._native = encoder

    def encode(self, frames: VideoFrames) -> VideoPackets | None:
        """Encode the next pictures.

        Args:
            frames: Pictures of the size and pixel format that the encoder was made for. They are not consumed. Their
                times say when they are shown; they must continue from one call to the next.

        Returns:
            The packets that are finished, for `Muxer.write`, or None.

        Raises:
            RuntimeError: If the frames have another form, one is not after the frame before it, or the encoder fails or
                was flushed.
            TypeError: If `frames` are not `VideoFrames`, or were consumed before.
        """
        check_instance("frames", frames, native.VideoFrames, "VideoFrames, as `decode_packets` returns")
        return self._native.encode(frames)

    def flush(self) -> VideoPackets | None:
        """Return the packets that are left, or None. After this the encoder takes no more.

        Raises:
            RuntimeError: If the encoder fails.
        """
        return self._native.flush()
