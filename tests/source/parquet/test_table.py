"""Rows of Parquet files as tables, in any order and filtered, are those that pyarrow takes and filters."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.source.counting_store import CountingStore
from tests.source.parquet.drawn_tables import NAMES, draw_type, write

from spdl.io import FormatError
from spdl.source import BlockShuffledOrder, ParquetFiles
from spdl.store import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pc = pytest.importorskip("pyarrow.compute", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")


def rows_of(table: Any) -> list[dict[str, Any]]:
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*table.to_pydict().values(), strict=True)]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three files of small row groups, whose rows are 0 to 99 and their remainders."""
    folder: Path = tmp_path_factory.mktemp("numbers")
    for number, (first, end, size) in enumerate([(0, 30, 7), (30, 31, 5), (31, 100, 20)]):
        table = pa.table({"n": range(first, end), "rest": [n % 7 for n in range(first, end)]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=size)
    return folder


@pytest.mark.parametrize("seed", range(30))
def test_table_is_what_pyarrow_takes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    schema = pa.schema([(name, draw_type(rng)) for name in rng.sample(NAMES, rng.randrange(1, 6))])
    try:
        rows = [row for part in range(2) for row in write(tmp_path / f"{part}.parquet", rng, schema)]
    except NotImplementedError as error:
        pytest.skip(f"pyarrow cannot: {error}")
    if not rows:
        return
    columns = rng.sample(schema.names, rng.randrange(1, len(schema) + 1))
    limit = rng.choice([0, 500, 1 << 20])
    files = ParquetFiles("{0..1}.parquet", store=LocalStore(tmp_path), prefetch_bytes=limit)
    local = ParquetFiles(tmp_path / "{0..1}.parquet", prefetch_bytes=limit)
    for _ in range(3):
        positions = [rng.randrange(-len(rows), len(rows)) for _ in range(rng.choice([1, 10, 50]))]
        expected = [rows[position] for position in positions]
        for source in (files, local, pickle.loads(pickle.dumps(local))):  # noqa: S301 - our own.
            assert source.table(positions).to_pylist() == expected
        chosen = local.select(columns).table(np.array(positions))
        assert chosen.to_pylist() == [{name: row[name] for name in columns} for row in expected]


def test_table_of_no_positions_has_the_schema(numbers: Path) -> None:
    table = ParquetFiles(numbers / "{0..2}.parquet").table([])
    assert table.equals(pa.table({"n": pa.array([], pa.int64()), "rest": pa.array([], pa.int64())}))


@pytest.mark.parametrize("positions", [[1.5], ["a"], [[1]], [True], np.array([1.0])])
def test_table_refuses_what_is_no_position(numbers: Path, positions: Any) -> None:
    with pytest.raises(TypeError, match="`positions` must be a list or an array of integers"):
        ParquetFiles(numbers / "{0..2}.parquet").table(positions)


@pytest.mark.parametrize("position", [100, -101, 2**40])
def test_table_refuses_positions_outside(numbers: Path, position: int) -> None:
    with pytest.raises(IndexError, match=f"has no position {position}"):
        ParquetFiles(numbers / "{0..2}.parquet").table([0, position])


def test_table_reads_each_row_group_once(numbers: Path) -> None:
    store = CountingStore(numbers)
    files = ParquetFiles("{0..2}.parquet", store=store)
    opened = len(store.requests)
    order = np.random.default_rng(0).permutation(100)
    for positions in order.reshape(10, 10):
        assert files.table(positions)["n"].to_pylist() == positions.tolist()
    assert len(store.requests) - opened == len(files.block_sizes)


def test_table_reads_each_row_group_once_for_many_threads(numbers: Path) -> None:
    store = CountingStore(numbers)
    files = ParquetFiles("{0..2}.parquet", store=store)
    opened = len(store.requests)
    parts = np.random.default_rng(0).permutation(100).reshape(10, 10)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda part: files.table(part)["n"].to_pylist(), parts))
    assert found == parts.tolist()
    assert len(store.requests) - opened == len(files.block_sizes)


