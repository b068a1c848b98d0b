"""A collation as PyTorch's default one, which is faster where items hold small arrays."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data._utils.collate import collate, collate_numpy_array_fn, default_collate, default_collate_fn_map

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["in_this_process"]

# Arrays of more bytes are left to PyTorch: it copies them once, and here they are copied twice.
_MOST_BYTES = 1 << 14


def in_this_process(collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what makes the same batches without a process in between: PyTorch's default collation is replaced."""
    return _collate if collate_fn is default_collate else collate_fn


def _collate(items: Any) -> Any:
    # Users may change the map at any time.
    functions = {**default_collate_fn_map}
    if functions.get(np.ndarray) is collate_numpy_array_fn:
        functions[np.ndarray] = _collate_arrays
    return collate(items, collate_fn_map=functions)


def _collate_arrays(arrays: Any, *, collate_fn_map: Any = None) -> Any:
    """Return a tensor of arrays, without one for each of them: PyTorch gives up the GIL each time, and waits for it."""
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    alike = 0 < first.nbytes <= _MOST_BYTES and dtype.kind in "biufc"
    alike = alike and all(
        type(it) is np.ndarray and it.shape == shape and it.dtype == dtype and it.flags.c_contiguous for it in arrays
    )
    # PyTorch decides on the type and the device, and refuses what it refuses.
    one = torch.as_tensor(first) if alike else None
    if one is None or one.device.type != "cpu":
        return collate_numpy_array_fn(arrays, collate_fn_map=collate_fn_map)
    batch = one.new_empty((len(arrays), *shape))
    # A tensor whose memory numpy has seen could not be made larger any more.
    ctypes.memmove(batch.data_ptr(), b"".join(arrays), first.nbytes * len(arrays))
    return batch
