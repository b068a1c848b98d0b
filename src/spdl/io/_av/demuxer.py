"""Demuxing: the packets of audio and video streams, and the filters that change them undecoded."""

from __future__ import annotations

from collections.abc import Iterable
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from spdl._check import check_flag, check_instance, check_int, check_seconds, refuse
from spdl.io._av.time_window import parse_window
from spdl.io._common.inputs import Readable, open_url, resolve, unreadable, url_of
from spdl.io._common.native import native
from spdl.io._image.config import DemuxConfig, check_ffmpeg_text, demux_options
from spdl.io._image.image import demux_image, describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from spdl.io._av.time_window import Seconds
    from spdl.io._image.image import ImageInput
    from spdl.io._native import AudioCodec, AudioPackets, ImageCodec, ImagePackets, VideoCodec, VideoPackets
    from spdl.io._native import Demuxer as NativeDemuxer


_Packets = TypeVar("_Packets", bound="AudioPackets | VideoPackets")


class BSF:
    """Bit-stream filters for the packets of one stream, piece by piece.

    For packets that are all there, `apply_bsf` is enough. Any number of threads may use a filter, one at a time,
    without the GIL.

    Args:
        codec: The stream, as ``packets.codec`` describes it.
        bsf: The filters in FFmpeg's syntax, such as ``"h264_mp4toannexb"``.

    Raises:
        RuntimeError: If there is no such filter, or it does not take the codec. The message quotes FFmpeg.
        TypeError: If `codec` is not a codec of audio or video, or `bsf` is not a str.
        ValueError: If `bsf` holds a null character.

    Example:
        >>> packets = demux_video(clip)
        >>> bsf = BSF(packets.codec, "dump_extra")
        >>> filtered = bsf.filter(packets, flush=True)
        >>> len(filtered)
        25
    """

    def __init__(self, codec: AudioCodec | VideoCodec, bsf: str) -> None:
        check_instance("codec", codec, (native.AudioCodec, native.VideoCodec), "an AudioCodec or VideoCodec")
        check_ffmpeg_text("bsf", bsf)
        # It takes and gives packets of the codec's medium.
        self._bsf: Any
        self._packets: type[AudioPackets | VideoPackets]
        if isinstance(codec, native.AudioCodec):
            self._bsf, self._packets = native.AudioBsf(codec, bsf), native.AudioPackets
        else:
            self._bsf, self._packets = native.VideoBsf(codec, bsf), native.VideoPackets

    def filter(self, packets: _Packets, flush: bool = False) -> _Packets:  # noqa: FBT001, FBT002 - as in spdl 0.8.0.
        """Return the packets that are finished.

        Args:
            packets: Packets of the stream. They are consumed, even if this fails.
            flush: Whether these are the last ones, so that the filters hold none back.

        Raises:
            RuntimeError: If a filter fails.
            TypeError: If `packets` are of another medium, or were consumed before.
        """
        medium = "audio" if self._packets is native.AudioPackets else "video"
        check_instance("packets", packets, self._packets, f"{self._packets.__name__}, as `demux_{medium}` returns")
        filtered: _Packets = self._bsf.filter(packets, check_flag("flush", flush))
        return filtered

    def flush(self) -> AudioPackets | VideoPackets | None:
        """Return the packets that the filters held back, or None; they then begin again. RuntimeError if one fails."""
        rest: AudioPackets | VideoPackets = self._bsf.flush()
        return rest if len(rest) > 0 else None


def apply_bsf(packets: _Packets, bsf: str) -> _Packets:
    """Run packets through bit-stream filters.

    Args:
        packets: Packets of audio or video. They are consumed, even if this fails.
        bsf: The filters in FFmpeg's syntax, such as ``"h264_mp4toannexb"``.

    Returns:
        The filtered packets, whose `codec` says what the filters changed.

    Raises:
        Exception: The errors of `BSF` and of its ``filter``.

    Example:
        >>> len(apply_bsf(demux_video(clip), "dump_extra"))
        25
    """
    check_instance(
        "packets",
        packets,
        (native.AudioPackets, native.VideoPackets),
        "packets, as `demux_audio` or `demux_video` returns",
    )
    return BSF(packets.codec, bsf).filter(packets, flush=True)


