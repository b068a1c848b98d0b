"""Bit-stream filters, which change packets without decoding them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from spdl._check import check_flag, check_instance
from spdl.io._common.native import native
from spdl.io._image.config import check_ffmpeg_text

if TYPE_CHECKING:
    from spdl.io._native import AudioCodec, AudioPackets, VideoCodec, VideoPackets

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
        """Return the packets that the filters held back, or None; the filters then begin again.

        Raises:
            RuntimeError: If a filter fails.
        """
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
        RuntimeError: If there is no such filter, it does not take the codec, or it fails. The message quotes FFmpeg.
        TypeError: If `packets` are not packets of audio or video, or were consumed before.
        ValueError: If `bsf` holds a null character.

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
