"""Encoding of frames piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import check_instance
from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.io._native import AudioEncoder as NativeAudioEncoder
    from spdl.io._native import AudioFrames, AudioPackets, VideoFrames, VideoPackets
    from spdl.io._native import VideoEncoder as NativeVideoEncoder


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
