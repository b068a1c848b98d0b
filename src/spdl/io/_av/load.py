"""Frames of every medium as one contiguous array, and the way to it from one input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, overload

from spdl._check import check_instance, refuse, refuse_masked
from spdl.io._av.decoder import decode_packets
from spdl.io._av.demuxer import demux_audio, demux_video
from spdl.io._av.filters import DEFAULT, FilterDesc
from spdl.io._common.native import native
from spdl.io._common.storage import Storage, resolve_storage
from spdl.io._device.transfer import check_device_config, transfer_buffer
from spdl.io._image.image import convert_image_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._av.time_window import Seconds
    from spdl.io._device.cuda import CUDAConfig
    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._image.image import ImageInput
    from spdl.io._native import AudioFrames, CPUBuffer, CUDABuffer, ImageFrames, VideoFrames

    Frames: TypeAlias = ImageFrames | AudioFrames | VideoFrames


class _Options(TypedDict, total=False):
    """The options that the type of the result does not depend on."""

    demux_config: DemuxConfig | None
    decode_config: DecodeConfig | None
    filter_desc: FilterDesc
    name: str | None


@overload
def load_audio(
    src: ImageInput,
    timestamp: Sequence[Seconds] | None = None,
    *,
    device_config: None = None,
    **options: Unpack[_Options],
) -> CPUBuffer: ...
@overload
def load_audio(
    src: ImageInput,
    timestamp: Sequence[Seconds] | None = None,
    *,
    device_config: CUDAConfig,
    **options: Unpack[_Options],
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
        demux_config, decode_config: How FFmpeg reads, and how to decode; see `demux_config` and `decode_config`.
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
    device_config: None = None,
    **options: Unpack[_Options],
) -> CPUBuffer: ...
@overload
def load_video(
    src: ImageInput,
    timestamp: Sequence[Seconds] | None = None,
    *,
    device_config: CUDAConfig,
    **options: Unpack[_Options],
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
        src, timestamp, demux_config, decode_config, device_config, name: As for `load_audio`.
        filter_desc: The filters in FFmpeg's syntax, as `get_video_filter_desc` writes them. The default gives 8-bit
            RGB in the video's own size. None keeps the stored pixel format.

    Returns:
        The pictures, with their own memory: by default uint8 (frames, H, W, 3). `convert_frames` describes the
        shapes of other formats. With a `device_config` they are on the GPU, in a `CUDABuffer`.

    Raises:
        Exception: The errors of `load_audio`.

    Example:
        >>> load_video(clip, timestamp=(0, 0.2)).shape
        (5, 48, 64, 3)
    """
    check_device_config(device_config)
    packets = demux_video(src, timestamp=timestamp, demux_config=demux_config, name=name)
    buffer = convert_frames(decode_packets(packets, filter_desc, decode_config))
    return buffer if device_config is None else transfer_buffer(buffer, device_config=device_config)


_ACCEPTED = "frames, as `decode_packets` returns, or a list of them"


def convert_frames(
    frames: Frames | Sequence[ImageFrames] | Sequence[AudioFrames] | Sequence[VideoFrames],
    storage: Storage | None = None,
) -> CPUBuffer:
    """Write decoded images into one contiguous array.

    Args:
        frames: The frames of one image, or a sequence (a list or tuple) of frames of one size and pixel format. They
            are consumed, even if this fails: to use them again, convert ``frames.clone()``.
        storage: The memory for the array: a `cpu_storage`, or a writable, flat array of bytes that the caller owns, as
            `spdl.pipeline.shared_storage` returns. None allocates new memory.

    Returns:
        The array: (H, W, C) for packed pixel formats such as rgb24 and gray of any depth, (C, H, W) for planar ones,
        (1, rows, W) if chroma is subsampled (for yuv420p, rows is H * 3 / 2). A sequence adds one axis in front. The
        elements are uint8, or uint16 and float32 for deeper formats. One image of a packed format is not copied if its
        memory is not shared, its rows have no gaps, and no storage is given.

    Raises:
        RuntimeError: If the storage is too small, the sequence is empty, sizes or formats differ, or the pixel format
            makes no array (palettes, single bits, odd sides of a subsampled format).
        TypeError: If `frames` are not frames or were consumed before, or `storage` is not a storage.
        ValueError: If `storage` is not a flat array of bytes, or read-only.

    Example:
        >>> frames = [decode_packets(demux_image(photo)) for _ in range(4)]
        >>> convert_frames(frames).shape
        (4, 375, 500, 3)
    """
    memory = resolve_storage(storage, None, None)
    if isinstance(frames, native.ImageFrames):
        return convert_image_frames(frames, memory)
    if isinstance(frames, (native.AudioFrames, native.VideoFrames)):
        return native.convert_av(frames, memory)
    if not isinstance(frames, Iterable):
        refuse(TypeError, "frames", _ACCEPTED, frames)
    kinds = (native.ImageFrames, native.AudioFrames, native.VideoFrames)
    batch: list[Any] = []
    for i, item in enumerate(frames):
        # Before the rest is taken: an iterable may be longer than memory.
        check_instance(f"frames[{i}]", item, kinds, _ACCEPTED)
        batch.append(item)
    if not batch:
        refuse(RuntimeError, "frames", "a sequence of at least one image, sound or video", batch)
    kind = type(batch[0])
    if kind is native.ImageFrames:
        return convert_image_frames(batch, memory)
    for i, item in enumerate(batch):
        check_instance(f"frames[{i}]", item, kind, f"{kind.__name__}, as the first is")
    return native.convert_av_batch(batch, memory)


def convert_array(vals: Any, storage: Storage | None = None) -> CPUBuffer:
    """Copy integers, such as labels or lengths, into an int64 buffer.

    Args:
        vals: An array, a tensor or a sequence of ints of any shape. All must fit in 64 bits.
        storage: The memory for the array, as for `convert_frames`.

    Returns:
        A copy of the integers as int64, of the same shape, in its own memory or in the storage.

    Raises:
        RuntimeError: If the storage is too small.
        TypeError: If `vals` are not integers, or `storage` is not a storage.
        ValueError: If an integer does not fit, or `storage` is not a flat array of bytes, or is read-only.

    Example:
        >>> convert_array([3, 1, 4])
        CPUBuffer(shape=(3,), dtype=int64)
    """
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    memory = resolve_storage(storage, None, None)
    accepted = "integers, as an array or a sequence of one shape"
    refuse_masked("vals", vals)
    try:
        array = np.asarray(vals)
    except ValueError:
        refuse(TypeError, "vals", accepted, vals)
    if array.size == 0 and isinstance(vals, (list, tuple)):
        array = array.astype(np.int64)  # NumPy takes an empty list for floats.
    if array.dtype == object and all(isinstance(each, int) for each in array.flat):
        refuse(ValueError, "vals", "integers that fit in 64 bits", vals)
    if array.dtype.kind not in "iu":
        refuse(TypeError, "vals", accepted, vals)
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        refuse(ValueError, "vals", "integers that fit in 64 bits", vals)
    # In one order of bytes, so that native code can copy them.
    shape = array.shape
    return native.copy_int64(np.ascontiguousarray(array, np.int64).reshape(-1).view(np.uint8), shape, memory)
