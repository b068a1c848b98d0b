"""Random Parquet files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import random
    from pathlib import Path

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

__all__ = ["NAMES", "draw_type", "draw_value", "write"]

# Names with dots look like those of nested columns.
NAMES = ["a", "a.b", "b", "c", "a.b.c", "é", "x y"]
_DAY = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - columns without a zone.


def draw_type(rng: random.Random, depth: int = 0) -> Any:
    simple = [pa.int8(), pa.int64(), pa.float32(), pa.string(), pa.binary(), pa.bool_(), pa.timestamp("us")]
    simple += [pa.dictionary(pa.int32(), pa.string()), pa.date32(), pa.decimal128(10, 2), pa.large_string(), pa.null()]
    if depth == 2 or rng.random() < 0.7:
        return rng.choice(simple)
    inner = draw_type(rng, depth + 1)
    pair = pa.struct([("x", inner), ("y.z", draw_type(rng, depth + 1))])
    return rng.choice([pa.list_(inner), pair, pa.map_(pa.string(), inner), pa.large_list(inner)])


def draw_value(rng: random.Random, kind: Any) -> Any:
    types = pa.types
    if types.is_null(kind) or rng.random() < 0.2:
        return None
    if types.is_map(kind):
        return [(str(key), draw_value(rng, kind.item_type)) for key in range(rng.randrange(3))]
    if types.is_list(kind) or types.is_large_list(kind):
        return [draw_value(rng, kind.value_type) for _ in range(rng.randrange(4))]
    if types.is_struct(kind):
        return {kind.field(each).name: draw_value(rng, kind.field(each).type) for each in range(kind.num_fields)}
    values: list[tuple[Any, Any]] = [
        (types.is_boolean, lambda: rng.random() < 0.5),
        (types.is_integer, lambda: rng.randrange(-100, 100)),
        (types.is_floating, lambda: rng.choice([0.5, -1.0, float("inf")])),
        (types.is_binary, lambda: rng.randbytes(rng.choice([0, 3, 300]))),
        (types.is_timestamp, lambda: _DAY + dt.timedelta(seconds=rng.randrange(10**6))),
        (types.is_date, lambda: _DAY.date() + dt.timedelta(days=rng.randrange(99))),
        (types.is_decimal, lambda: Decimal(rng.randrange(1000)) / 4),
    ]
    return next((draw() for test, draw in values if test(kind)), rng.choice(["", "p", "日本", "x" * 200]))


def write(path: Path, rng: random.Random, schema: Any) -> list[dict[str, Any]]:
    """Write a file with row groups of any size, and return what pyarrow reads of each."""
    options = {
        "compression": rng.choice(["snappy", "zstd", "none", "gzip"]),
        "use_dictionary": rng.random() < 0.5,
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "write_page_checksum": rng.random() < 0.3,
        "store_schema": rng.random() < 0.8,
    }
    with pq.ParquetWriter(path, schema, **options) as writer:
        for _ in range(rng.randrange(1, 6)):
            size = rng.choice([0, 1, 3, 10])
            columns = [pa.array([draw_value(rng, kind) for _ in range(size)], kind) for kind in schema.types]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=max(size, 1))
    with pq.ParquetFile(path) as file:
        groups = [file.read_row_group(number) for number in range(file.num_row_groups)]
    return [row for group in groups for row in group.to_pylist()]
