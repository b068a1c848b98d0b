"""Writing of files of audio and video."""

from __future__ import annotations

import os
import weakref
from typing import IO, TYPE_CHECKING, Self, TypeAlias, overload

from spdl._check import check_instance, check_int, refuse
from spdl._files import NewFile
from spdl.io._av.encoder import AudioEncodeConfig, AudioEncoder, VideoEncodeConfig, VideoEncoder
from spdl.io._common.native import native
from spdl.io._image.config import check_ffmpeg_text, copy_ffmpeg_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from spdl.io._native import AudioCodec, AudioPackets, VideoCodec, VideoPackets
    from spdl.io._native import Muxer as NativeMuxer

    MediaTarget: TypeAlias = str | os.PathLike[str] | IO[bytes]

_UNKNOWN_RATE = (0, 1)


class Muxer:
    """A file of audio and video that is being written.

    Add all streams, open the file with ``with muxer.open():``, and write the packets of each stream. A file under a
    path appears when it is complete, and replaces an older one. If something fails, or the ``with`` block ends with an
    exception, the older one stays and no new file appears. Data that was written to an open file stays there, without
    its end.

    Any number of threads may use a muxer; one at a time writes, without the GIL.

    Args:
        dst: A path, or a binary file that is open for writing. It is written from its position on, and must stay open.
            Some formats need a ``seek``, MP4 among them; a file that was opened to append has none. You may move the
            position in the meantime; at the end it is after the written data.
        format: The file format by FFmpeg's name, such as ``"mp4"``, ``"matroska"`` or ``"wav"``. None takes the format
            of the path's suffix; an open file needs one.

    Raises:
        RuntimeError: If there is no such format, or it is not one of single files.
        TypeError: If `dst` is neither a path nor a file.
        ValueError: If an open file has no `format`, or a string holds a null character.

    Example:
        >>> file = io.BytesIO()
        >>> packets = demux_video(clip)
        >>> muxer = Muxer(file, format="matroska")
        >>> muxer.add_remux_stream(packets.codec)
        >>> with muxer.open():
        ...     muxer.write(0, packets)
        >>> len(demux_video(file.getvalue()))
        25
    """

    def __init__(self, dst: MediaTarget, /, *, format: str | None = None) -> None:  # noqa: A002 - FFmpeg's word.
        if format is not None:
            check_ffmpeg_text("format", format)
        self._dst = os.fsdecode(dst) if isinstance(dst, (str, os.PathLike)) else dst
        if isinstance(self._dst, str):
            check_ffmpeg_text("dst", self._dst)
            name = repr(self._dst)
        else:
            if not hasattr(dst, "write"):
                refuse(TypeError, "dst", "a path (str or os.PathLike) or a binary file open for writing", dst)
            if format is None:
                refuse(ValueError, "format", "a file format, since an open file has no suffix that names one", format)
            name = str(getattr(dst, "name", None) or f"a {type(dst).__name__}")
        self._native: NativeMuxer = native.Muxer(name, format or "", self._dst if isinstance(self._dst, str) else "")
        self._encoders: list[AudioEncoder | VideoEncoder | None] = []
        self._file: NewFile | None = None
        self._discard: weakref.finalize[..., Muxer] | None = None

    @overload
    def add_encode_stream(
        self, config: AudioEncodeConfig, *, encoder: str | None = None, encoder_config: Mapping[str, str] | None = None
    ) -> AudioEncoder: ...
    @overload
    def add_encode_stream(
        self, config: VideoEncodeConfig, *, encoder: str | None = None, encoder_config: Mapping[str, str] | None = None
    ) -> VideoEncoder: ...
    def add_encode_stream(
        self,
        config: AudioEncodeConfig | VideoEncodeConfig,
        *,
        encoder: str | None = None,
        encoder_config: Mapping[str, str] | None = None,
    ) -> AudioEncoder | VideoEncoder:
        """Add a stream that is encoded here. Its index is the number of streams that were added before.

        Args:
            config: Describes the frames to come; see `video_encode_config` and `audio_encode_config`.
            encoder: An encoder by FFmpeg's name. None takes the usual one of the file format: for MP4, H.264 if the
                FFmpeg in use can encode it in software, otherwise MPEG-4. A WAV file holds the unchanged samples.
            encoder_config: Options of the encoder, with values as text, such as ``{"preset": "veryfast"}``. It runs in
                the calling thread, unless ``threads`` is among them.

        Returns:
            The encoder. Pass the packets that it returns to `write`. Packets that it still holds back when the muxer is
            closed are written then.

        Raises:
            RuntimeError: If there is no such encoder, the format cannot hold what it makes, or it does not take such
                frames. The message says what there is, and quotes FFmpeg.
            TypeError, ValueError: If an argument has the wrong type, or a string holds a null character.
        """
        accepted = "a configuration, as `video_encode_config` or `audio_encode_config` returns"
        check_instance("config", config, (AudioEncodeConfig, VideoEncodeConfig), accepted)
        if encoder is not None:
            check_ffmpeg_text("encoder", encoder)
        options = list((copy_ffmpeg_options("encoder_config", encoder_config) or {}).items())
        made: AudioEncoder | VideoEncoder
        if isinstance(config, AudioEncodeConfig):
            made = AudioEncoder(
                self._native.add_audio_encoder(
                    encoder or "",
                    options,
                    config.num_channels,
                    config.sample_rate,
                    config.sample_fmt,
                    config.bit_rate,
                    config.compression_level,
                    config.qscale,
                )
            )
        else:
            made = VideoEncoder(
                self._native.add_video_encoder(
                    encoder or "",
                    options,
                    config.width,
                    config.height,
                    config.frame_rate or _UNKNOWN_RATE,  # type: ignore[arg-type]
                    config.pix_fmt,
                    config.bit_rate,
                    config.compression_level,
                    config.qscale,
                    config.gop_size,
                    config.max_b_frames,
                    config.colorspace or "",
                    config.color_primaries or "",
                    config.color_trc or "",
                )
            )
        self._encoders.append(made)
        return made

    def add_remux_stream(self, codec: AudioCodec | VideoCodec) -> None:
        """Add a stream of packets that are written unchanged. Its index is the number of streams before it.

        Args:
            codec: Describes the packets, as ``packets.codec`` or `Demuxer.video_codec` describes it.

        Raises:
            RuntimeError: If the file format cannot hold such packets, or the muxer is open.
            TypeError: If `codec` is not a codec of audio or video.
        """
        check_instance("codec", codec, (native.AudioCodec, native.VideoCodec), "an AudioCodec or VideoCodec")
        self._native.add_remux(codec)
        self._encoders.append(None)

    def open(self, muxer_config: Mapping[str, str] | None = None) -> Self:
        """Write the beginning of the file.

        Args:
            muxer_config: Options of FFmpeg's muxer, with values as text, such as ``{"movflags": "+faststart"}``.

        Returns:
            The muxer itself, as a context manager that closes it.

        Raises:
            RuntimeError: If the file cannot be made or has no streams, an option is wrong, or the muxer was opened
                before. The message quotes the system or FFmpeg.
            TypeError, ValueError: If `muxer_config` is not a mapping of strings, or a string holds a null character.
        """
        options = list((copy_ffmpeg_options("muxer_config", muxer_config) or {}).items())
        if not isinstance(self._dst, str):
            self._native.open_file(self._dst, options)
            return self
        self._native.check_new()
        try:
            file = NewFile(self._dst)
        except OSError as error:
            raise _not_written(self._dst, error) from None
        try:
            self._native.open_descriptor(file.descriptor, options)
        except BaseException:
            file.discard()
            raise
        self._file = file
        self._discard = weakref.finalize(self, _discard, self._native, file)
        return self

    def write(self, stream_index: int, packets: AudioPackets | VideoPackets) -> None:
        """Write packets of one stream.

        The file holds packets in the order of their times, so they may be kept until the packets of other streams have
        come.

        Args:
            stream_index: The stream: 0 is the one that was added first.
            packets: The packets, all of them, also those before the window. They are not consumed.

        Raises:
            RuntimeError: If there is no such stream, it is of another codec, the muxer is not open, or the packets
                cannot be written. The message quotes FFmpeg.
            TypeError: If `packets` are not packets of audio or video, or were consumed before.
            ValueError: If `stream_index` is negative.
        """
        index = check_int("stream_index", stream_index, least=0, most=2**31 - 1)
        accepted = "packets, as an encoder, `demux_audio` or `demux_video` returns"
        check_instance("packets", packets, (native.AudioPackets, native.VideoPackets), accepted)
        self._native.write(index, packets)

    def flush(self) -> None:
        """Write all packets that wait for others. RuntimeError if the muxer is not open, or the file not writable."""
        self._native.flush()

    def close(self) -> None:
        """Write what the encoders hold back, and the end of the file, which is then complete.

        Does nothing if the muxer was closed before; if it was not opened, no file is made.

        Raises:
            RuntimeError: If an encoder fails, or the file cannot be written. No new file is made then.
        """
        try:
            if self._native.is_open():
                for index, encoder in enumerate(self._encoders):
                    rest = None if encoder is None else encoder.flush()
                    if rest is not None:
                        self._native.write(index, rest)
                self._native.close()
                if self._file is not None:
                    try:
                        self._file.complete()
                    except OSError as error:
                        raise _not_written(str(self._dst), error) from None
        finally:
            self._abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is None:
            self.close()
        else:
            self._abandon()

    def _abandon(self) -> None:
        self._native.abandon()
        if self._discard is not None:
            self._discard()


def _not_written(path: str, error: OSError) -> RuntimeError:
    # As errors while the file is written, and as in spdl 0.8.0.
    return RuntimeError(f"{path!r}: cannot write the file: {error.strerror}")


def _discard(muxer: NativeMuxer, file: NewFile) -> None:
    # In this order: the muxer must not write to a descriptor that by then is another file's.
    muxer.abandon()
    file.discard()