def open_container(
    src: ImageInput, demux_config: DemuxConfig | None, name: str | None, *, packets_only: bool = False
) -> tuple[NativeDemuxer, Any]:
    """Return an open file, and its input if that may be opened again.

    With ``packets_only``, its packets are all that will be asked for. Then fewer frames are decoded to find out what
    the streams are, and the pixel format may be unknown.
    """
    if name is not None:
        check_instance("name", name, str, "a str or None")
    options = demux_options(demux_config, None)
    url = url_of(src)
    if url is not None:
        label = name if name is not None else url
        with unreadable(label):
            found = open_url(str(src))
            if not isinstance(found, str):
                return native.open_file(found, describe(found, label), options, packets_only, costly=True), src
        src, name = found, label
    if isinstance(src, Readable) and not hasattr(type(src), "__fspath__"):
        label = name if name is not None else str(getattr(src, "name", None) or f"a {type(src).__name__}")
        return native.open_file(src, describe(src, label), options, packets_only, costly=False), None
    resolved = resolve(src, "src", files=False)
    if isinstance(resolved, str):
        return native.Demuxer(resolved, describe(resolved, name), options, packets_only), resolved
    label = name if name is not None else f"{memoryview(resolved).nbytes} bytes"
    return native.open_bytes(resolved, describe(resolved, label), options, packets_only), resolved


def best_stream(container: NativeDemuxer, *, audio: bool) -> int:
    """Return the index of the main stream of a medium. RuntimeError if the file has none."""
    index = container.best_stream(audio)
    if index is None:
        raise RuntimeError(f"{container.name()}: there is no {'audio' if audio else 'video'} stream in it")
    return index


