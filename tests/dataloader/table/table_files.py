"""Tables of any schema that a loader takes, in files, and what their columns become by rules written again here."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import strategies as st

from spdl.dataloader import Jagged, TableBatch

if TYPE_CHECKING:
    from pathlib import Path

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

__all__ = ["TYPES", "expected_rows", "rows_in", "tables", "write_numbers", "write_tables"]

_NUMBERS = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.float32(), pa.float64()]
_NUMBERS += [pa.bool_(), pa.timestamp("us"), pa.timestamp("ms", tz="UTC"), pa.date32(), pa.date64(), pa.time32("ms")]
_NUMBERS += [pa.time64("us"), pa.duration("ns"), pa.decimal128(12, 3), pa.decimal256(40, 2)]
_TEXT = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
TYPES = [*_NUMBERS, *_TEXT, pa.binary(), pa.large_binary(), pa.binary(3)]
TYPES += [
    make(kind) for kind in (pa.int32(), pa.float64(), pa.bool_(), pa.string()) for make in (pa.list_, pa.large_list)
]
TYPES += [pa.list_(pa.float32(), 3), pa.list_(pa.int64(), 1)]


def _integers(kind: Any) -> st.SearchStrategy[int]:
    limits = np.iinfo(kind.to_pandas_dtype())
    return st.integers(int(limits.min), int(limits.max))


def _lists(kind: Any, least: int, most: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(values(kind.value_type), min_size=least, max_size=most)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of a type; times as the numbers of their units."""
    types = pa.types
    # Files have whole days, and times of one day.
    unit = 86_400_000 if types.is_date64(kind) else 1
    ways: list[tuple[Any, Any]] = [
        (types.is_boolean, st.booleans),
        (types.is_decimal, lambda: st.decimals(-1000, 1000, places=kind.scale)),
        (types.is_integer, lambda: _integers(kind)),
        (types.is_floating, lambda: st.floats(width=kind.bit_width, allow_nan=False)),
        (types.is_temporal, lambda: st.integers(0, 1000).map(lambda number: number * unit)),
        (types.is_fixed_size_binary, lambda: st.binary(min_size=3, max_size=3)),
        (lambda kind: types.is_binary(kind) or types.is_large_binary(kind), lambda: st.binary(max_size=4)),
        (types.is_fixed_size_list, lambda: _lists(kind, kind.list_size, kind.list_size)),
        (lambda kind: types.is_list(kind) or types.is_large_list(kind), lambda: _lists(kind, 0, 4)),
    ]
    draw = next((draw for test, draw in ways if test(kind)), None)
    return st.sampled_from(["", "a", "b", "é", "long " * 20]) if draw is None else draw()


@st.composite
def tables(draw: st.DrawFn, *, with_nulls: bool = True, least: int = 1) -> tuple[list[Any], list[int]]:
    """Draw tables of one schema, for a file each, and the sizes of their row groups."""
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    names = draw(
        st.lists(
            st.sampled_from(["a", "a.b", "é", "index", "keys", ""]),
            unique=True,
            min_size=len(kinds),
            max_size=len(kinds),
        )
    )
    count = draw(st.integers(1, 3))
    found = []
    for number in range(count):
        rows = draw(st.integers(least if not number else 0, 12))
        columns = [_column(draw, kind, rows, with_nulls=with_nulls) for kind in kinds]
        found.append(pa.Table.from_arrays(columns, names=names))
    return found, draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))


def _column(draw: st.DrawFn, kind: Any, rows: int, *, with_nulls: bool) -> Any:
    each = values(kind) if not with_nulls else st.none() | values(kind)
    drawn = draw(st.lists(each, min_size=rows, max_size=rows))
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(drawn, width).view(kind)
    return pa.array(drawn, kind)


def expected_rows(column: Any) -> list[Any]:
    """Return the rows of a column as Python has them, by the rules of the loader; None for nulls."""
    kind = column.type
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return [each for chunk in column.chunks for each in chunk.view(width).to_pylist()]
    rows: list[Any] = column.to_pylist()
    if pa.types.is_decimal(kind):
        return [None if each is None else float(each) for each in rows]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return [None if each is None else list(each) for each in rows]
    return rows


def rows_in(batch: TableBatch, name: str, dictionary: Any) -> list[Any]:
    """Return the rows of a column of a batch in the same form."""
    value = batch[name]
    mask = batch.masks.get(name)
    is_text = dictionary is not None
    if isinstance(value, Jagged):
        flat = _plain(value.values)
        flat = dictionary.take(pa.array(flat, pa.int32())).to_pylist() if is_text else flat
        bounds = _plain(value.offsets)
        assert bounds[0] == 0
        assert bounds[-1] == len(flat)
        rows = [flat[first:end] for first, end in pairwise(bounds)]
        assert list(map(len, rows)) == _plain(value.lengths)
    elif is_text:
        codes = _plain(value)
        rows = [None if code < 0 else dictionary[code].as_py() for code in codes]
    else:
        rows = _plain(value)
    if mask is None:
        return rows
    return [row if is_there else None for row, is_there in zip(rows, _plain(mask), strict=True)]


def _plain(value: Any) -> list[Any]:
    found: list[Any] = value.tolist()
    return found


def write_tables(folder: Path, found: list[Any], sizes: list[int]) -> Any:
    """Write the tables to files, and return all of them as pyarrow reads them."""
    for number, (table, size) in enumerate(zip(found, sizes, strict=True)):
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=size)
    read = [pq.read_table(folder / f"{number}.parquet") for number in range(len(found))]
    return pa.concat_tables(read)


def write_numbers(folder: Path, count: int = 100, group: int = 7, files: int = 2) -> None:
    """Write files of rows ``n``, ``square``, ``tags`` (as many as n modulo 3) and ``kind`` (n modulo 5 as text)."""
    bounds = np.linspace(0, count, files + 1).astype(int).tolist()
    for number, (first, end) in enumerate(pairwise(bounds)):
        rows = range(first, end)
        table = pa.table(
            {
                "n": rows,
                "square": [float(n * n) for n in rows],
                "tags": pa.array([[n] * (n % 3) for n in rows], pa.list_(pa.int32())),
                "kind": [f"kind {n % 5}" for n in rows],
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group)
