"""Decoding piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, overload

from spdl._check import check_instance, check_int
from spdl.io._av.default_filter import DEFAULT, FilterDesc, filters_of
from spdl.io._common.native import native
from spdl.io._image.config import decode_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.io._image.config import DecodeConfig
    from spdl.io._native import AudioCodec, AudioFrames, AudioPackets, VideoCodec, VideoFrames, VideoPackets
    from spdl.io._native import AudioDecoder as NativeAudioDecoder
    from spdl.io._native import VideoDecoder as NativeVideoDecoder

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
        """Return an iterator of the frames that are left. After the last, the decoder takes packets from anywhere.

        Raises:
            RuntimeError: If the packets cannot be decoded, or the filters cannot be applied.
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
        """Return an iterator of the frames that are left. After the last, the decoder takes packets from anywhere.

        Raises:
            RuntimeError: If the packets cannot be decoded, or the filters cannot be applied.
        """
        return _until_none(self._native.flush)

    def set_buffer_size(self, size: int) -> None:
        """Set how many frames each piece has: only the last one of each call may have fewer.

        Packets are decoded as their frames are asked for, so this bounds the memory, too.

        Args:
            size: The number of frames. 0, which holds until this is called, gives all that the packets hold at once.

        Raises:
            TypeError: If `size` is not an int.
            ValueError: If it is negative.
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
