"""Memory for items that are about to leave a worker process, so that they need not be copied on the way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spdl._check import check_int

if TYPE_CHECKING:
    from spdl.pipeline._elsewhere.lane_writer import LaneWriter


class _Here:
    """The lane for the items of this process, if it is a worker."""

    writer: LaneWriter | None = None


def serve_storage(writer: LaneWriter) -> None:
    """Let `shared_storage` take memory from the lane by which items leave this process."""
    _Here.writer = writer


def _forget() -> None:
    # Nothing of a forked process leaves by that lane. Of the memory that it would take there, the worker knows nothing.
    _Here.writer = None


os.register_at_fork(after_in_child=_forget)


def shared_storage(size: int) -> memoryview:
    """Return memory for an item that will leave this process, if there is a process for it to leave.

    In a worker process, the memory is shared with the process that receives the items. An array that lies in it, as a
    whole or in part, crosses without being copied. So give it as ``storage`` to `spdl.io.load_image_batch` and its
    relatives, which then decode into shared memory, or make arrays in it, as by ``numpy.frombuffer``. In any other
    process, the memory is ordinary. So a stage works the same wherever it runs.

    An item that was sent belongs to its receiver: do not write to it any more. The memory is used again when nothing
    refers to it, here and there.

    Args:
        size: Bytes.

    Returns:
        Writable memory, not initialised.

    Raises:
        TypeError, ValueError: If ``size`` is not a positive int.
        OSError: If the system does not have that much memory.

    Example:
        >>> import numpy as np
        >>> from spdl.pipeline import iterate_in_subprocess, shared_storage
        >>> def make():
        ...     for number in range(3):
        ...         array = np.frombuffer(shared_storage(8000), np.float64)
        ...         array[:] = number
        ...         yield array
        >>> items = iterate_in_subprocess(lambda: make(), mp_context="fork")
        >>> [float(array.sum()) for array in items]
        [0.0, 1000.0, 2000.0]
        >>> items.close()
    """
    size = check_int("size", size, least=1)
    writer = _Here.writer
    return memoryview(bytearray(size)) if writer is None else writer.lend(size)