class Demuxer:
    """An open file of audio and video, which hands out the packets of its streams.

    Use it as a context manager, which closes the file. Any number of threads may use it; one at a time reads, without
    the GIL. For one window of one stream, `demux_audio` and `demux_video` are enough.

    Args:
        src: A path or URL, the bytes of a file (kept and read in place: do not change them while it is used), or an
            open binary file. The file is read piece by piece from its position on, and must stay open. If it has no
            ``seek``, it can be read once.
        demux_config: How FFmpeg reads; see `demux_config`.
        name: The file's name in errors. The default is the path, or the number of bytes.

    Raises:
        RuntimeError: If the file cannot be read, or has no known format. The message names it and quotes FFmpeg.
        TypeError: If `src` is not an input, or another argument has the wrong type.

    Example:
        >>> with Demuxer(clip) as demuxer:
        ...     packets = demuxer.demux_video(window=(0, 0.2))
        ...     print(len(packets), demuxer.video_codec.name, demuxer.has_audio())
        5 mpeg4 False
    """

    def __init__(self, src: ImageInput, *, demux_config: DemuxConfig | None = None, name: str | None = None) -> None:
        self._demux_config = demux_config
        self._native, self._image_input = open_container(src, demux_config, name)

    def demux_audio(self, window: Sequence[Seconds] | None = None, *, bsf: str | None = None) -> AudioPackets:
        """Return the packets of the main audio stream.

        Args:
            window: The moments ``(start, end)`` in seconds: from the start on, up to before the end. Each is a number,
                a ``Fraction``, a ``Decimal`` or a str such as ``"1/3"``, and may be infinite. None is
                the whole stream. Times are the file's own, which need not begin at 0.
            bsf: Bit-stream filters to apply, in FFmpeg's syntax.

        Raises:
            RuntimeError: If the file has no audio, cannot be read, or has no ``seek`` and was read before.
            TypeError, ValueError: If `window` is not a pair of moments, or the window is empty (also an `IndexError`).
        """
        packets: AudioPackets = self._demux(self.audio_stream_index, window, bsf)
        return packets

    def demux_video(self, window: Sequence[Seconds] | None = None, *, bsf: str | None = None) -> VideoPackets:
        """Return the packets of the main video stream.

        The packets begin with the last key frame from which the window can be decoded.

        Args:
            window, bsf: As for `demux_audio`.

        Raises:
            Exception: The errors of `demux_audio`, also if the file has no video.
        """
        packets: VideoPackets = self._demux(self.video_stream_index, window, bsf)
        return packets

    def demux_image(self, *, bsf: str | None = None) -> ImagePackets:
        """Return the image, if the file is one; see `demux_image`.

        Args:
            bsf: Bit-stream filters to apply, in FFmpeg's syntax.

        Raises:
            RuntimeError: If the file holds no image.
            TypeError: If the input is an open file: `demux_image` reads it.
        """
        return demux_image(self._image(), demux_config=self._demux_config, bsf=bsf)

    @overload
    def streaming_demux(
        self, indices: int | None = None, *, duration: float = -1, num_packets: int = -1
    ) -> Iterator[AudioPackets | VideoPackets]: ...
    @overload
    def streaming_demux(
        self, indices: Iterable[int], *, duration: float = -1, num_packets: int = -1
    ) -> Iterator[dict[int, AudioPackets | VideoPackets]]: ...
    def streaming_demux(
        self, indices: int | Iterable[int] | None = None, *, duration: float = -1, num_packets: int = -1
    ) -> Iterator[Any]:
        """Read the file from its beginning, piece by piece.

        Args:
            indices: The stream, or several: the file is then read once for all of them. None is stream 0.
            duration: The seconds that a piece covers, at least: it ends with the first stream that does so.
            num_packets: The packets in a piece: it ends with the first stream that has that many.

        Returns:
            An iterator of the packets of the stream; for several streams, of dicts of packets by stream, without those
            streams that have none in a piece.

        Raises:
            RuntimeError: If there is no such stream, or the file cannot be read; when the iterator is first asked, or
                in the middle.
            TypeError: If an argument has the wrong type.
            ValueError: If not exactly one of `duration` and `num_packets` is given.
        """
        by_count = check_int("num_packets", num_packets, least=-1) > 0
        by_time = duration != -1 and check_seconds("duration", duration, above_zero=True) > 0
        if by_count == by_time:
            accepted = "given if `num_packets` is not, and the other way round"
            refuse(ValueError, "duration", accepted, duration, f"`num_packets` is {num_packets}.")
        if isinstance(indices, Iterable):
            return self._read(_streams(indices, self.num_streams), num_packets, duration, single=False)
        wanted = {check_int("indices", 0 if indices is None else indices, least=0)}
        return self._read(wanted, num_packets, duration, single=True)

    def has_audio(self) -> bool:
        """Return whether there is an audio stream."""
        return self._native.best_stream(True) is not None  # noqa: FBT003 - native functions have no keywords here.

    @property
    def audio_stream_index(self) -> int:
        """The index of the main audio stream. RuntimeError if the file has none."""
        return best_stream(self._native, audio=True)

    @property
    def video_stream_index(self) -> int:
        """The index of the main video stream. RuntimeError if the file has none."""
        return best_stream(self._native, audio=False)

    @property
    def audio_codec(self) -> AudioCodec:
        """The main audio stream's own description."""
        codec = self._native.codec(self.audio_stream_index)
        assert isinstance(codec, native.AudioCodec)
        return codec

    @property
    def video_codec(self) -> VideoCodec:
        """The main video stream's own description."""
        codec = self._native.codec(self.video_stream_index)
        assert isinstance(codec, native.VideoCodec)
        return codec

    @property
    def image_codec(self) -> ImageCodec:
        """The image's own description, if the file is an image."""
        return demux_image(self._image(), demux_config=self._demux_config).codec

    @property
    def num_streams(self) -> int:
        """The number of streams, including other kinds than audio and video."""
        return self._native.num_streams()

    @property
    def duration(self) -> float | None:
        """The duration of the file in seconds, as it says; None if it does not."""
        return self._native.duration()

    def close(self) -> None:
        """Close the file. Its packets remain."""
        self._native.close()

    def native(self) -> NativeDemuxer:
        """Return the native object, for what is built on demuxers. It may take the file over."""
        return self._native

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _demux(self, index: int, window: Sequence[Seconds] | None, bsf: str | None) -> Any:
        packets = self._native.demux(index, *parse_window("window", window))
        return packets if bsf is None else apply_bsf(packets, bsf)

    def _read(self, wanted: set[int], num_packets: int, duration: float, *, single: bool) -> Iterator[Any]:
        generation = self._native.select(wanted)
        while (piece := self._native.read_some(generation, num_packets, duration)) is not None:
            yield next(iter(piece.values())) if single else piece

    def _image(self) -> Any:
        if self._image_input is None:
            msg = "an open file cannot be read as an image here: pass its content, or pass the file to demux_image"
            raise TypeError(msg)
        return self._image_input


