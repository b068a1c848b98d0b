"""A batch of archives, from their bytes to one array for each key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.io._array_source import ArraySource, resolve
from spdl.io._lazy import native
from spdl.io._npz import MAX_UNCOMPRESSED_BYTES

if TYPE_CHECKING:
    import numpy as np

_MAX_THREADS = 1024


def load_npz_batch(
    srcs: Iterable[ArraySource],
    *,
    num_threads: int = 1,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
    verify: bool = False,
) -> dict[str, np.ndarray[Any, Any]]:
    """Load .npz files with the same members into one array for each key.

    Each member is copied or inflated straight into its row, without the GIL from the first to the last.

    Args:
        srcs: The archives, as bytes or paths; see `load_npz`. They must have the same keys, and under each of them
            arrays of the same dtype, shape and order.
        num_threads: How many threads inflate, the calling one among them.
        max_uncompressed_bytes: How many bytes the compressed members of one archive may have together.
        verify: Whether to compare the checksum of stored members, too.

    Returns:
        By key an array (N, ...) with memory of its own: row `i` is that of ``srcs[i]``. Arrays in Fortran order are so
        within their row.

    Raises:
        FormatError: If an archive is damaged or refused, or differs from the first; the message has its index and
            the member.
        OSError: If a file cannot be mapped.
        TypeError: If `srcs` is a single source, or one of them is neither a path nor bytes.
        ValueError: If `srcs` is empty, or `num_threads` is out of range.

    Example:
        >>> file = io.BytesIO()
        >>> save_npz(file, {"image": np.zeros((4, 5), np.uint8), "label": np.array(7)})
        >>> batch = load_npz_batch([file.getvalue()] * 3)
        >>> batch["image"].shape, batch["label"]
        ((3, 4, 5), array([7, 7, 7]))
    """
    if isinstance(srcs, (str, bytes, bytearray, memoryview)) or not isinstance(srcs, Iterable):
        msg = (
            f"`srcs` must be an iterable of archives, got {type(srcs).__name__}: "
            "for a batch of one, pass a list, as in `load_npz_batch([src])`"
        )
        raise TypeError(msg)
    sources = [resolve(source, f"srcs[{index}]") for index, source in enumerate(srcs)]
    if not sources:
        msg = "`srcs` is empty: a batch needs at least one archive"
        raise ValueError(msg)
    if not 1 <= num_threads <= _MAX_THREADS:
        msg = f"`num_threads` must be from 1 to {_MAX_THREADS}, got {num_threads}"
        raise ValueError(msg)
    return native.load_npz_batch(sources, num_threads, max_uncompressed_bytes, verify)
