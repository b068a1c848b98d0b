"""Encoders of sound and video, their settings, and frames that show the caller's array."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import check_instance, check_int, check_str, refuse
from spdl.io._av.filters import MAX_CHANNELS
from spdl.io._common.native import native
from spdl.io._image.config import check_ffmpeg_text
from spdl.io._image.encode import ALIASES, PIXEL_FORMATS, as_array, check_dtype
from spdl.io._image.options import MAX_SIDE

if TYPE_CHECKING:
    import numpy as np

    from spdl.io._native import AudioEncoder as NativeAudioEncoder
    from spdl.io._native import AudioFrames, AudioPackets, VideoFrames, VideoPackets
    from spdl.io._native import VideoEncoder as NativeVideoEncoder

    Array = np.ndarray[Any, Any]

FrameRate: TypeAlias = tuple[int, int] | Fraction | int
"""Frames per second: a pair (numerator, denominator), a Fraction or an int."""

_ACCEPTED = "frames per second as (numerator, denominator), a Fraction or an int, above 0"
_MAX_INT = 2**31 - 1


def parse_frame_rate(rate: Any) -> tuple[int, int]:
    if isinstance(rate, Rational) and not isinstance(rate, bool):
        parts = (rate.numerator, rate.denominator)
    elif isinstance(rate, (tuple, list)) and len(rate) == 2:  # noqa: PLR2004 - a pair.
        parts = (rate[0], rate[1])
    else:
        refuse(TypeError, "frame_rate", _ACCEPTED, rate)
    numerator, denominator = (
        check_int(f"frame_rate[{i}]", part, least=1, most=_MAX_INT, accepted=_ACCEPTED) for i, part in enumerate(parts)
    )
    return Fraction(numerator, denominator).as_integer_ratio()


_MAX_QSCALE = 1 << 16
_MAX_BIT_RATE = 2**62


@dataclass(frozen=True, kw_only=True)
class AudioEncodeConfig:
    """The sound for an encoder, and how it is encoded; see `Muxer.add_encode_stream`.

    `audio_encode_config` is another name of it. Any number of threads may share one.

    Args:
        num_channels: The number of channels of the frames.
        sample_rate: Their samples per second. Some encoders take only certain rates: Opus takes 48000.
        sample_fmt: Their sample format, by FFmpeg's name. If the encoder takes another one that holds every sample
            unchanged, the frames are converted, as also for lossy codecs. Otherwise it is an error, which lists what
            the encoder takes: FLAC takes ``"s16"`` and ``"s32"``.
        bit_rate: The bits per second to aim at. -1 leaves this setting and those below to the encoder.
        compression_level: How hard to compress: 0 to 12 for FLAC.
        qscale: The quality in place of a bit rate, in the encoder's own scale.

    Raises:
        TypeError, ValueError: If an argument has the wrong type or is out of range, or a string holds a null character.

    Example:
        >>> audio_encode_config(num_channels=2, sample_rate=48000, sample_fmt="s16").sample_rate
        48000
    """

    num_channels: int
    sample_rate: int
    sample_fmt: str = "fltp"
    bit_rate: int = -1
    compression_level: int = -1
    qscale: int = -1

    def __post_init__(self) -> None:
        check_int("num_channels", self.num_channels, least=1, most=MAX_CHANNELS)
        check_int("sample_rate", self.sample_rate, least=1, most=_MAX_INT)
        check_ffmpeg_text("sample_fmt", self.sample_fmt)
        _check_common(self)


audio_encode_config = AudioEncodeConfig


@dataclass(frozen=True, kw_only=True)
class VideoEncodeConfig:
    """The pictures for an encoder, and how they are encoded; see `Muxer.add_encode_stream`.

    `video_encode_config` is another name of it. Any number of threads may share one.

    Args:
        height, width: The size of the frames in pixels. With subsampled chroma, some encoders take no odd sides.
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
        color_primaries, color_trc: The primaries and the transfer characteristic by FFmpeg's names, stored alike.

    Raises:
        TypeError, ValueError: If an argument has the wrong type or is out of range, or a string holds a null character.

    Example:
        >>> video_encode_config(height=48, width=64, frame_rate=(30000, 1001)).pix_fmt
        'rgb24'
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
        check_int("height", self.height, least=1, most=MAX_SIDE)
        check_int("width", self.width, least=1, most=MAX_SIDE)
        if self.frame_rate is not None:
            object.__setattr__(self, "frame_rate", parse_frame_rate(self.frame_rate))
        check_ffmpeg_text("pix_fmt", self.pix_fmt)
        _check_common(self)
        check_int("gop_size", self.gop_size, least=-1, most=_MAX_INT)
        check_int("max_b_frames", self.max_b_frames, least=-1, most=_MAX_INT)
        for name in ("colorspace", "color_primaries", "color_trc"):
            if getattr(self, name) is not None:
                check_ffmpeg_text(name, getattr(self, name))


