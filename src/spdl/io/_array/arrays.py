"""Buffers as the arrays of other libraries, and rows of arrays by their numbers, without the GIL."""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from spdl._check import refuse
from spdl._not_here import require
from spdl.io._common.errors import LoadFailure
from spdl.io._common.native import native

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jax
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from spdl.io._native import CPUBuffer


_ACCEPTED = "an object with `__array_interface__` or `__cuda_array_interface__`, such as a CPUBuffer"


@runtime_checkable
class ArrayInterface(Protocol):
    """An object that shows its memory through NumPy's array interface, as `CPUBuffer` does.

    Example:
        >>> isinstance(load_image(photo), ArrayInterface), isinstance(b"bytes", ArrayInterface)
        (True, False)
    """

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


@runtime_checkable
class CUDAArrayInterface(Protocol):
    """An object that shows its memory on a GPU through CUDA's array interface, as `CUDABuffer` does.

    Example:
        >>> isinstance(load_image(photo), CUDAArrayInterface)  # It is in main memory.
        False
    """

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


def to_numpy(buffer: ArrayInterface) -> np.ndarray[Any, Any]:
    """View a buffer as a NumPy array.

    Args:
        buffer: The result of `convert_frames`, `load_image` or `load_image_batch`.

    Returns:
        A writable view with the buffer's shape and dtype. It keeps the memory alive. Nothing is copied.

    Raises:
        RuntimeError: If `buffer` has no ``__array_interface__``.

    Example:
        >>> to_numpy(load_image(photo)).dtype
        dtype('uint8')
    """
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    if not hasattr(buffer, "__array_interface__"):
        on_gpu = hasattr(buffer, "__cuda_array_interface__")
        remedy = "It is on a GPU, from where `transfer_buffer_cpu` copies it." if on_gpu else ""
        refuse(RuntimeError, "buffer", "an object with `__array_interface__`, such as a CPUBuffer", buffer, remedy)
    return np.asarray(buffer)


def to_torch(buffer: ArrayInterface | CUDAArrayInterface) -> torch.Tensor:
    """View a buffer as a PyTorch tensor, on the CPU or on its GPU.

    Args:
        buffer: The result of `convert_frames`, `load_image`, `load_image_batch` or `transfer_buffer`.

    Returns:
        A tensor with the buffer's shape and dtype that shares its memory and keeps it alive. Nothing is copied, so
        writing to one writes to both.

    Raises:
        ImportError: If PyTorch is not installed.
        RuntimeError: If `buffer` has neither ``__array_interface__`` nor ``__cuda_array_interface__``.

    Example:
        >>> to_torch(load_image_batch([photo], width=224, height=224)).permute(0, 3, 1, 2).shape
        torch.Size([1, 3, 224, 224])
    """
    require("torch", "to_torch")
    import torch  # noqa: PLC0415 - an optional dependency.

    if hasattr(buffer, "__dlpack__"):
        return torch.from_dlpack(buffer)
    if isinstance(buffer, CUDAArrayInterface):
        return torch.as_tensor(buffer, device="cuda")
    if not isinstance(buffer, ArrayInterface):
        refuse(RuntimeError, "buffer", _ACCEPTED, buffer)
    return torch.from_numpy(to_numpy(buffer))


def to_numba(buffer: ArrayInterface | CUDAArrayInterface) -> Any:
    """View a buffer as an array for functions that Numba compiled.

    Args:
        buffer: The result of `convert_frames`, `load_image`, `load_image_batch` or `transfer_buffer`.

    Returns:
        A view with the same shape and dtype that keeps the buffer's memory alive: a NumPy array, or on a GPU Numba's
        ``DeviceNDArray``.

    Raises:
        ImportError: If the buffer is on a GPU and Numba is not installed.
        RuntimeError: If `buffer` has neither ``__array_interface__`` nor ``__cuda_array_interface__``.

    Example:
        >>> to_numba(load_image(photo)).shape
        (375, 500, 3)
    """
    if isinstance(buffer, CUDAArrayInterface):
        return require("numba.cuda", "to_numba", extra="numba").as_cuda_array(buffer)
    if not isinstance(buffer, ArrayInterface):
        refuse(RuntimeError, "buffer", _ACCEPTED, buffer)
    return to_numpy(buffer)


def to_jax(buffer: ArrayInterface | CUDAArrayInterface) -> jax.Array:
    """View a buffer as a JAX array, on the CPU or on its GPU.

    Args:
        buffer: The result of `convert_frames`, `load_image`, `load_image_batch` or `transfer_buffer`.

    Returns:
        An array with the buffer's shape and dtype that shares its memory and keeps it alive. JAX assumes that arrays do
        not change, so do not write to the buffer any more. On the CPU, JAX copies memory that is not aligned as it
        needs.

    Raises:
        ImportError: If JAX is not installed.
        RuntimeError: If `buffer` has no ``__dlpack__``.

    Example:
        >>> to_jax(load_image(photo)).shape  # doctest: +SKIP
        (375, 500, 3)
    """
    dlpack = require("jax.dlpack", "to_jax", extra="jax")

    if not hasattr(buffer, "__dlpack__"):
        refuse(RuntimeError, "buffer", "an object with `__dlpack__`, such as a CPUBuffer", buffer)
    array: jax.Array = dlpack.from_dlpack(buffer)
    return array


_FIRST_WITH_BUFFERS = 5


def reduce_buffer(buffer: CPUBuffer, protocol: int) -> tuple[Any, ...]:
    """Return the value of `CPUBuffer.__reduce_ex__`. From protocol 5 on, the content may travel outside the pickle."""
    array: Any = to_numpy(buffer)
    content = PickleBuffer(array) if protocol >= _FIRST_WITH_BUFFERS else array.tobytes()
    return restore_buffer, (content, buffer.shape, buffer.dtype, buffer.failures)


def restore_buffer(content: Any, shape: tuple[int, ...], dtype: str, failures: tuple[LoadFailure, ...]) -> CPUBuffer:
    """Make a buffer from pickled content, in place if that is writable."""
    buffer = native.adopt(content, shape, dtype)
    buffer._set_failures(failures)  # noqa: SLF001 - it is ours.
    return buffer


def take_rows(table: NDArray[np.uint8], rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return rows of a table of bytes, uint8 (N, width), as a new array."""
    import numpy as np  # noqa: PLC0415 - importing spdl.source loads no numpy.

    found = np.empty((rows.size, table.shape[1]), np.uint8)
    native.take_rows(table, rows, found)
    return found


def take_lists(
    offsets: NDArray[Any], values: NDArray[np.uint8], rows: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]] | None:
    """Return some lists one after the other: where each begins and the last one ends, and their values.

    None if they have more values than `most`. The offsets of all lists are int32 or int64, the values uint8 (N, width).
    """
    import numpy as np  # noqa: PLC0415

    places = np.empty(rows.size + 1, np.int64)
    native.take_offsets(offsets, rows, places)
    if places[-1] > most:
        return None
    found = np.empty((int(places[-1]), values.shape[1]), np.uint8)
    native.take_lists(offsets, values, rows, places, found)
    return places, found


def pack_columns(columns: Sequence[tuple[NDArray[Any], int]], records: NDArray[np.uint8]) -> None:
    """Write columns of numbers of 1 to 8 bytes, each with its first byte in a record, to records, uint8 (N, width)."""
    native.pack_columns(list(columns), records)
