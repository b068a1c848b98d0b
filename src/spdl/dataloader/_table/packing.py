"""Columns of numbers side by side in memory, so that a row is in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spdl.dataloader._table.columns import Column, Scalars
from spdl.io._shared import pack_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A name that no column can have.
_PACKED = "\0"
_NULLS = "\0nulls"


class Packing:
    """Keeps columns of numbers as one column of records.

    A row in a random place costs a cache miss for each column. In one record, it is one miss or two for all of them.

    Args:
        columns: The columns. Those without numbers stay unchanged.

    Attributes:
        beside: How many bytes of a record are not values.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        packed = [column for column in columns if isinstance(column, Scalars)]
        # The widest come first, so all are aligned.
        self._columns = sorted(packed, key=lambda column: -column.dtype.itemsize)
        # By numbers: numpy changes some names.
        fields: list[tuple[Any, ...]] = [(str(number), each.dtype) for number, each in enumerate(self._columns)]
        flags = (len(fields) + 7) // 8
        values = sum(column.dtype.itemsize for column in packed)
        size = values + flags
        self._record = np.dtype([*fields, (_NULLS, np.uint8, (flags + -size % 8,))])
        self.beside = self._record.itemsize - values

    def make_room(self, count: int) -> NDArray[Any] | None:
        """Return zeros for that many records; None if there are no columns of numbers."""
        return np.zeros(count, self._record) if self._columns else None

    def pack(self, columns: Mapping[str, Any], count: int, room: NDArray[Any] | None) -> Any:
        """Return a table in which all columns of numbers are one column of records.

        Args:
            columns: The columns by their names, as they are kept.
            count: How many rows they have.
            room: Zeros for as many records, which these are written into.
        """
        own = {column.name for column in self._columns}
        rest = {name: array for name, array in columns.items() if name not in own}
        if not self._columns:
            return pa.table(rest)
        records = room if room is not None and room.size == count else np.zeros(count, self._record)
        values = [column.view(columns[column.name]) for column in self._columns]
        if count:
            fields = self._record.fields
            assert fields is not None
            pack_columns(
                [(array, fields[str(number)][1]) for number, array in enumerate(values)],
                records.view(np.uint8).reshape(count, -1),
            )
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
        return {column.name: np.ascontiguousarray(records[str(number)]) for number, column in enumerate(self._columns)}

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

    def _records(self, kept: Mapping[str, Any]) -> NDArray[Any]:
        array = kept[_PACKED]
        buffer = array.buffers()[1]
        if not len(array):
            return np.empty(0, self._record)
        return np.frombuffer(buffer, self._record, len(array), array.offset * self._record.itemsize)
