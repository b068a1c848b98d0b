"""Rows of tables and of lists by their numbers, and columns side by side, in native calls without the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.io._common.native import native

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


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
