"""Batches of archives: one array for each key."""

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

# How native messages name an archive.
_WHICH = re.compile(r"srcs\[(\d+)\]")


def load_npz_batch(
    srcs: Iterable[ArrayInput],
    *,
    num_threads: int = 1,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
    verify: bool = False,
) -> dict[str, np.ndarray[Any, Any]]:
    """Load .npz files with the same members into one array for each key.

    Each member is copied or inflated straight into its row. The GIL is released for the whole batch.

    Args:
        srcs: The archives, as bytes or paths; see `load_npz`. They must have the same keys, and for each key arrays of
            the same dtype, shape and memory order.
        num_threads: How many threads inflate, including the calling one.
        max_uncompressed_bytes: The most bytes that the compressed members of one archive may have together when
            inflated.
        verify: Whether to check stored members against their checksums too.

    Returns:
        For each key an array (N, ...) with memory of its own, whose row `i` comes from ``srcs[i]``. Arrays in Fortran
        order keep that order within their row.

    Raises:
        FormatError: If an archive is damaged or refused, or differs from the first. The message has its index, the
            member, and its path if it has one.
        OSError: If a file cannot be mapped.
        TypeError: If `srcs` is a single input, an input is neither a path nor bytes, or a number is no int.
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
