"""Memory to be used again and again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spdl.io._arguments import check_integer, check_type
from spdl.io._lazy import native

if TYPE_CHECKING:
    from spdl.io._native import CPUStorage

_MAX_SIZE = sys.maxsize


def cpu_storage(size: int, pin_memory: bool = True) -> CPUStorage:  # noqa: FBT001, FBT002 - the reference's signature.
    """Set memory aside that `convert_frames` and `load_image_batch` can make their arrays in.

    An array keeps its part of the storage as long as it, or a view of it, lives. What is made meanwhile gets memory of
    its own, of the same size and kind, which the storage keeps for later: so any number of threads can share one, none
    ever waits, and no array is written over. A loader needs as many such parts as it has batches under way.

    Args:
        size: The size in bytes.
        pin_memory: Whether to lock the pages, for transfers to a GPU. This build has no CUDA: pass False.

    Returns:
        The storage, not initialised. Arrays keep their part of it alive.

    Raises:
        RuntimeError: If pinned memory is asked for, or more than the machine has.
        TypeError: If `size` is not an integer.
        ValueError: If `size` is not positive, or no address space could hold it.

    Example:
        >>> storage = cpu_storage(4 * 224 * 224 * 3, pin_memory=False)
        >>> load_image_batch([photo] * 4, width=224, height=224, storage=storage).shape
        (4, 224, 224, 3)
    """
    if pin_memory:
        msg = "pinned memory needs CUDA, which this build does not have: pass pin_memory=False"
        raise RuntimeError(msg)
    return native.CPUStorage(check_integer("size", size, _MAX_SIZE, "bytes"))


def check_storage(storage: CPUStorage | None) -> None:
    """Raise TypeError for anything but a storage and None."""
    if storage is not None:
        check_type("storage", storage, native.CPUStorage, "a CPUStorage, as `cpu_storage` returns, or None")