MEMORY = """
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spdl.source import BlockShuffledOrder, ParquetFiles

path, size = sys.argv[1], 10_000
pq.write_table(pa.table({"n": np.arange(40 * size)}), path, row_group_size=size)
files = ParquetFiles(path, prefetch_bytes=8 * size * 8)
order = BlockShuffledOrder(len(files), block=files.block_sizes, window=4)
most = pa.total_allocated_bytes() + 8 * size * 8 + 64_000


def check(positions):
    assert files.table(positions)["n"].to_numpy().tolist() == positions.tolist()
    # Arrow's own threads may let go of what they decoded some moments after the table has been handed over.
    deadline = time.monotonic() + 60
    while (found := pa.total_allocated_bytes()) > most:
        assert time.monotonic() < deadline, f"{found:,} bytes stay allocated; expected at most {most:,}"
        time.sleep(0.001)


for start in range(0, 40 * size, 5000):
    check(order.take(0, np.arange(start, start + 5000)))
check(np.random.default_rng(0).permutation(40 * size)[:5000])
"""


def test_table_keeps_no_more_than_its_limit(tmp_path: Path) -> None:
    # In a process of its own: Arrow counts what all tests of this one allocate.
    subprocess.run([sys.executable, "-c", MEMORY, tmp_path / "a.parquet"], check=True, timeout=300)


@pytest.mark.parametrize("fitting", [6, 10, 15, 19])
def test_table_decodes_row_groups_about_once_in_each_epoch(
    fitting: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, size = 20, 500
    pq.write_table(pa.table({"n": np.arange(groups * size)}), tmp_path / "a.parquet", row_group_size=size)
    decoded: list[int] = []
    read_row_groups = pq.ParquetFile.read_row_groups

    def count_groups(self: Any, chosen: list[int], **options: Any) -> Any:
        decoded.extend(chosen)
        return read_row_groups(self, chosen, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", count_groups)
    files = ParquetFiles(tmp_path / "a.parquet", prefetch_bytes=8 * size * fitting)
    order = BlockShuffledOrder(len(files), block=files.block_sizes, window=fitting // 2)
    for epoch in range(4):
        decoded.clear()
        for start in range(0, groups * size, 100):
            positions = order.take(epoch, np.arange(start, start + 100))
            assert files.table(positions)["n"].to_numpy().tolist() == positions.tolist()
        assert len(decoded) <= 1.6 * groups


CONDITIONS = st.sampled_from(
    [
        ([("n", "<", 50)], pc.field("n") < 50),
        ([("rest", "==", 3)], pc.field("rest") == 3),
        ([("n", ">=", 20), ("n", "<", 37)], (pc.field("n") >= 20) & (pc.field("n") < 37)),
        ([[("n", "<", 3)], [("rest", "in", [1, 2])]], (pc.field("n") < 3) | pc.field("rest").isin([1, 2])),
        (pc.field("n") % 2 == 0 if hasattr(pc.Expression, "__mod__") else pc.field("n") > 1, None),
        (pc.field("n") >= 0, None),
    ]
)


@given(CONDITIONS, st.sampled_from(["folder", "store"]), st.randoms(use_true_random=False))
def test_filters_choose_the_rows_that_pyarrow_chooses(
    numbers: Path, condition: tuple[Any, Any], place: str, rng: random.Random
) -> None:
    filters, expression = condition
    paths = [numbers / f"{number}.parquet" for number in range(3)]
    everything = pa.concat_tables([pq.read_table(path) for path in paths])
    expected = everything.filter(filters if expression is None else expression)
    where: dict[str, Any] = {"store": LocalStore(numbers)} if place == "store" else {}
    files = ParquetFiles(["{0..2}.parquet"] if where else paths, filters=filters, columns=["n"], **where)
    wanted = expected["n"].to_pylist()
    assert len(files) == sum(files.block_sizes) == len(wanted)
    assert [row["n"] for row in files] == wanted
    assert [n for table in files.tables_from(3) for n in table["n"].to_pylist()] == wanted[3:]
    positions = [rng.randrange(len(wanted)) for _ in range(20)]
    assert files.table(positions)["n"].to_pylist() == [wanted[position] for position in positions]
    assert [row["n"] for row in files.__getitems__(positions)] == [wanted[position] for position in positions]
    # Their places are those in the files.
    path, group, row = files.locate(positions[0])
    with pq.ParquetFile(numbers / path) as file:
        assert file.read_row_group(group)["n"][row].as_py() == wanted[positions[0]]


def test_filters_leave_row_groups_out_by_their_statistics(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    content = pa.table({"n": range(50), "x": [rng.bytes(10_000) for _ in range(50)]})
    pq.write_table(content, tmp_path / "a.parquet", row_group_size=5, compression="none", use_dictionary=False)
    store = CountingStore(tmp_path)
    files = ParquetFiles("a.parquet", store=store, filters=[("n", "<", 7)])
    assert files.table(range(7))["n"].to_pylist() == list(range(7))
    # Two of the ten row groups, and the footer.
    assert store.bytes_read < (tmp_path / "a.parquet").stat().st_size * 0.5


def test_filters_change_the_fingerprint(numbers: Path) -> None:
    def make(filters: Any) -> str:
        return ParquetFiles(numbers / "{0..2}.parquet", filters=filters).fingerprint()

    assert len({make(None), make([("rest", "==", 0)]), make([("rest", "==", 1)]), make([("rest", "==", 2)])}) == 4
    assert make([("n", "<", 8)]) == make([("n", "<=", 7)])


def test_filters_leave_out_nulls(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, None, 3]}), tmp_path / "a.parquet")
    assert [row["n"] for row in ParquetFiles(tmp_path / "a.parquet", filters=[("n", "!=", 3)])] == [1]


@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        (3, TypeError, "`filters` must be an expression of pyarrow, or a list of tuples"),
        ([("n", "<")], ValueError, "`filters` must be an expression of pyarrow, or a list of tuples"),
        ([("m", "<", 3)], ValueError, r"`filters` must be about columns of .*0\.parquet, which has n: int64"),
        ([("n", "<", "x")], ValueError, "pyarrow says"),
        ([("n", "<", 0)], ValueError, "`filters` must be a condition that some rows fulfil"),
    ],
)
def test_filters_without_sense_are_refused(numbers: Path, filters: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ParquetFiles(numbers / "{0..2}.parquet", filters=filters)


def test_table_refuses_files_of_other_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"n": ["a"]}), tmp_path / "1.parquet")
    files = ParquetFiles(tmp_path / "{0..1}.parquet")
    assert files.table([0])["n"].to_pylist() == [1]
    with pytest.raises(FormatError, match=r"1\.parquet has the column 'n' as string, and .*0\.parquet as int64"):
        files.table([0, 1])


