"""Descriptions of FFmpeg's filters for sound and for packets, and graphs for many frames."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spdl._check import check_instance
from spdl.io._common.native import native
from spdl.io._image.config import check_ffmpeg_text
from spdl.io._image.image_filters import (
    DEFAULT_FILTER_DESC,
    filter_count,
    filter_names,
    filter_window,
    get_video_filter_desc,
)

if TYPE_CHECKING:
    from spdl.io._native import (
        AudioCodec,
        AudioFrames,
        AudioPackets,
        ImageCodec,
        ImageFrames,
        ImagePackets,
        VideoCodec,
        VideoFrames,
        VideoPackets,
    )


MAX_RATE = 1_000_000
"""The most samples per second."""
MAX_CHANNELS = 64

AUDIO_FILTER_DESC = "aformat=sample_fmts=fltp"
"""The default filters of sound: a conversion to 32-bit floats, each channel by itself."""


class DefaultFilter(Enum):
    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Literal[DefaultFilter.DEFAULT] = DefaultFilter.DEFAULT

FilterDesc: TypeAlias = str | Literal[DefaultFilter.DEFAULT] | None


def filters_of(filter_desc: FilterDesc, *, audio: bool) -> str:
    """Return the filters as native code takes them: "" for none."""
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
        filters.append(f"aformat=channel_layouts={filter_count('num_channels', num_channels)}c")
    if sample_rate is not None:
        filters.append(f"aresample={filter_count('sample_rate', sample_rate)}")
    if timestamp is not None and (bounds := filter_window(timestamp)):
        filters.append(f"atrim={':'.join(bounds)}")
    if num_frames is not None:
        filters += ["apad", f"atrim=end_sample={filter_count('num_frames', num_frames)}"]
    if filter_desc is not None:
        check_ffmpeg_text("filter_desc", filter_desc)
        filters += [filter_desc] if filter_desc else []
    if sample_fmt is not None:
        filters.append(f"aformat=sample_fmts={filter_names('sample_fmt', sample_fmt)}")
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


class FilterGraph:
    """A graph of FFmpeg's filters that takes and returns any number of frames.

    The description covers a whole graph. It describes the frames that its inputs take (`get_buffer_desc` and
    `get_abuffer_desc` write that), and ends in ``buffersink``, or in ``abuffersink`` for sound. Frames are shared with
    the graph, not copied, apart from those that show an array; a filter copies a frame that it must write to while
    other code still holds it. Any number of threads may use a graph; one at a time runs it, without the GIL. For a
    single chain of filters, the ``filter_desc`` of `decode_packets` is enough.

    Images have no timestamps: each image that is added to an input counts as the one after the last. So does a picture
    of a video whose time is not after the last one's.

    Args:
        filter_desc: The description in FFmpeg's syntax. Inputs are ``buffer`` and ``abuffer`` filters, outputs
            ``buffersink`` and ``abuffersink`` filters; if there are several, name them, as in ``buffer@left``.

    Raises:
        RuntimeError: If this is not a description of a whole graph. The message says which part is wrong and quotes
            FFmpeg.
        TypeError, ValueError: If the description is not a str, or it holds a null character.

    Example:
        >>> frames = [decode_packets(demux_image(photo)) for _ in range(2)]
        >>> left, right = (get_buffer_desc(each, label) for each, label in zip(frames, ("left", "right")))
        >>> graph = FilterGraph(f"{left} [a]; {right} [b]; [a] [b] hstack, buffersink")
        >>> graph.add_frames(frames[0], key="buffer@left")
        >>> graph.add_frames(frames[1], key="buffer@right")
        >>> convert_frames(graph.get_frames()).shape
        (375, 1000, 3)
        >>> video = decode_packets(demux_video(clip))
        >>> graph = FilterGraph(f"{get_buffer_desc(video)}, hflip, buffersink")
        >>> graph.add_frames(video)
        >>> len(graph.get_frames())
        25
    """

    def __init__(self, filter_desc: str) -> None:
        check_ffmpeg_text("filter_desc", filter_desc)
        self._graph = native.FilterGraph(filter_desc)

    def add_frames(self, frames: ImageFrames | VideoFrames | AudioFrames, *, key: str | None = None) -> None:
        """Put an image, pictures of a video, or sound into the graph.

        Args:
            frames: The result of `decode_packets`, another graph, or `create_reference_video_frame` and its like. They
                are consumed, even if this fails: to keep them, add ``frames.clone()``.
            key: The name of the input, such as ``"buffer@left"``. None is the only input.

        Raises:
            RuntimeError: If the input takes frames of another form, a filter fails, or the graph was flushed. If it
                takes another medium, the frames are not consumed.
            TypeError: If `frames` are not frames or were consumed before.
            ValueError: If no input has that name, or there are several inputs and none is named. The message lists
                them, and the frames are not consumed.
        """
        check_instance(
            "frames",
            frames,
            (native.ImageFrames, native.VideoFrames, native.AudioFrames),
            "frames, as `decode_packets` returns",
        )
        self._graph.add_frames(frames, key)

    def get_frames(self, *, key: str | None = None) -> ImageFrames | VideoFrames | AudioFrames | None:
        """Take finished frames out of the graph.

        Args:
            key: The name of the output, such as ``"buffersink@large"``. None is the only output.

        Returns:
            `AudioFrames` with all sound that is finished, if the output is one of sound. Otherwise `VideoFrames` with
            all pictures that are finished, even if that is only one, also of filters such as ``showwaves``, which draw
            sound; or, if nothing but `ImageFrames` was added, the oldest finished image as `ImageFrames`. A graph that
            contains sources, such as ``color``, which may never end, gives one frame at a time. None if the graph needs
            more frames first, or was flushed and has returned everything.

        Raises:
            RuntimeError: If a filter fails.
            ValueError: If no output has that name, or there are several outputs and none is named.
        """
        return self._graph.get_frames(key)

    def flush(self) -> None:
        """End the input, so that images that filters still hold can be taken out."""
        self._graph.flush()

    def dump(self) -> str:
        """Return a drawing of the graph, with the sizes and pixel formats between its filters."""
        return self._graph.dump()

    def __repr__(self) -> str:
        return f"FilterGraph(inputs={self._graph.inputs()!r}, outputs={self._graph.outputs()!r})"


def get_buffer_desc(
    codec: ImageCodec | VideoCodec | ImageFrames | VideoFrames, label: str | None = None, pix_fmt: str | None = None
) -> str:
    """Describe an input of a `FilterGraph` for pictures.

    Args:
        codec: Describes the pictures that the input takes. ``packets.codec`` describes stored ones, as `decode_packets`
            returns them with ``filter_desc=None``. Frames describe pictures like themselves, and are not consumed.
        label: A name that distinguishes the input from others: it is then called ``buffer@label``.
        pix_fmt: The pixel format, if it differs.

    Returns:
        The description of the input, to put in front of filters.

    Raises:
        TypeError: If `codec` is neither a codec of pictures nor frames of pictures, or a name is not a str.
        ValueError: If a name holds anything but letters, digits and underscores.

    Example:
        >>> get_buffer_desc(demux_image(photo).codec, "a", pix_fmt="rgb24")
        'buffer@a=video_size=500x375:pix_fmt=rgb24:time_base=1/25:pixel_aspect=0/1'
    """
    if isinstance(codec, native.ImageFrames):
        time_base, aspect = (1, 25), (0, 1)
    elif isinstance(codec, native.VideoFrames):
        time_base, aspect = codec.time_base, (0, 1)
    else:
        accepted = "an ImageCodec or VideoCodec, as `packets.codec`, ImageFrames or VideoFrames"
        check_instance("codec", codec, (native.ImageCodec, native.VideoCodec), accepted)
        time_base, aspect = codec.time_base, codec.sample_aspect_ratio
    stored = codec.pix_fmt if pix_fmt is None else filter_names("pix_fmt", pix_fmt)
    return (
        f"{_labelled('buffer', label)}=video_size={codec.width}x{codec.height}:pix_fmt={stored}:"
        f"time_base={time_base[0]}/{time_base[1]}:pixel_aspect={aspect[0]}/{aspect[1]}"
    )


def get_abuffer_desc(
    codec: AudioCodec | AudioFrames, *, label: str | None = None, sample_fmt: str | None = None
) -> str:
    """Describe an input of a `FilterGraph` for sound.

    Args:
        codec, label: As for `get_buffer_desc`, but of sound: the input is called ``abuffer@label``. Frames are not
            consumed.
        sample_fmt: The sample format, if it differs: `decode_packets` gives ``"fltp"`` by default.

    Returns:
        The description of the input, to put in front of filters.

    Raises:
        TypeError: If `codec` is neither an `AudioCodec` nor `AudioFrames`, or a name is not a str.
        ValueError: If a name holds anything but letters, digits and underscores.

    Example:
        >>> get_abuffer_desc(demux_audio(sound).codec, label="a", sample_fmt="fltp")
        'abuffer@a=time_base=1/8000:sample_rate=8000:sample_fmt=fltp:channel_layout=mono'
    """
    accepted = "an AudioCodec, as `packets.codec`, or AudioFrames"
    check_instance("codec", codec, (native.AudioCodec, native.AudioFrames), accepted)
    stored = codec.sample_fmt if sample_fmt is None else filter_names("sample_fmt", sample_fmt)
    return (
        f"{_labelled('abuffer', label)}=time_base={codec.time_base[0]}/{codec.time_base[1]}:"
        f"sample_rate={codec.sample_rate}:sample_fmt={stored}:"
        f"channel_layout={codec.channel_layout}"
    )


def _labelled(name: str, label: str | None) -> str:
    return name if label is None else f"{name}@{filter_names('label', label)}"
