"""Conversion of frames of every medium, and of integers, to one contiguous array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import check_instance, refuse
from spdl.io._common.native import native
from spdl.io._common.storage import Storage, resolve_storage
from spdl.io._image.decode import convert_image_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._native import AudioFrames, CPUBuffer, ImageFrames, VideoFrames

    Frames: TypeAlias = ImageFrames | AudioFrames | VideoFrames

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
        storage: The memory for the array: a `cpu_storage`, or a writable, flat array of bytes that the caller owns, as
            `spdl.pipeline.shared_storage` returns. None allocates new memory.

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
