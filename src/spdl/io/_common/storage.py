"""Memory to be used again and again: a storage of ours, or an array of the caller's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import check_flag, check_int, refuse
from spdl.io._common.native import native
from spdl.io._device.gpu_count import count_gpus

if TYPE_CHECKING:
    from spdl.io._native import CPUStorage

Storage: TypeAlias = "CPUStorage | Any"
"""A `CPUStorage`, or a writable, contiguous array of the caller's: anything with the buffer protocol (NumPy arrays,
shared memory, ``bytearray``), or a PyTorch tensor in main memory."""

_MAX_SIZE = sys.maxsize
_FORMATS = {"uint8": "B", "float16": "e", "float32": "f"}  # Those of the struct module.


def cpu_storage(size: int, pin_memory: bool = True) -> CPUStorage:  # noqa: FBT001, FBT002 - the reference's signature.
    """Set memory aside that `convert_frames` and `load_image_batch` can make their arrays in.

    An array keeps its part of the storage as long as it, or a view of it, lives. What is made meanwhile gets memory of
    its own, of the same size and kind, which the storage keeps for later: so any number of threads can share one, none
    ever waits, and no array is written over. A loader needs as many such parts as it has batches under way.

    `transfer_buffer` returns when its copy has finished. A copy that another library leaves under way, as PyTorch's
    ``tensor.to(device, non_blocking=True)`` does, the storage knows nothing of: keep the array until that has finished,
    or the next one may be made in its place while it is read.

    Args:
        size: The size in bytes.
        pin_memory: Whether to lock the pages, so that a GPU copies from them by itself: `transfer_buffer` then needs
            no copy in between. It takes the driver milliseconds, once for each part. Without a GPU, pass False.

    Returns:
        The storage, not initialised. Arrays keep their part of it alive.

    Raises:
        RuntimeError: If pinned memory is asked for and there is no GPU or too little memory to lock, or if the size is
            more than the machine has.
        TypeError: If `size` is not an integer.
        ValueError: If `size` is not positive, or no address space could hold it.

    Example:
        >>> storage = cpu_storage(4 * 224 * 224 * 3, pin_memory=False)
        >>> load_image_batch([photo] * 4, width=224, height=224, storage=storage).shape
        (4, 224, 224, 3)
    """
    size = check_int("size", size, least=1, most=_MAX_SIZE)
    pin_memory = check_flag("pin_memory", pin_memory)
    if pin_memory:
        count_gpus("Pinned memory", "Without one, pass pin_memory=False.")
    return native.CPUStorage(size, pin_memory)


def resolve_storage(storage: Storage | None, shape: tuple[int, ...] | None, dtype: str) -> Any:
    """Bring it into the form that native code takes: None, a storage, or an object with a writable buffer.

    Args:
        storage: What the caller gave.
        shape: What the caller's array has to have room for, unless it is flat; None where that is not known.
        dtype: What its elements have to be, unless they are single bytes.

    Raises:
        TypeError: If it is none of these.
        ValueError: If it cannot be written to, or is of another shape or dtype.
    """
    if storage is None or isinstance(storage, native.CPUStorage):
        return storage
    array: Any = storage
    if type(storage).__module__.partition(".")[0] == "torch":
        # Shows its memory by no other protocol that would let it be written to.
        array = array.numpy()
    try:
        view = memoryview(array)
    except TypeError:
        accepted = "a CPUStorage, as `cpu_storage` returns, a writable array, or None"
        refuse(TypeError, "storage", accepted, storage)
    with view:
        if view.readonly or not view.c_contiguous:
            reason = f"It is {'read-only' if view.readonly else 'not contiguous'}."
            refuse(ValueError, "storage", "a contiguous array that can be written to", storage, reason)
        flat_bytes = view.ndim == 1 and view.itemsize == 1
        if not flat_bytes and view.format != _FORMATS[dtype]:
            reason = f"Its elements are of the struct format {view.format!r}."
            refuse(ValueError, "storage", f"an array of {dtype}, or of bytes", storage, reason)
        if view.ndim != 1:
            _check_shape(view.shape, shape)
    return array


def _check_shape(given: tuple[int, ...] | None, shape: tuple[int, ...] | None) -> None:
    if shape is None:
        remedy = "Give both `width` and `height`, or a one-dimensional array."
        refuse(ValueError, "storage", "flat where the size of the images is not known", given, remedy)
    if given is None or len(given) != len(shape) or given[1:] != shape[1:] or given[0] < shape[0]:
        refuse(ValueError, "storage", f"flat, or of the shape {shape}, or of a longer first side", given)