def test_table_joins_dictionaries_that_differ(tmp_path: Path) -> None:
    for number, values in enumerate([["a", "b"], ["c", "a"]]):
        column = pa.array(values).dictionary_encode() if number else pa.array(values)
        pq.write_table(pa.table({"kind": column}), tmp_path / f"{number}.parquet")
    for names in ("{0..1}", "{1..0}"):
        table = ParquetFiles(tmp_path / f"{names}.parquet").table([3, 0, 2, 1])
        assert len(set(table["kind"].to_pylist())) == 3


@pytest.mark.parametrize("seed", range(10))
def test_table_of_a_damaged_file_is_an_error_or_has_its_rows(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.parquet"
    write(path, rng, pa.schema([(name, draw_type(rng)) for name in "abc"]))
    sound = path.read_bytes()
    for _ in range(10):
        spoilt = bytearray(sound)
        for _ in range(rng.choice([1, 1, 5])):
            spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
        path.write_bytes(spoilt)
        try:
            files = ParquetFiles(path)
            assert len(files.table(range(min(len(files), 1000)))) == min(len(files), 1000)
        except ValueError as error:
            assert isinstance(error, FormatError) or "files with rows in them" in str(error)  # noqa: PT017 - either.


def test_select_refuses_columns_that_a_file_lacks(numbers: Path) -> None:
    with pytest.raises(ValueError, match=r"`columns` must be among the columns of .*, which are n, rest, got 'm'"):
        ParquetFiles(numbers / "{0..2}.parquet").select(["m"])
