"""Memory for arrays that is used again and again: our own storage, or an array that the caller gives."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import check_flag, check_int, refuse
from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.io._native import CPUStorage


def count_gpus(purpose: str, remedy: str) -> int:
    """Return how many GPUs this process sees. If none, raise a RuntimeError with the cause and a remedy."""
    try:
        return native.cuda_device_count()
    except RuntimeError as error:
        raise RuntimeError(f"{purpose} needs a GPU. {error}. {remedy}") from None


Storage: TypeAlias = "CPUStorage | Any"
"""A `CPUStorage`, or a writable, contiguous array that the caller owns: one with the buffer protocol (NumPy, shared
memory, ``bytearray``), or a PyTorch tensor in main memory."""

_FORMATS = {
    "uint8": "B",
    "uint16": "H",
    "int16": "h",
    "int32": "i",
    "int64": "l",
    "float16": "e",
    "float32": "f",
}  # Formats of the struct module.


def cpu_storage(size: int, pin_memory: bool = True) -> CPUStorage:  # noqa: FBT001, FBT002 - the reference's signature.
    """Reserve memory in which `convert_frames` and `load_image_batch` can make their arrays.

    An array occupies a block of the storage for as long as the array, or a view of it, lives. An array that is made in
    the meantime gets another block of the same size and kind, which the storage keeps for later. So any number of
    threads can share a storage, none of them ever waits, and no array is overwritten. A loader needs as many blocks as
    it has batches under way.

    `transfer_buffer` returns when its copy has finished. Other libraries may return earlier, as PyTorch's
    ``tensor.to(device, non_blocking=True)`` does, and the storage knows nothing about such copies. Keep the array until
    the copy has finished, or the next array may be written to the same memory while the copy reads it.

    Args:
        size: The size in bytes.
        pin_memory: Whether to lock the pages, so that a GPU can copy from them by itself. `transfer_buffer` then needs
            no intermediate copy. Locking takes the driver milliseconds, once for each block. Without a GPU, pass False.

    Returns:
        The storage, not initialised. Arrays keep their block of it alive.

    Raises:
        RuntimeError: If pinned memory is requested and there is no GPU or too little memory to lock, or if the size
            exceeds the machine's memory.
        TypeError: If `size` is not an integer or `pin_memory` not a bool.
        ValueError: If `size` is not positive, or too large for any address space.

    Example:
        >>> storage = cpu_storage(4 * 224 * 224 * 3, pin_memory=False)
        >>> load_image_batch([photo] * 4, width=224, height=224, storage=storage).shape
        (4, 224, 224, 3)
    """
    size = check_int("size", size, least=1, most=sys.maxsize)
    pin_memory = check_flag("pin_memory", pin_memory)
    if pin_memory:
        count_gpus("Pinned memory", "Without one, pass pin_memory=False.")
    return native.CPUStorage(size, pin_memory)


def resolve_storage(storage: Storage | None, shape: tuple[int, ...] | None, dtype: str | None) -> Any:
    """Return the storage as native code takes it: None, a `CPUStorage`, or an object with a writable buffer.

    A caller's array must have the dtype, and room for the shape, unless it is flat or of bytes. These are None where
    they are not known yet.
    """
    if storage is None or isinstance(storage, native.CPUStorage):
        return storage
    array: Any = storage
    if type(storage).__module__.partition(".")[0] == "torch":
        # A tensor shows writable memory by no other protocol.
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
        if not flat_bytes and dtype is None:
            refuse(ValueError, "storage", "a one-dimensional array of bytes, where the array has any type", storage)
        if not flat_bytes and dtype is not None and view.format != _FORMATS[dtype]:
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
