"""Random Parquet files, read as pyarrow reads them, and what damage becomes."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.source.parquet.drawn_tables import NAMES, draw_type, write

from spdl.io import FormatError
from spdl.source import ParquetFiles
from spdl.store import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")


@pytest.mark.parametrize("seed", range(60))
def test_random_files(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    schema = pa.schema([(name, draw_type(rng)) for name in rng.sample(NAMES, rng.randrange(1, 6))])
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