video_encode_config = VideoEncodeConfig


def _check_common(config: AudioEncodeConfig | VideoEncodeConfig) -> None:
    check_int("bit_rate", config.bit_rate, least=-1, most=_MAX_BIT_RATE)
    check_int("compression_level", config.compression_level, least=-1, most=_MAX_INT)
    check_int("qscale", config.qscale, least=-1, most=_MAX_QSCALE)


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
        """Return the packets that are left, or None. The encoder then takes no more. RuntimeError if it fails."""
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
        """Return the packets that are left, or None. The encoder then takes no more. RuntimeError if it fails."""
        return self._native.flush()


class ArrayMismatchError(ValueError, RuntimeError):
    """Raised for an array or a format that frames cannot be made of.

    It is a `ValueError`, and also a `RuntimeError`, which spdl 0.8.0 raises.
    """


_PIX_FMTS = ("rgb24", "bgr24", "rgba", "bgra", "gray", "gray8", "gray16", "gray16le", "gray16be", "yuv444p")
_SAMPLES = {"u8": "uint8", "s16": "int16", "s32": "int32", "s64": "int64", "flt": "float32", "dbl": "float64"}
_MAX_TIME = 2**40


def create_reference_video_frame(array: Any, pix_fmt: str, frame_rate: FrameRate, pts: int) -> VideoFrames:
    """Make frames that show pictures in an array, without a copy.

    The frames keep the array alive. Nothing writes to it, but what is written to it later shows in them. An array that
    is not C-contiguous is copied once, and what is written to it later does not show.

    Args:
        array: An array of N pictures in main memory: uint8 (N, H, W, 3) for ``"rgb24"`` and ``"bgr24"``, (N, H, W, 4)
            for ``"rgba"`` and ``"bgra"``, (N, H, W) or (N, H, W, 1) for ``"gray"`` (or ``"gray8"``), (N, 3, H, W) for
            ``"yuv444p"``. For ``"gray16"``, uint16 or int16 (N, H, W) or (N, H, W, 1), whose bits are taken as they
            are: in the machine's byte order, or in the one after the name with ``"gray16le"`` and ``"gray16be"``.
        pix_fmt: The pixel format by FFmpeg's name.
        frame_rate: The frames per second: ``(30000, 1001)``, a ``Fraction`` or an int.
        pts: The number of the first frame, from which its time follows: ``pts / frame_rate`` seconds.

    Returns:
        The frames.

    Raises:
        TypeError: If `array` is not an array in main memory, or another argument has the wrong type.
        ValueError: If the array does not match `pix_fmt`, or an argument is out of range.

    Example:
        >>> frames = create_reference_video_frame(np.zeros((5, 48, 64, 3), np.uint8), "rgb24", (10, 1), 20)
        >>> len(frames), frames.width, frames.height, frames.get_timestamps()[:2]
        (5, 64, 48, [2.0, 2.1])
    """
    name = ALIASES.get(check_str("pix_fmt", pix_fmt), pix_fmt)
    if pix_fmt not in _PIX_FMTS:
        refuse(ArrayMismatchError, "pix_fmt", f"one of {', '.join(_PIX_FMTS)}", pix_fmt)
    rate = parse_frame_rate(frame_rate)
    time = check_int("pts", pts, least=-_MAX_TIME, most=_MAX_TIME)
    shown = as_array("array", array)
    check_dtype("array", shown.dtype, name, pix_fmt, ArrayMismatchError)
    pictures = PIXEL_FORMATS[name]
    sides = (*shown.shape, 1) if pictures.channels == 1 and shown.ndim == 3 else shown.shape  # noqa: PLR2004 - N, H, W.
    fits = len(sides) == 4 and sides[1 if pictures.planar else 3] == pictures.channels  # noqa: PLR2004 - and channels.
    height, width = (sides[2:] if pictures.planar else sides[1:3]) if fits else (0, 0)
    if not (fits and 1 <= sides[0] <= _MAX_INT and 1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        shape = pictures.shape.replace("(", "(N, ")
        accepted = f"of shape {shape}, sides from 1 to {MAX_SIDE}, for the pixel format {pix_fmt!r}"
        refuse(ArrayMismatchError, "array", accepted, shown.shape)
    return native.reference_video(_bytes_of(shown), name, width, height, sides[0], rate, time)


def create_reference_audio_frame(array: Any, sample_fmt: str, sample_rate: int, pts: int) -> AudioFrames:
    """Make frames that show sound in an array, without a copy.

    The frames keep the array alive. Nothing writes to it, but what is written to it later is heard in them. An array
    that is not C-contiguous, such as a transposed one, is copied once, and what is written to it later is not heard.

    Args:
        array: An array in main memory: (samples, channels), or (channels, samples) if the name of the
            format ends in p. The formats are ``"u8"`` (uint8), ``"s16"`` (int16), ``"s32"`` (int32), ``"s64"`` (int64),
            ``"flt"`` (float32) and ``"dbl"`` (float64), and ``"u8p"``, ``"s16p"`` and so on.
        sample_fmt: The sample format by FFmpeg's name.
        sample_rate: The samples per second.
        pts: The number of the first sample, from which its time follows: ``pts / sample_rate`` seconds.

    Returns:
        The frames.

    Raises:
        TypeError: If `array` is not an array in main memory, or another argument has the wrong type.
        ValueError: If the array does not match `sample_fmt`, or an argument is out of range.

    Example:
        >>> frames = create_reference_audio_frame(np.zeros((2, 800), np.float32), "fltp", 8000, 0)
        >>> len(frames), frames.num_channels, frames.sample_fmt
        (800, 2, 'fltp')
    """
    dtype = _SAMPLES.get(check_str("sample_fmt", sample_fmt).removesuffix("p"))
    if dtype is None:
        names = ", ".join([*_SAMPLES, *(f"{name}p" for name in _SAMPLES)])
        refuse(ArrayMismatchError, "sample_fmt", f"one of {names}", sample_fmt)
    rate = check_int("sample_rate", sample_rate, least=1, most=_MAX_INT)
    time = check_int("pts", pts, least=-_MAX_TIME, most=_MAX_TIME)
    heard = as_array("array", array)
    if heard.dtype != dtype:
        refuse(ArrayMismatchError, "array", f"of dtype {dtype} for {sample_fmt!r}", heard.dtype)
    planar = sample_fmt.endswith("p")
    channels, samples = (heard.shape if planar else heard.shape[::-1]) if heard.ndim == 2 else (0, 0)  # noqa: PLR2004
    if not (1 <= channels <= MAX_CHANNELS and 1 <= samples <= _MAX_INT):
        order = "(channels, samples)" if planar else "(samples, channels)"
        accepted = f"of shape {order}, 1 to {MAX_CHANNELS} channels, at least 1 sample, for {sample_fmt!r}"
        refuse(ArrayMismatchError, "array", accepted, heard.shape)
    return native.reference_audio(_bytes_of(heard), sample_fmt, channels, samples, rate, time)


def _bytes_of(array: Array) -> Any:
    import numpy as np  # noqa: PLC0415

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
