"""Decodes packets: all at once, a few at a time, or chosen frames."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar, overload

from spdl._check import check_instance, check_int, refuse
from spdl.io._av.filters import DEFAULT, FilterDesc, filters_of
from spdl.io._common.native import native
from spdl.io._image.config import DecodeConfig, decode_options
from spdl.io._image.image import decode_image_packets
from spdl.io._image.image_filters import DEFAULT_FILTER_DESC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spdl.io._native import (
        AudioCodec,
        AudioFrames,
        AudioPackets,
        ImageFrames,
        ImagePackets,
        VideoCodec,
        VideoFrames,
        VideoPackets,
    )
    from spdl.io._native import AudioDecoder as NativeAudioDecoder
    from spdl.io._native import VideoDecoder as NativeVideoDecoder


_NUM_FRAMES = "an int: -1 (all) or at least 1"


@overload
def decode_packets(
    packets: ImagePackets,
    filter_desc: FilterDesc = DEFAULT,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> ImageFrames: ...
@overload
def decode_packets(
    packets: AudioPackets,
    filter_desc: FilterDesc = DEFAULT,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> AudioFrames: ...
@overload
def decode_packets(
    packets: VideoPackets,
    filter_desc: FilterDesc = DEFAULT,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> VideoFrames: ...
def decode_packets(
    packets: ImagePackets | AudioPackets | VideoPackets,
    filter_desc: FilterDesc = DEFAULT,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> ImageFrames | AudioFrames | VideoFrames:
    """Decode an image, sound or video, and run it through filters.

    Images: some descriptions are served without FFmpeg's filters: those that `get_video_filter_desc` writes for scaling
    (padded, cropped or stretched), a crop, ``hflip`` and a conversion to rgb24, bgr24 or gray, in any of FFmpeg's ways
    to write them (``scale=224:224,format=rgb24``). libjpeg-turbo then
    decodes JPEG and the image is resized while it is decoded, with the results of Pillow's antialiased resize. FFmpeg
    decodes other formats, which are resized in the same way; alpha is dropped, and 16-bit samples keep their upper
    half. All other descriptions run in FFmpeg's filter graph, and so do these with ``decode_config(backend="ffmpeg")``.

    A truncated JPEG is an error, whichever library decodes it, and so is one with a misplaced marker among or after its
    pixels. Damage that Pillow ignores gives Pillow's picture; when FFmpeg decodes, it is an error, too, if FFmpeg or
    libjpeg-turbo notices it. The orientation in a photo's EXIF data is not applied.

    Audio and video: frames outside of the window of the packets are dropped, and sound is cut to the sample, before the
    filters see them. A damaged frame is an error, unless the `decode_config` has the option ``err_detect`` set to
    ``ignore_err``. If the size, the pixel format or the sample format changes in mid-stream, the filters begin again,
    as in the ffmpeg command: filters that scale or convert then give frames of one form, and `convert_frames` refuses
    others.

    Args:
        packets: The result of `demux_image`, `demux_audio` or `demux_video`. The packets are consumed, even if decoding
            fails: to decode them twice, decode ``packets.clone()``.
        filter_desc: The filters in FFmpeg's syntax; `get_video_filter_desc` and `get_audio_filter_desc` write them. The
            default gives 8-bit RGB in the picture's own size, and 32-bit floats with a plane for each channel. None
            keeps what is stored.
        decode_config: How to decode; see `decode_config`. The decoder runs in the calling thread, unless the
            configuration has the option ``threads``.
        num_frames: Stop after this many frames: pictures, or the pieces in which sound leaves the decoder and the
            filters. -1 is all.

    Returns:
        The frames, which `convert_frames` consumes.

    Raises:
        RuntimeError: If the packets cannot be decoded, or the filters cannot be applied. The message names the file and
            quotes the decoder.
        TypeError: If the packets were consumed before, or an argument has the wrong type.
        ValueError: If `num_frames` is 0 or below -1, or `filter_desc` holds a null character.

    Example:
        >>> desc = get_video_filter_desc(scale_width=224, scale_height=224)
        >>> frames = decode_packets(demux_image(photo), filter_desc=desc)
        >>> frames.width, frames.height, frames.pix_fmt
        (224, 224, 'rgb24')
    """
    if num_frames != -1 and check_int("num_frames", num_frames, least=-1, accepted=_NUM_FRAMES) == 0:
        refuse(ValueError, "num_frames", _NUM_FRAMES, num_frames)
    if isinstance(packets, native.ImagePackets):
        return decode_image_packets(
            packets, DEFAULT_FILTER_DESC if filter_desc is DEFAULT else filter_desc, decode_config
        )
    check_instance(
        "packets",
        packets,
        (native.AudioPackets, native.VideoPackets),
        "packets, as `demux_image`, `demux_audio` or `demux_video` returns",
    )
    filters = filters_of(filter_desc, audio=isinstance(packets, native.AudioPackets))
    return native.decode_av(packets, filters, decode_options(decode_config), num_frames)


_Frames = TypeVar("_Frames")


class AudioDecoder:
    """Decodes the packets of an audio stream piece by piece; made by `Decoder`.

    Example:
        >>> packets = demux_audio(sound)
        >>> decoder = Decoder(packets.codec)
        >>> pieces = [*decoder.streaming_decode_packets(packets), *decoder.flush()]
        >>> sum(len(piece) for piece in pieces)
        8000
    """

    def __init__(self, decoder: NativeAudioDecoder) -> None:
        self._native = decoder

    def streaming_decode_packets(self, packets: AudioPackets) -> Iterator[AudioFrames]:
        """Decode the next packets of the stream.

        Args:
            packets: Packets of the stream. They are consumed.

        Returns:
            An iterator with all sound of the packets in one `AudioFrames`, or with nothing if none is finished. The
            decoder and its filters may hold sound back until more packets come, or `flush` is called.

        Raises:
            RuntimeError: If the packets cannot be decoded, or the filters cannot be applied.
            TypeError: If `packets` are of another medium, or were consumed before.
        """
        check_instance("packets", packets, native.AudioPackets, "AudioPackets, as `demux_audio` returns")
        self._native.add(packets)
        return _until_none(self._native.next)

    def flush(self) -> Iterator[AudioFrames]:
        """Return an iterator of the frames that are left, with the errors of `streaming_decode_packets`.

        After the last, the decoder takes packets from anywhere.
        """
        return _until_none(self._native.flush)


class VideoDecoder:
    """Decodes the packets of a video stream piece by piece; made by `Decoder`.

    Example:
        >>> packets = demux_video(clip)
        >>> decoder = Decoder(packets.codec)
        >>> decoder.set_buffer_size(10)
        >>> [len(piece) for piece in decoder.streaming_decode_packets(packets)]
        [10, 10, 5]
    """

    def __init__(self, decoder: NativeVideoDecoder) -> None:
        self._native = decoder

    def streaming_decode_packets(self, packets: VideoPackets) -> Iterator[VideoFrames]:
        """Decode the next packets of the stream.

        Args:
            packets: Packets of the stream. They are consumed.

        Returns:
            An iterator with all pictures of the packets in one `VideoFrames`, or in several of the size that
            `set_buffer_size` has set; with nothing if none is finished. The decoder and its filters may hold pictures
            back until more packets come, or `flush` is called.

        Raises:
            RuntimeError: If the packets cannot be decoded, or the filters cannot be applied.
            TypeError: If `packets` are of another medium, or were consumed before.
        """
        check_instance("packets", packets, native.VideoPackets, "VideoPackets, as `demux_video` returns")
        self._native.add(packets)
        return _until_none(self._native.next)

    def flush(self) -> Iterator[VideoFrames]:
        """Return an iterator of the frames that are left, with the errors of `streaming_decode_packets`.

        After the last, the decoder takes packets from anywhere.
        """
        return _until_none(self._native.flush)

    def set_buffer_size(self, size: int) -> None:
        """Set how many frames each piece has: only the last one of each call may have fewer.

        Packets are decoded as their frames are asked for, so this bounds the memory, too.

        Args:
            size: The number of frames. 0, which holds until this is called, gives all that the packets hold at once.

        Raises:
            TypeError, ValueError: If `size` is not an int, or negative.
        """
        self._native.set_buffer_size(check_int("size", size, least=0))


@overload
def Decoder(
    codec: AudioCodec, *, filter_desc: FilterDesc = DEFAULT, decode_config: DecodeConfig | None = None
) -> AudioDecoder: ...
@overload
def Decoder(
    codec: VideoCodec, *, filter_desc: FilterDesc = DEFAULT, decode_config: DecodeConfig | None = None
) -> VideoDecoder: ...
def Decoder(  # noqa: N802 - as in spdl 0.8.0.
    codec: AudioCodec | VideoCodec, *, filter_desc: FilterDesc = DEFAULT, decode_config: DecodeConfig | None = None
) -> AudioDecoder | VideoDecoder:
    """Make a decoder that takes the packets of a stream piece by piece.

    With `Demuxer.streaming_demux`, a file of any length is decoded in constant memory.

    Args:
        codec: The stream, as ``packets.codec`` or `Demuxer.video_codec` describes it.
        filter_desc: The filters in FFmpeg's syntax, as for `decode_packets`.
        decode_config: How to decode; see `decode_config`.

    Returns:
        An `AudioDecoder` or a `VideoDecoder`.

    Raises:
        RuntimeError: If the FFmpeg in use has no decoder for the codec. Filters are made with the first frame.
        TypeError: If `codec` is not a codec of audio or video, or another argument has the wrong type.
        ValueError: If `filter_desc` holds a null character.

    Example:
        >>> with Demuxer(clip) as demuxer:
        ...     decoder = Decoder(demuxer.video_codec)
        ...     for packets in demuxer.streaming_demux(num_packets=20):
        ...         for frames in decoder.streaming_decode_packets(packets):
        ...             pass
        ...     rest = list(decoder.flush())
    """
    check_instance("codec", codec, (native.AudioCodec, native.VideoCodec), "an AudioCodec or VideoCodec")
    filters = filters_of(filter_desc, audio=isinstance(codec, native.AudioCodec))
    options = decode_options(decode_config)
    if isinstance(codec, native.AudioCodec):
        return AudioDecoder(native.AudioDecoder(codec, filters, options))
    return VideoDecoder(native.VideoDecoder(codec, filters, options))


def _until_none(call: Callable[[], _Frames | None]) -> Iterator[_Frames]:
    while (frames := call()) is not None:
        yield frames


def sample_decode_video(
    packets: VideoPackets,
    indices: Sequence[int],
    *,
    decode_config: DecodeConfig | None = None,
    filter_desc: FilterDesc = DEFAULT,
) -> list[ImageFrames]:
    """Decode chosen frames, and only the packets that they need.

    `VideoReader` does so for a whole file, in any order and without holding its packets in memory.

    Args:
        packets: The packets, which are consumed.
        indices: The frames among those within the window of the packets, in the order in which they are shown:
            ascending, each once.
        decode_config: How to decode; see `decode_config`.
        filter_desc: The filters in FFmpeg's syntax, as for `decode_packets`. Each frame goes through filters of its
            own, so filters that count frames or look at several make no sense here.

    Returns:
        The frames, which `convert_frames` consumes.

    Raises:
        IndexError: If there is no such frame.
        RuntimeError: If a frame cannot be decoded, or the filters cannot be applied.
        TypeError: If `packets` are not `VideoPackets` or were consumed before, or an index is not an int.
        ValueError: If no indices are given, or they are not in ascending order, each once.

    Example:
        >>> frames = sample_decode_video(demux_video(clip), [0, 10, 20])
        >>> convert_frames(frames).shape
        (3, 48, 64, 3)
    """
    check_instance("packets", packets, native.VideoPackets, "VideoPackets, as `demux_video` returns")
    count = len(packets)
    if hasattr(indices, "__len__") and len(indices) > count:
        refuse(IndexError, "indices", f"at most the {count} frames that there are", indices)
    wanted = [check_int(f"indices[{i}]", index, least=None) for i, index in enumerate(indices)]
    if not wanted or any(a >= b for a, b in itertools.pairwise(wanted)):
        refuse(ValueError, "indices", "at least one index, in ascending order, each once", indices)
    if wanted[0] < 0 or wanted[-1] >= count:
        refuse(IndexError, "indices", f"from 0 to {count - 1}", indices)
    frames = native.sample_video(packets, wanted, filters_of(filter_desc, audio=False), decode_options(decode_config))
    return [frames[i] for i in range(len(frames))]
