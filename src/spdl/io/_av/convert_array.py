"""Integers as an array of the package's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import refuse
from spdl.io._common.native import native
from spdl.io._common.storage import Storage, resolve_storage

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer


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
