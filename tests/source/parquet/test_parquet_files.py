"""Rows of Parquet files by their positions, with pyarrow as the oracle."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.source.counting_store import CountingStore

from spdl.dataloader import DataLoader
from spdl.io import FormatError
from spdl.pipeline import PipelineBuilder
from spdl.source import BlockShuffledOrder, EpochSampler, ParquetFiles
from spdl.store import LocalStore
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Buffer

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

COUNTS = (10, 0, 7)


def make_table(part: int, count: int) -> Any:
    return pa.table(
        {
            "text": pa.array([f"{part}-{number}" for number in range(count)], pa.string()),
            "number": pa.array(range(count), pa.int32()),
            "data": pa.array([bytes([number]) * 1000 for number in range(count)], pa.binary()),
            "nested": pa.array(
                [{"a": number, "list": [number] * number} for number in range(count)],
                pa.struct([("a", pa.int64()), ("list", pa.list_(pa.int64()))]),
            ),
            "maybe": pa.array([None if number % 3 else 0.5 for number in range(count)], pa.float64()),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part, count in enumerate(COUNTS):
        pq.write_table(make_table(part, count), tmp_path / f"{part}.parquet", row_group_size=3)
    return tmp_path


def rows(columns: list[str] | None = None) -> list[dict[str, Any]]:
    table = pa.concat_tables([make_table(part, count) for part, count in enumerate(COUNTS)])
    found: list[dict[str, Any]] = (table if columns is None else table.select(columns)).to_pylist()
    return found


def each_way(folder: Path, **options: Any) -> list[ParquetFiles]:
    return [
        ParquetFiles(folder / "{0..2}.parquet", **options),
        ParquetFiles("{0..2}.parquet", store=CountingStore(folder), **options),
    ]


@pytest.mark.parametrize("prefetch_bytes", [0, 3000, 1 << 27])
@pytest.mark.parametrize("columns", [None, ["nested", "text"], ["maybe"]])
def test_the_rows_are_those_of_pyarrow(folder: Path, columns: list[str] | None, prefetch_bytes: int) -> None:
    expected = rows(columns)
    for files in each_way(folder, columns=columns, prefetch_bytes=prefetch_bytes):
        assert len(files) == 17
        assert list(files) == expected
        assert [files[position] for position in range(16, -1, -1)] == expected[::-1]
        assert files.__getitems__([16, 0, 5, 5, -7]) == [expected[position] for position in (16, 0, 5, 5, 10)]
        for position in range(18):
            assert list(files.iterate_from(position)) == expected[position:]
            tables = list(files.tables_from(position))
            assert [row for table in tables for row in table.to_pylist()] == expected[position:]
        assert files.block_sizes == [3, 3, 3, 1, 3, 3, 1]
        assert files.schema.names == (columns or list(expected[0]))
        assert files.locate(11) == (files.locate(-6)) == (files.locate(10)[0], 0, 1)
        assert files.locate(9)[1:] == (3, 0)
        assert files.locate(9)[0].endswith("0.parquet")
        assert repr(files) == "ParquetFiles: 17 records in 3 files"
        with pytest.raises(IndexError):
            files[17]
        with pytest.raises(ValueError, match="`position`"):
            files.tables_from(18)
    assert len({files.fingerprint() for files in each_way(folder)}) == 1


def test_an_error_names_the_line_however_many_files_there_are(tmp_path: Path) -> None:
    for part in range(2):
        pq.write_table(make_table(part, 3), tmp_path / f"{part}.parquet")
    for files in ("1.parquet", "{0..1}.parquet"):
        line = sys._getframe().f_lineno + 2
        with pytest.raises(ValueError, match="among the columns of") as caught:
            ParquetFiles(files, columns=["none"], store=LocalStore(tmp_path))
        assert f"({__file__}:{line})" in str(caught.value)


def test_only_the_columns_are_read(folder: Path) -> None:
    store = CountingStore(folder)
    files = ParquetFiles("0.parquet", store=store, columns=["number"])
    before = store.bytes_read
    assert files[4] == {"number": 4}
    assert store.bytes_read - before < 200
    # The row group is here now.
    assert files[5] == {"number": 5}
    assert store.bytes_read - before < 200


def test_parquet_files_keep_row_groups_that_fit_and_the_last_one_always(folder: Path) -> None:
    store = CountingStore(folder)
    size = pq.ParquetFile(folder / "0.parquet").read_row_group(0).nbytes

    def reads(prefetch_bytes: int, positions: Sequence[int]) -> list[int]:
        files = ParquetFiles("0.parquet", store=store, prefetch_bytes=prefetch_bytes)
        assert len(files) == 10
        found = []
        for position in positions:
            before = len(store.requests)
            assert files[position] == rows()[position]
            if len(store.requests) > before:
                found.append(position)
        return found

    # Row groups of three rows, of which two fit: when the third comes, that goes which was not used for longest.
    assert reads(5 * size // 2, [0, 3, 0, 6, 0, 3]) == [0, 3, 6, 3]
    assert reads(0, [0, 1, 3, 4, 0, 2]) == [0, 3, 0]


def test_a_file_is_opened_by_one_read_and_a_row_group_by_another(folder: Path) -> None:
    store = CountingStore(folder)
    files = ParquetFiles("0.parquet", store=store)
    assert len([size for _, size in store.requests if size]) == 1
    store.requests.clear()
    files[0]
    assert len(store.requests) == 1
    store.requests.clear()
    list(ParquetFiles("0.parquet", store=store, prefetch_bytes=0).tables_from(0))
    assert len([size for _, size in store.requests if size]) == 1 + 4


def test_row_groups_are_kept_within_the_bytes(folder: Path) -> None:
    for most, expected in ((1 << 27, 1), (0, 2)):
        store = CountingStore(folder)
        files = ParquetFiles("0.parquet", store=store, prefetch_bytes=most)
        store.requests.clear()
        files.__getitems__([0, 4, 1, 2])
        assert len(store.requests) == 2
        files[0]
        assert len(store.requests) == 1 + expected


def test_threads_that_want_the_same_row_group_read_it_once(folder: Path) -> None:
    store = CountingStore(folder)
    files = ParquetFiles("0.parquet", store=store)
    store.requests.clear()
    found: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: found.append(files[4])) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [rows()[4]] * 6
    assert len(store.requests) == 1


def test_copies_read_the_same(folder: Path) -> None:
    files = ParquetFiles(folder / "{0..2}.parquet")
    assert files[3] == rows()[3]
    assert list(pickle.loads(pickle.dumps(files))) == rows()  # noqa: S301 - our own.
    part = files.split(0, 2)
    assert part.block_sizes == files.block_sizes
    assert list(part) == [part[position] for position in range(17)] == rows()
    assert sum(table.num_rows for table in files.split(0, 3, worker=0, num_workers=1).tables_from()) == 10


def test_resumes_within_a_row_group(folder: Path) -> None:
    for files in each_way(folder):

        def make(files: ParquetFiles = files) -> DataLoader[int, Any]:
            order = BlockShuffledOrder(len(files), block=files.block_sizes, window=2, seed=1)
            return DataLoader(
                EpochSampler(order, batch_size=4, rank=0, world_size=1, data=files.fingerprint()),
                batch_size=4,
                aggregator=lambda batch: [row["text"] for row in files.__getitems__(batch)],
                output_order="input",
                num_threads=2,
            )

        assert_resumes_exactly(make, epochs=2, cuts=(0, 1, 3, 4, 7))
        assert_resumes_exactly(
            lambda files=files: (
                PipelineBuilder().add_source(files).pipe(lambda row: row["text"]).add_sink(1).build(num_threads=1)
            ),
            cuts=(0, 1, 4, 11, 17),
        )


def test_an_iterator_that_is_left_ends_its_threads(folder: Path) -> None:
    for files in each_way(folder, prefetch_bytes=4000):
        rest = files.iterate_from(2)
        assert next(rest)["text"] == "0-2"
        rest.close()  # type: ignore[attr-defined]
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("spdl-")]


def test_mistakes_are_explained(folder: Path) -> None:
    make: Any = ParquetFiles
    one = folder / "0.parquet"
    (folder / "none.txt").write_text("text " * 100)
    (folder / "empty.parquet").touch()
    cases: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
        ((one,), {"columns": "text"}, TypeError, "`columns` must be a list of names"),
        ((one,), {"columns": [3]}, TypeError, "`columns`"),
        ((one,), {"columns": []}, ValueError, "`columns`"),
        ((one,), {"columns": ["text", "text"]}, ValueError, "`columns`"),
        ((one,), {"columns": ["other"]}, ValueError, r"which are text, number, data, nested, maybe, got 'other'"),
        ((one,), {"prefetch_bytes": -1}, ValueError, "`prefetch_bytes`"),
        ((folder / "1.parquet",), {}, ValueError, "`files` must be files with rows in them"),
        ((folder / "none.txt",), {}, FormatError, r"none\.txt is not a Parquet file"),
        ((folder / "empty.parquet",), {}, FormatError, r"empty\.parquet is not a Parquet file"),
        ((folder / "missing.parquet",), {}, FileNotFoundError, r"missing\.parquet"),
        (("missing.parquet",), {"store": LocalStore(folder)}, FileNotFoundError, r"missing\.parquet"),
        (("empty.parquet",), {"store": LocalStore(folder)}, FormatError, r"empty\.parquet .* is not a Parquet file"),
    ]
    for arguments, options, error, message in cases:
        with pytest.raises(error, match=message):
            make(*arguments, **options)


def test_damaged_row_groups(folder: Path) -> None:
    content = bytearray((folder / "0.parquet").read_bytes())
    content[4:200] = bytes(196)
    (folder / "0.parquet").write_bytes(content)
    for files in each_way(folder):
        with pytest.raises(FormatError, match=r"0\.parquet.*, row group 0, is damaged"):
            files[1]
        with pytest.raises(FormatError, match="is damaged"):
            list(files)
        assert files[12] == rows()[12]


def test_a_row_group_with_a_damaged_name_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a_long_name": [1, 2], "b": [3, 4]}), path)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"a_long_name")] = 0xFF
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.parquet, row group 0, is damaged: .*can't decode"):
        list(ParquetFiles(path, columns=["b"]))


class HoldingStore(CountingStore):
    """Knows how many of the bytes that it has returned are still held."""

    held = most = 0
    lock = threading.Lock()

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        found: list[Buffer] = []
        for part in super().get_ranges(path, starts, lengths):
            array = np.frombuffer(memoryview(part), np.uint8).copy()
            self._count(array.nbytes)
            weakref.finalize(array, self._count, -array.nbytes)
            found.append(array.data)
        return found

    def _count(self, size: int) -> None:
        with self.lock:
            self.held += size
            self.most = max(self.most, self.held)


def test_what_is_fetched_in_advance_is_bounded(tmp_path: Path) -> None:
    table = pa.table({"data": [np.random.default_rng(0).bytes(1000) for _ in range(100)]})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(300):
            writer.write_table(table)
    group, prefetch_bytes = 100_000, 6_400_000
    store = HoldingStore(tmp_path)
    files = ParquetFiles("a.parquet", store=store, prefetch_bytes=prefetch_bytes)
    store.most = 0
    for number, each in enumerate(files.tables_from(0)):
        # Three are decoded at a time, which take as much memory again.
        assert store.held + 3 * each.nbytes <= prefetch_bytes + 3 * group
        deadline = time.monotonic() + 30
        # However slow the machine is, that much arrives while nobody asks for more.
        while number == 5 and store.held < prefetch_bytes / 4 and time.monotonic() < deadline:
            time.sleep(0.001)
    assert prefetch_bytes / 4 <= store.most <= prefetch_bytes
    del each
    # Threads of pyarrow let go of a file a bit later than they return what is in it.
    deadline = time.monotonic() + 30
    while store.held and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not store.held


def test_a_process_that_is_forked_while_threads_read_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(5000)}), tmp_path / "a.parquet", row_group_size=100)
    rows = ParquetFiles(tmp_path / "a.parquet", prefetch_bytes=0)
    assert rows[0] == {"a": 0}
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for position in range(0, 5000, 100):
                rows[position]

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if not child:
                signal.alarm(50)
                os._exit(0 if all(rows[position] == {"a": position} for position in range(50, 5000, 100)) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
