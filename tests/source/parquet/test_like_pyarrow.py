"""Random Parquet files, read as pyarrow reads them, and what damage becomes."""

from __future__ import annotations

import datetime as dt
import random
import re
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from spdl.io import FormatError
from spdl.source import ParquetFiles
from spdl.store import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

# Names with dots look like those of nested columns.
_NAMES = ["a", "a.b", "b", "c", "a.b.c", "é", "x y"]
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


@pytest.mark.parametrize("seed", range(60))
def test_random_files(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    schema = pa.schema([(name, draw_type(rng)) for name in rng.sample(_NAMES, rng.randrange(1, 6))])
    try:
        rows = [row for part in range(2) for row in write(tmp_path / f"{part}.parquet", rng, schema)]
    except NotImplementedError as error:
        pytest.skip(f"pyarrow cannot: {error}")
    columns = None if rng.random() < 0.5 else rng.sample(schema.names, rng.randrange(1, len(schema) + 1))
    rows = [{name: row[name] for name in columns or schema.names} for row in rows]
    ways: list[dict[str, Any]] = [{}, {"store": LocalStore(tmp_path)}]
    for options in ways:
        pattern: Any = "{0..1}.parquet" if options else tmp_path / "{0..1}.parquet"
        if not rows:
            with pytest.raises(ValueError, match="files with rows in them"):
                ParquetFiles(pattern, columns=columns, **options)
            continue
        files = ParquetFiles(pattern, columns=columns, prefetch_bytes=rng.choice([0, 500, 1 << 20]), **options)
        assert [list(row.items()) for row in files] == [list(row.items()) for row in rows]
        begin = rng.randrange(len(rows))
        assert list(files.iterate_from(begin)) == rows[begin:]
        assert all(len(table) for table in files.tables_from(begin))
        positions = [rng.randrange(len(rows)) for _ in range(10)]
        assert files.__getitems__(positions) == [rows[position] for position in positions]


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_one_kind_of_error(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.parquet"
    write(path, rng, pa.schema([(name, draw_type(rng)) for name in "abc"]))
    sound = path.read_bytes()
    for _ in range(20):
        spoilt = bytearray(sound)
        if rng.random() < 0.2:
            del spoilt[rng.randrange(len(spoilt)) :]
        else:
            # Most of a small file is its footer.
            first = rng.choice([0, max(len(spoilt) - 800, 0)])
            for _ in range(rng.choice([1, 1, 5])):
                spoilt[rng.randrange(first, len(spoilt))] = rng.randrange(256)
        path.write_bytes(spoilt)
        with pytest.raises(ValueError, match=r"a\.parquet|whole") as caught:  # noqa: PT012 - most damage is noticed.
            list(ParquetFiles(path))
            raise ValueError("whole")
        # The number of rows may be what is damaged.
        assert isinstance(caught.value, FormatError) or re.search("whole|files with rows in them", str(caught.value))


def test_checksums_of_pages_are_verified(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    content = {"a": [b"x" * 1000]}
    pq.write_table(
        pa.table(content),
        path,
        compression="none",
        write_statistics=False,
        use_dictionary=False,
        write_page_checksum=True,
    )
    spoilt = bytearray(path.read_bytes())
    spoilt[spoilt.index(b"x" * 1000) + 500] = ord("y")
    path.write_bytes(spoilt)
    with pytest.raises(FormatError, match=r"a\.parquet, row group 0, is damaged: .*(CRC|checksum)"):
        ParquetFiles(path)[0]


def test_a_file_that_was_written_anew_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for replace in (False, True):
        pq.write_table(pa.table({"a": range(100)}), path, row_group_size=10)
        files = ParquetFiles(path, prefetch_bytes=0)
        assert files[0] == {"a": 0}
        target = tmp_path / "other" if replace else path
        pq.write_table(pa.table({"a": range(1000, 1200)}), target, row_group_size=20)
        target.rename(path)
        for read in (lambda files=files: files[50], lambda files=files: list(files)):
            with pytest.raises(FormatError, match=r"a\.parquet was written again since .*: make the source again"):
                read()


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"])
    pq.write_table(table, path)
    for columns in (None, ["a"]):
        with pytest.raises(FormatError, match=r"a\.parquet has 2 columns 'a', and a record has one value"):
            ParquetFiles(path, columns=columns)
    assert ParquetFiles(path, columns=["b"])[0] == {"b": 3}


def test_text_that_is_none_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"x\xff"))
    pq.write_table(pa.table({"a": text, "b": [1, 2]}), path)
    files = ParquetFiles(path)
    for read in (lambda: files[1], lambda: list(files)):
        with pytest.raises(FormatError, match=r"a\.parquet, in the rows from [01] on: 'utf-8' codec .*: `tables_from`"):
            read()
    assert ParquetFiles(path, columns=["b"])[1] == {"b": 2}
    with suppress(StopIteration):
        assert next(files.tables_from(0)).num_rows == 2
