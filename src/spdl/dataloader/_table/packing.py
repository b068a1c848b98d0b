"""Columns of numbers side by side in memory, so that a row is in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spdl.dataloader._table.columns import Codes, Numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 8192
# A name that no column can have.
_PACKED = "\0"
_NULLS = "\0nulls"


class Packing:
    """Keeps columns of numbers as one column of records.

    A row in a random place costs a cache miss for each column. In one record, it is one miss or two for all of them.

    Args:
        columns: The columns.
    """

    def __init__(self, columns: Sequence[Numbers | Codes]) -> None:
        self._columns = list(columns)
        # The widest come first, so all are aligned.
        ordered = sorted(columns, key=lambda column: -column.dtype.itemsize)
        fields: list[tuple[Any, ...]] = [(column.name, column.dtype) for column in ordered]
        fields.append((_NULLS, np.uint8, ((len(fields) + 7) // 8,)))
        size = np.dtype(fields).itemsize
        names, formats = [each[0] for each in fields], [each[1:] if len(each) > 2 else each[1] for each in fields]  # noqa: PLR2004
        plain = np.dtype(fields)
        offsets = [plain.fields[name][1] for name in names] if plain.fields else []
        self._record = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": -(-size // 8) * 8})

    def pack(self, columns: Mapping[str, Any], count: int) -> Any:
        """Return a table of columns of which those of numbers are one.

        Args:
            columns: The columns by their names, as they are kept.
            count: How many rows they have.
        """
        rest = {name: array for name, array in columns.items() if name not in self._names()}
        if not self._columns:
            return pa.table(rest)
        records = np.zeros(count, self._record)
        values = {column.name: column.to_numpy(columns[column.name]) for column in self._columns}
        # A block of records stays in the cache until all columns are written.
        for start in range(0, count, _BLOCK):
            block = records[start : start + _BLOCK]
            for name, array in values.items():
                block[name] = array[start : start + _BLOCK]
        for number, column in enumerate(self._columns):
            if columns[column.name].null_count:
                nulls = np.asarray(columns[column.name].is_null())
                records[_NULLS][:, number // 8] |= nulls.astype(np.uint8) << (number % 8)
        buffers = [None, pa.py_buffer(records)]
        packed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(self._record.itemsize), count, buffers)
        return pa.table({_PACKED: packed, **rest})

    def unpack(self, kept: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Return the columns of numbers of some rows."""
        if not self._columns:
            return {}
        records = self._records(kept)
        return {column.name: np.ascontiguousarray(records[column.name]) for column in self._columns}

    def find_nulls(self, kept: Mapping[str, Any]) -> dict[str, NDArray[np.bool_]]:
        """Return which rows are null, of all columns in which some are."""
        found = {
            name: np.asarray(array.is_null()) for name, array in kept.items() if name != _PACKED and array.null_count
        }
        if self._columns:
            flags = self._records(kept)[_NULLS]
            if flags.any():
                for number, column in enumerate(self._columns):
                    nulls = (flags[:, number // 8] >> (number % 8) & 1).astype(bool)
                    if nulls.any():
                        found[column.name] = nulls
        return found

    def _names(self) -> set[str]:
        return {column.name for column in self._columns}

    def _records(self, kept: Mapping[str, Any]) -> NDArray[Any]:
        array = kept[_PACKED]
        buffer = array.buffers()[1]
        if not len(array):
            return np.empty(0, self._record)
        return np.frombuffer(buffer, self._record, len(array), array.offset * self._record.itemsize)
