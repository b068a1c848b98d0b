"""Rows of Arrow tables: taken by their numbers, and tables put one below the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from spdl.io._shared import take_lists, take_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Larger tables have offsets that do not fit into 32 bits.
LARGEST = 1 << 30

Room: TypeAlias = "NDArray[Any] | None"
"""Memory for the rows of some groups, one after the other: an array with an element for each."""


def join_tables(tables: list[Any], room: Room = None) -> Any:
    """Return tables one below the other as one whose columns are in one piece, and empty the list.

    A column is freed as soon as it is joined, so only one of them is in memory twice. One in `room` stays there.
    """
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    schema = tables[0].schema
    parts = [list(table.columns) for table in tables]
    tables.clear()
    joined = []
    for number, field in enumerate(schema):
        chunks = [chunk for part in parts for chunk in part[number].chunks]
        for part in parts:
            part[number] = None
        column = _in_place(chunks, field.type, room) or pa.chunked_array(chunks, type=field.type)
        del chunks
        joined.append(pa.Table.from_arrays([column], names=[""]).combine_chunks().column(0))
    return pa.Table.from_arrays(joined, schema=schema)


def _in_place(chunks: list[Any], kind: Any, room: Room) -> Any | None:
    """Return a column whose pieces fill the beginning of `room`; None for others."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    if room is None or not pa.types.is_fixed_size_binary(kind) or kind.byte_width != room.itemsize:
        return None
    place = begin = room.ctypes.data
    for chunk in chunks:
        if chunk.buffers()[1].address + chunk.offset * room.itemsize != place:
            return None
        place += len(chunk) * room.itemsize
    count = (place - begin) // room.itemsize
    return pa.chunked_array([pa.FixedSizeBinaryArray.from_buffers(kind, count, [None, pa.py_buffer(room)])])


def take(table: Any, rows: NDArray[np.int64]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    rows = np.ascontiguousarray(rows)
    wanted = pa.array(rows)
    columns = [_take_column(column, rows, wanted) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _take_column(column: Any, rows: NDArray[np.int64], wanted: Any) -> Any:
    """Return what ``column.take`` does, in half of the time for records of fixed size and lists of plain values."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    types, kind = pa.types, column.type
    found = None
    if column.num_chunks == 1 and not column.null_count:
        if types.is_fixed_size_binary(kind) and kind.byte_width:
            found = _take_records(column.chunk(0), rows)
        elif types.is_list(kind) or types.is_large_list(kind):
            found = _take_lists(column.chunk(0), rows)
    return column.take(wanted) if found is None else found


def _take_records(array: Any, rows: NDArray[np.int64]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    width = array.type.byte_width
    begin = array.offset * width
    values = np.frombuffer(array.buffers()[1], np.uint8)[begin : begin + len(array) * width]
    found = take_rows(values.reshape(-1, width), rows)
    return type(array).from_buffers(array.type, rows.size, [None, pa.py_buffer(found)])


def _take_lists(array: Any, rows: NDArray[np.int64]) -> Any | None:
    """Return some lists; None if they are too many or their values are not plain."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    values = array.values
    plain = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if not plain or values.null_count or not len(values):
        return None
    width = values.type.bit_width // 8
    content = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :][: len(values) * width]
    offsets = np.asarray(array.offsets)
    found = take_lists(offsets, content.reshape(-1, width), rows, LARGEST)
    if found is None:
        return None
    buffers = [None, pa.py_buffer(found[1])]
    taken = pa.Array.from_buffers(values.type, len(found[1]), buffers)
    return type(array).from_arrays(pa.array(found[0].astype(offsets.dtype, copy=False)), taken, type=array.type)