def demux_audio(
    src: ImageInput,
    *,
    timestamp: Sequence[Seconds] | None = None,
    demux_config: DemuxConfig | None = None,
    bsf: str | None = None,
    name: str | None = None,
) -> AudioPackets:
    """Return the packets of the main audio stream of a file.

    Args:
        src: A path, the bytes of a file (read in place), or an open binary file.
        timestamp: The moments ``(start, end)`` in seconds: from the start on, up to before the end. Each is a number, a
            ``Fraction``, a ``Decimal`` or a str such as ``"1/3"``, and may be infinite. None is the
            whole stream. Times are the file's own, which need not begin at 0.
        demux_config: How FFmpeg reads; see `demux_config`.
        bsf: Bit-stream filters to apply, in FFmpeg's syntax.
        name: The file's name in errors. The default is the path, or the number of bytes.

    Returns:
        The packets, which `decode_packets` consumes.

    Raises:
        RuntimeError: If the file cannot be read, or has no audio. The message names it and quotes FFmpeg.
        TypeError: If `src` is not an input, or another argument has the wrong type.
        ValueError: If the window is empty (also an `IndexError`).

    Example:
        >>> packets = demux_audio(sound, timestamp=(0, "1/2"))
        >>> packets.sample_rate, packets.timestamp
        (8000, (0.0, 0.5))
    """
    with Demuxer(src, demux_config=demux_config, name=name) as demuxer:
        return demuxer.demux_audio(timestamp, bsf=bsf)


def demux_video(
    src: ImageInput,
    *,
    timestamp: Sequence[Seconds] | None = None,
    demux_config: DemuxConfig | None = None,
    bsf: str | None = None,
    name: str | None = None,
) -> VideoPackets:
    """Return the packets of the main video stream of a file.

    The packets begin with the last key frame from which the window can be decoded.

    Args:
        src, timestamp, demux_config, bsf, name: As for `demux_audio`.

    Returns:
        The packets, which `decode_packets` consumes.

    Raises:
        Exception: The errors of `demux_audio`, also if the file has no video.

    Example:
        >>> packets = demux_video(clip, timestamp=(0, 0.2))
        >>> len(packets), packets.width, packets.height
        (5, 64, 48)
    """
    with Demuxer(src, demux_config=demux_config, name=name) as demuxer:
        return demuxer.demux_video(timestamp, bsf=bsf)


def _streams(indices: Iterable[int], count: int) -> set[int]:
    """Return the streams, up to the first that there is not; the file says then that it has none."""
    wanted: set[int] = set()
    for i, index in enumerate(indices):
        if i > _MOST_STREAMS:
            refuse(ValueError, "indices", f"at most {_MOST_STREAMS} streams", indices)
        wanted.add(check_int(f"indices[{i}]", index, least=0, most=2**31 - 1))
        if index >= count:
            break
    if not wanted:
        refuse(ValueError, "indices", "at least one stream", indices)
    return wanted


_MOST_STREAMS = 100_000


_FIRST_WITH_BUFFERS = 5


def reduce_packets(packets: ImagePackets | AudioPackets | VideoPackets, protocol: int) -> tuple[Any, ...]:
    """Return the value of ``__reduce_ex__``. From protocol 5 on, the content may travel outside the pickle."""
    content: Any = packets._serialize()  # noqa: SLF001 - it is ours.
    kept = PickleBuffer(content) if protocol >= _FIRST_WITH_BUFFERS else content.tobytes()
    return restore_packets, (type(packets).__name__, kept)


def restore_packets(kind: str, content: Any) -> ImagePackets | AudioPackets | VideoPackets:
    """Return the packets in pickled content, in place. Other content is a RuntimeError or a ValueError."""
    for each in (native.ImagePackets, native.AudioPackets, native.VideoPackets):
        if each.__name__ == kind:
            return each.deserialize_view(content)
    raise ValueError(f"a pickle names packets of the kind {kind!r}, which do not exist: it was damaged on its way")
