"""Audio and video: from one input to an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from spdl.io._av.av_filters import DEFAULT, FilterDesc
from spdl.io._av.convert import convert_frames
from spdl.io._av.decoder import decode_packets
from spdl.io._av.demuxer import demux_audio, demux_video
from spdl.io._device.transfer import check_device_config, transfer_buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._av.time_window import Seconds
    from spdl.io._device.cuda_config import CUDAConfig
    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._image.decode import ImageInput
    from spdl.io._native import CPUBuffer, CUDABuffer


@overload
def load_audio(
    src: ImageInput,
    timestamp: Sequence[Seconds] | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: FilterDesc = DEFAULT,
    device_config: None = None,
    name: str | None = None,
) -> CPUBuffer: ...
@overload
def load_audio(
    src: ImageInput,
    timestamp: Sequence[Seconds] | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: FilterDesc = DEFAULT,
    device_config: CUDAConfig,
    name: str | None = None,
) -> CUDABuffer: ...
def load_audio(
    src: ImageInput,
    timestamp: Sequence[Seconds] | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: FilterDesc = DEFAULT,
    device_config: CUDAConfig | None = None,
    name: str | None = None,
) -> CPUBuffer | CUDABuffer:
    """Load the main audio stream of a file: `demux_audio`, `decode_packets` and `convert_frames` in one.

    The window is exact to the sample, whatever the codec, the container and the filters: it is the part of the whole
    sound. Opus, MP2, and AAC with noise substitution, depend on all that came before; a window of them is decoded from
    half a second, or four packets, earlier on. In containers whose times are coarse, such as Matroska and MPEG-TS, the
    packets before the window are counted, too: an `AudioReader` does that once for many windows.

    A file that was cut off is an error, if a packet is cut or the file says its size. Of WAV, AIFF, FLAC, WavPack,
    TTA, AU, CAF, Wave64, ASF and VOC, ``format_options`` of the `demux_config` allow it that set ``err_detect`` to
    ``ignore_err``.
    Data after the sound, such as tags, is left out, and so is a part of a sample at the end. MP3, and streams that end
    between two packets, give what exists: they do not say how long they are, or not exactly.

    Args:
        src: A path, the bytes of a file, or an open binary file.
        timestamp: The moments ``(start, end)`` in seconds, as for `demux_audio`. None is the whole stream.
        demux_config: How FFmpeg reads; see `demux_config`.
        decode_config: How to decode; see `decode_config`.
        filter_desc: The filters in FFmpeg's syntax, as `get_audio_filter_desc` writes them. The default converts to
            32-bit floats. None keeps the stored sample format.
        device_config: The GPU to copy the result to; see `cuda_config` and `transfer_buffer`. None leaves it in main
            memory.
        name: The file's name in errors. The default is the path, or the number of bytes.

    Returns:
        The sound, with its own memory: by default float32 of the shape (channels, samples). Sample formats without a
        plane for each channel, such as s16, give (samples, channels). The array may be empty, if the filters leave no
        samples, as a resampler may do with a few. With a `device_config` it is on the GPU, in a `CUDABuffer`.

    Raises:
        RuntimeError: If the file cannot be read or decoded, has no such stream, has nothing within the window, or CUDA
            reports an error.
        TypeError: If `src` is not an input, or another argument has the wrong type.
        ValueError: If the window is empty (also an `IndexError`), or `filter_desc` holds a null character.

    Example:
        >>> load_audio(sound, timestamp=(0, 0.5)).shape
        (1, 4000)
    """
    check_device_config(device_config)
    packets = demux_audio(src, timestamp=timestamp, demux_config=demux_config, name=name)
    buffer = convert_frames(decode_packets(packets, filter_desc, decode_config))
    return buffer if device_config is None else transfer_buffer(buffer, device_config=device_config)


@overload
def load_video(
    src: ImageInput,
    timestamp: Sequence[Seconds] | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: FilterDesc = DEFAULT,
    device_config: None = None,
    name: str | None = None,
) -> CPUBuffer: ...
@overload
def load_video(
    src: ImageInput,
    timestamp: Sequence[Seconds] | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: FilterDesc = DEFAULT,
    device_config: CUDAConfig,
    name: str | None = None,
) -> CUDABuffer: ...
def load_video(
    src: ImageInput,
    timestamp: Sequence[Seconds] | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: FilterDesc = DEFAULT,
    device_config: CUDAConfig | None = None,
    name: str | None = None,
) -> CPUBuffer | CUDABuffer:
    """Load the main video stream of a file: `demux_video`, `decode_packets` and `convert_frames` in one.

    The pictures are the ones shown from the start of the window on, and before its end. If a file does not say when
    each is shown, as one that was copied from AVI or from a stream without a container, the k-th has the k-th of the
    times, and a window takes as long as decoding all before it.

    A file that was cut off is an error if that is detectable: a packet is not whole, or the container says that more
    should follow. A window that ends before that place can be read, and a `VideoReader` has all frames before it.

    Args:
        src: A path, the bytes of a file, or an open binary file.
        timestamp: The moments ``(start, end)`` in seconds, as for `demux_video`. None is the whole stream.
        demux_config: How FFmpeg reads; see `demux_config`.
        decode_config: How to decode; see `decode_config`.
        filter_desc: The filters in FFmpeg's syntax, as `get_video_filter_desc` writes them. The default gives 8-bit
            RGB in the video's own size. None keeps the stored pixel format.
        device_config: The GPU to copy the result to; see `cuda_config` and `transfer_buffer`. None leaves it in main
            memory.
        name: The file's name in errors. The default is the path, or the number of bytes.

    Returns:
        The pictures, with their own memory: by default uint8 (frames, H, W, 3). `convert_frames` describes the
        shapes of other formats. With a `device_config` they are on the GPU, in a `CUDABuffer`.

    Raises:
        RuntimeError: If the file cannot be read or decoded, has no such stream, has nothing within the window, or CUDA
            reports an error.
        TypeError: If `src` is not an input, or another argument has the wrong type.
        ValueError: If the window is empty (also an `IndexError`), or `filter_desc` holds a null character.

    Example:
        >>> load_video(clip, timestamp=(0, 0.2)).shape
        (5, 48, 64, 3)
    """
    check_device_config(device_config)
    packets = demux_video(src, timestamp=timestamp, demux_config=demux_config, name=name)
    buffer = convert_frames(decode_packets(packets, filter_desc, decode_config))
    return buffer if device_config is None else transfer_buffer(buffer, device_config=device_config)
