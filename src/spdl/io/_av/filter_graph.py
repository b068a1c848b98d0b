"""Graphs of FFmpeg's filters for many frames, with any number of inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import check_instance
from spdl.io._common.native import native
from spdl.io._image import filter_values
from spdl.io._image.config import check_ffmpeg_text

if TYPE_CHECKING:
    from spdl.io._native import AudioCodec, AudioFrames, ImageCodec, ImageFrames, VideoCodec, VideoFrames


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
        TypeError: If the description is not a str.
        ValueError: If it holds a null character.

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
    stored = codec.pix_fmt if pix_fmt is None else filter_values.names("pix_fmt", pix_fmt)
    return (
        f"{_labelled('buffer', label)}=video_size={codec.width}x{codec.height}:pix_fmt={stored}:"
        f"time_base={time_base[0]}/{time_base[1]}:pixel_aspect={aspect[0]}/{aspect[1]}"
    )


def get_abuffer_desc(
    codec: AudioCodec | AudioFrames, *, label: str | None = None, sample_fmt: str | None = None
) -> str:
    """Describe an input of a `FilterGraph` for sound.

    Args:
        codec: Describes the sound that the input takes. ``packets.codec`` describes the stored one, as `decode_packets`
            returns it with ``filter_desc=None``. Frames describe sound like themselves, and are not consumed.
        label: A name that distinguishes the input from others: it is then called ``abuffer@label``.
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
    stored = codec.sample_fmt if sample_fmt is None else filter_values.names("sample_fmt", sample_fmt)
    return (
        f"{_labelled('abuffer', label)}=time_base={codec.time_base[0]}/{codec.time_base[1]}:"
        f"sample_rate={codec.sample_rate}:sample_fmt={stored}:"
        f"channel_layout={codec.channel_layout}"
    )


def _labelled(name: str, label: str | None) -> str:
    return name if label is None else f"{name}@{filter_values.names('label', label)}"
