"""Pickling of buffers, by protocol 5 without a copy of their content."""

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

from spdl.io._array.arrays import to_numpy
from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.io._common.errors import LoadFailure
    from spdl.io._native import CPUBuffer

_FIRST_WITH_BUFFERS = 5


def reduce_buffer(buffer: "CPUBuffer", protocol: int) -> tuple[Any, ...]:
    """Return the value of `CPUBuffer.__reduce_ex__`. From protocol 5 on, the content may travel outside the pickle."""
    array: Any = to_numpy(buffer)
    content = PickleBuffer(array) if protocol >= _FIRST_WITH_BUFFERS else array.tobytes()
    return restore_buffer, (content, buffer.shape, buffer.dtype, buffer.failures)


def restore_buffer(
    content: Any, shape: tuple[int, ...], dtype: str, failures: "tuple[LoadFailure, ...]"
) -> "CPUBuffer":
    """Make a buffer from pickled content, in place if that is writable.

    Raises:
        ValueError: If the content does not fit the shape, or there is no such dtype.
    """
    buffer = native.adopt(content, shape, dtype)
    buffer._set_failures(failures)  # noqa: SLF001 - it is ours.
    return buffer
