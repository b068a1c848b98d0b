"""A batch of archives, from their bytes to one array for each key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from spdl._check import check_int
from spdl.io._array.array_input import ArrayInput, map_input, name_file
from spdl.io._array.npz import MAX_UNCOMPRESSED_BYTES, to_budget
from spdl.io._common.format_error import FormatError
from spdl.io._common.inputs import list_inputs
from spdl.io._common.native import native

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

_MAX_THREADS = 1024

# How messages say which of the archives it is.
_WHICH = re.compile(r"srcs\[(\d+)\]")


def load_npz_batch(
    srcs: Iterable[ArrayInput],
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
        FormatError: If an archive is damaged or refused, or differs from the first; the message has its path if it has
            one, its index and the member.
        OSError: If a file cannot be mapped.
        TypeError: If `srcs` is a single input, one of them is neither a path nor bytes, or a number is no int.
        ValueError: If `srcs` is empty, `num_threads` is out of range, or `max_uncompressed_bytes` is negative.

    Example:
        >>> file = io.BytesIO()
        >>> save_npz(file, {"image": np.zeros((4, 5), np.uint8), "label": np.array(7)})
        >>> batch = load_npz_batch([file.getvalue()] * 3)
        >>> batch["image"].shape, batch["label"]
        ((3, 4, 5), array([7, 7, 7]))
    """
    given = list_inputs(srcs, "load_npz_batch")
    threads = check_int("num_threads", num_threads, least=1, most=_MAX_THREADS)
    budget = to_budget(max_uncompressed_bytes)
    inputs = [map_input(each, "srcs", index) for index, each in enumerate(given)]
    try:
        return native.load_npz_batch(inputs, threads, budget, verify)
    except FormatError as error:
        if which := _WHICH.match(str(error)):
            name_file(error, given[int(which[1])])
        raise
