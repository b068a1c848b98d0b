"""Descriptions of FFmpeg's filters for sound, and for the packets at hand."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spdl._check import check_instance
from spdl.io._common.native import native
from spdl.io._image import filter_values
from spdl.io._image.config import check_ffmpeg_text
from spdl.io._image.image_filters import DEFAULT_FILTER_DESC, get_video_filter_desc

if TYPE_CHECKING:
    from spdl.io._native import AudioPackets, ImagePackets, VideoPackets

AUDIO_FILTER_DESC = "aformat=sample_fmts=fltp"
"""The default filters of sound: a conversion to 32-bit floats, each channel by itself."""


class DefaultFilter(Enum):
    """Stands for the default filters of the medium."""

    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Literal[DefaultFilter.DEFAULT] = DefaultFilter.DEFAULT

FilterDesc: TypeAlias = str | Literal[DefaultFilter.DEFAULT] | None


def filters_of(filter_desc: FilterDesc, *, audio: bool) -> str:
    """Return the filters as native code takes them: "" for none.

    Raises:
        TypeError: If they are not text.
        ValueError: If the text holds a null character.
    """
    if filter_desc is DEFAULT:
        return AUDIO_FILTER_DESC if audio else DEFAULT_FILTER_DESC
    if filter_desc is None:
        return ""
    check_ffmpeg_text("filter_desc", filter_desc)
    return filter_desc


def get_audio_filter_desc(
    *,
    sample_rate: int | None = None,
    num_channels: int | None = None,
    sample_fmt: str | None = "fltp",
    timestamp: tuple[float, float] | None = None,
    num_frames: int | None = None,
    filter_desc: str | None = None,
) -> str | None:
    """Describe filters for sound in FFmpeg's syntax.

    The filters come in this order: channels, rate, window, length, `filter_desc`, sample format.

    Args:
        sample_rate: The samples per second to resample to. None keeps the stored rate.
        num_channels: The number of channels to mix to. None keeps the stored ones. A mix is never beyond full scale:
            two channels become their mean. (Where the ffmpeg command mixes floats, they become 1.41 times as loud.)
        sample_fmt: The sample format to convert to, by FFmpeg's name: ``"u8"``, ``"s16"``, ``"s32"``, ``"flt"``,
            ``"dbl"``, or with a ``p`` appended, for a plane for each channel. None keeps the stored one.
        timestamp: Keep the samples from the first number of seconds to just before the second; infinite bounds are left
            out. `demux_audio` with a window does so by itself.
        num_frames: The exact number of samples of each channel: the sound is cut, or continued with silence.
        filter_desc: More filters, inserted unchanged.

    Returns:
        The description, or None if there is nothing to do.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of range or NaN, the window is not a pair or empty, or `sample_fmt` holds
            anything but letters, digits and underscores.

    Example:
        >>> get_audio_filter_desc(sample_rate=16000, num_channels=1, num_frames=8000)
        'aformat=channel_layouts=1c,aresample=16000,apad,atrim=end_sample=8000,aformat=sample_fmts=fltp'
    """
    filters = []
    if num_channels is not None:
        filters.append(f"aformat=channel_layouts={filter_values.count('num_channels', num_channels)}c")
    if sample_rate is not None:
        filters.append(f"aresample={filter_values.count('sample_rate', sample_rate)}")
    if timestamp is not None and (bounds := filter_values.window("timestamp", timestamp)):
        filters.append(f"atrim={':'.join(bounds)}")
    if num_frames is not None:
        filters += ["apad", f"atrim=end_sample={filter_values.count('num_frames', num_frames)}"]
    if filter_desc is not None:
        check_ffmpeg_text("filter_desc", filter_desc)
        filters += [filter_desc] if filter_desc else []
    if sample_fmt is not None:
        filters.append(f"aformat=sample_fmts={filter_values.names('sample_fmt', sample_fmt)}")
    return ",".join(filters) or None


def get_filter_desc(
    packets: ImagePackets | AudioPackets | VideoPackets | None = None, **filter_args: Any
) -> str | None:
    """Describe filters that suit the packets to decode.

    Args:
        packets: The packets to decode, which are not consumed. None describes filters for images or video.
        filter_args: The arguments of `get_audio_filter_desc` for `AudioPackets`, otherwise of `get_video_filter_desc`.
            The window of audio packets is their own unless `timestamp` is among them.

    Returns:
        The description, or None if there is nothing to do.

    Raises:
        TypeError: If `packets` are not packets, or a keyword is unknown.
        ValueError: For the reasons that `get_video_filter_desc` lists.

    Example:
        >>> get_filter_desc(demux_audio(sound, timestamp=(0, 0.5)))
        'atrim=start=0.0:end=0.5,aformat=sample_fmts=fltp'
        >>> get_filter_desc(demux_video(clip), scale_width=32, scale_mode=None)
        'scale=w=32:h=0:flags=bicubic,format=pix_fmts=rgb24'
    """
    if isinstance(packets, native.AudioPackets):
        return get_audio_filter_desc(**{"timestamp": packets.timestamp, **filter_args})
    if packets is not None:
        accepted = "ImagePackets, AudioPackets, VideoPackets or None"
        check_instance("packets", packets, (native.ImagePackets, native.VideoPackets), accepted)
    return get_video_filter_desc(**filter_args)
