"""Epochs of tables on any ranks, cut anywhere, with rows that fail: like an epoch of one process that was never cut."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections import Counter
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dataloader.table.table_files import write_numbers
from tests.source.counting_store import CountingStore

from spdl.dataloader import Jagged, TableBatch, TableLoader
from spdl.io import LoadError
from spdl.source import BlockShuffledOrder, ParquetFiles, ShuffledOrder

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
pytest.importorskip("torch", reason="needs PyTorch")

# There may be more ranks than rows.
pytestmark = pytest.mark.filterwarnings("ignore:Rank .* gets none of the")

FILES = "{0..1}.parquet"


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("numbers")
    write_numbers(folder)
    return folder


def read(loader: TableLoader, steps: int | None = None) -> list[list[int]]:
    """Return the numbers of the next batches, after a look at whether the other columns are theirs."""
    batches = []
    for batch in islice(loader, steps) if steps != 0 else ():
        numbers = batch["n"].tolist()
        assert batch["square"].tolist() == [float(n * n) for n in numbers]
        assert batch["tags"].values.tolist() == [n for n in numbers for _ in range(n % 3)]
        kinds = loader.dictionaries["kind"].to_pylist()
        assert [kinds[code] for code in batch["kind"]] == [f"kind {n % 5}" for n in numbers]
        batches.append(numbers)
    return batches


def loaders_of(folder: Path, world_size: int, **options: Any) -> list[TableLoader]:
    chosen: dict[str, Any] = {"batch_size": 8, "shuffle": True, "output": "numpy", "num_threads": 2, **options}
    files = ParquetFiles(folder / FILES)
    return [TableLoader(files, rank=rank, world_size=world_size, **chosen) for rank in range(world_size)]


def merged(ranks: list[list[list[int]]]) -> list[int]:
    """Return what all ranks take step by step."""
    return [n for step in zip(*ranks, strict=True) for batch in step for n in batch]


@pytest.mark.parametrize("cache_bytes", [1 << 20, 1500, 0])
@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_state_at_every_cut_goes_on_with_what_is_left(tmp_path: Path, world_size: int, cache_bytes: int) -> None:
    write_numbers(tmp_path, count=31, group=4)
    options: dict[str, Any] = {"cache_bytes": cache_bytes, "batch_size": 3, "num_threads": 1}
    (one,) = loaders_of(tmp_path, 1, **options)
    whole = [n for batch in read(one) for n in batch]
    assert sorted(whole) == list(range(31))
    steps = len(loaders_of(tmp_path, world_size, **options)[0])
    for cut in range(steps):
        before = loaders_of(tmp_path, world_size, **options)
        first = merged([read(loader, cut) for loader in before]) if cut else []
        assert first == whole[: len(first)]
        states = [json.loads(json.dumps(loader.state_dict())) for loader in before]
        assert len({json.dumps(state) for state in states}) == 1
        (other,) = loaders_of(tmp_path, 1, **options)
        other.load_state_dict(states[-1])
        assert [n for batch in read(other) for n in batch] == whole[len(first) :]
        after = loaders_of(tmp_path, world_size, **options)
        for loader in after:
            loader.load_state_dict(states[0])
        rest = Counter(chain.from_iterable(chain.from_iterable(read(loader) for loader in after)))
        assert set(rest) == set(whole[len(first) :])
        # Ranks that would have nothing in the last step repeat a row.
        assert rest.total() - len(whole[len(first) :]) < world_size


def test_state_is_of_the_same_rows_and_order(numbers: Path) -> None:
    loader = TableLoader(numbers / FILES, 8, shuffle=True)
    state = loader.state_dict()
    for other in ({"filters": [("n", "<", 50)]}, {"cache_bytes": 1500}, {"seed": 1}, {"shuffle": False}):
        options: dict[str, Any] = {"shuffle": True, **other}
        with pytest.raises(ValueError, match=r"This state (belongs to another dataset|was saved with)"):
            TableLoader(numbers / FILES, 8, **options).load_state_dict(state)
    with pytest.raises(ValueError, match="the order of `shuffle=True` follows from `cache_bytes` and `columns`"):
        TableLoader(numbers / FILES, 8, shuffle=True, cache_bytes=1500).load_state_dict(state)


def test_shuffle_is_full_if_all_row_groups_fit(numbers: Path) -> None:
    (loader,) = loaders_of(numbers, 1)
    expected = ShuffledOrder(100, seed=0).take(0, np.arange(100)).tolist()
    assert [n for batch in read(loader) for n in batch] == expected
    assert [n for batch in read(loader) for n in batch] != expected


def test_shuffle_takes_few_row_groups_at_a_time_if_not_all_fit(numbers: Path) -> None:
    store = CountingStore(numbers)
    files = ParquetFiles(FILES, store=store)
    # A window has several batches.
    loader = TableLoader(files, 1, shuffle=True, cache_bytes=4000, num_threads=2, dictionaries={"kind": kinds()})
    opened = len(store.requests)
    assert sorted(n for batch in read(loader) for n in batch) == list(range(100))
    assert len(store.requests) - opened == len(files.block_sizes)


def kinds() -> list[str]:
    return [f"kind {number}" for number in range(5)]


def test_row_groups_that_fit_are_decoded_once_for_all_epochs(numbers: Path) -> None:
    store = CountingStore(numbers)
    files = ParquetFiles(FILES, store=store)
    loader = TableLoader(files, 8, shuffle=True, num_threads=2, dictionaries={"kind": kinds()})
    opened = len(store.requests)
    for _ in range(3):
        read(loader)
    assert len(store.requests) - opened == len(files.block_sizes)


def test_full_shuffle_without_memory(numbers: Path) -> None:
    order = ShuffledOrder(100, seed=3)
    (loader,) = loaders_of(numbers, 1, shuffle=False, order=order, cache_bytes=0)
    assert [n for batch in read(loader) for n in batch] == order.take(0, np.arange(100)).tolist()


def test_user_orders_are_followed(numbers: Path) -> None:
    order = BlockShuffledOrder(100, block=10, window=2, seed=5)
    (loader,) = loaders_of(numbers, 1, shuffle=False, order=order)
    assert [n for batch in read(loader) for n in batch] == order.take(0, np.arange(100)).tolist()
    with pytest.raises(ValueError, match="`shuffle` must be False with an `order`"):
        loaders_of(numbers, 1, order=order)


def test_filters_give_an_exact_length(numbers: Path) -> None:
    loader = TableLoader(numbers / FILES, 8, filters=[("kind", "==", "kind 3")], columns=["n"], num_threads=1)
    assert len(loader) == 3
    assert [n for batch in loader for n in batch["n"].tolist()] == list(range(3, 100, 5))
    files = ParquetFiles(numbers / FILES, filters=[("n", "<", 3)])
    assert len(TableLoader(files, 8)) == 1
    with pytest.raises(ValueError, match="`filters` must be None with a `ParquetFiles`, which has its own"):
        TableLoader(files, 8, filters=[("n", "<", 3)])


def test_drop_last(numbers: Path) -> None:
    (loader,) = loaders_of(numbers, 1, batch_size=30, drop_last=True)
    assert [len(batch) for batch in read(loader)] == [30, 30, 30]


def test_pickled_loader_is_the_same(numbers: Path) -> None:
    (loader,) = loaders_of(numbers, 1, cache_bytes=1500)
    copied = pickle.loads(pickle.dumps(loader))  # noqa: S301 - our own.
    whole = read(loader)
    assert read(copied) == whole
    assert read(pickle.loads(pickle.dumps(loader))) == read(loader) != whole  # noqa: S301 - our own.


def test_statistics(numbers: Path) -> None:
    (loader,) = loaders_of(numbers, 1)
    with pytest.raises(RuntimeError, match="no statistics before its first batch"):
        loader.statistics()
    read(loader)
    assert loader.statistics().stages


def test_batch_transform_gets_each_batch(numbers: Path) -> None:
    def double(batch: TableBatch) -> TableBatch:
        return batch.replace(columns={"twice": batch["n"] * 2})

    (loader,) = loaders_of(numbers, 1, batch_transform=double, shuffle=False)
    assert [n for batch in loader for n in batch["twice"].tolist()] == list(range(0, 200, 2))


def test_batch_keeps_its_fields(numbers: Path) -> None:
    (loader,) = loaders_of(numbers, 1, output="torch", nulls="mask")
    batch = next(iter(loader))
    for copied in (pickle.loads(pickle.dumps(batch)), batch.to("cpu"), batch.replace()):  # noqa: S301 - our own.
        assert type(copied) is TableBatch
        assert isinstance(copied["tags"], Jagged)
        assert copied["tags"].offsets.equal(batch["tags"].offsets)
        assert copied.index.equal(batch.index)
        assert copied.masks.keys() == set(batch)
        assert (copied.epoch, copied.failures) == (0, ())


def test_device_gets_all_tensors(numbers: Path) -> None:
    (loader,) = loaders_of(numbers, 1, output="torch", device="meta")
    batch = next(iter(loader))
    tensors = [batch["n"], batch["tags"].values, batch["tags"].offsets, batch["kind"], batch.index]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


# ---------------------------------------------------------------------------------------------------------- failures


def write_with_nulls(folder: Path, count: int, nulls: set[int]) -> Path:
    column = pa.array([None if n in nulls else n for n in range(count)], pa.int64())
    pq.write_table(pa.table({"n": column, "m": range(count)}), folder / "a.parquet", row_group_size=3)
    return folder / "a.parquet"


@given(
    st.integers(1, 30).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1)))),
    st.sampled_from(["skip", "refill"]),
    st.integers(1, 3),
    st.integers(1, 6),
)
def test_rows_with_nulls_fail_alone(rows: tuple[int, set[int]], on_error: Any, world: int, batch_size: int) -> None:
    count, nulls = rows
    good = set(range(count)) - nulls
    with tempfile.TemporaryDirectory() as name:
        path = write_with_nulls(Path(name), count, nulls)
        options: dict[str, Any] = {"shuffle": True, "output": "numpy", "num_threads": 1, "even_batches": False}
        loaders = [
            TableLoader(path, batch_size, on_error=on_error, rank=rank, world_size=world, **options)
            for rank in range(world)
        ]
        try:
            batches = [list(loader) for loader in loaders]
        except LoadError as error:
            # Nothing is left, or nothing that could take a place.
            assert "in their place" in str(error) or "All rows of epoch 0" in str(error)  # noqa: PT017 - either way.
            assert not good or world > 1 or len(nulls) > 30 or on_error == "refill"
            return
        found = [n for rank in batches for batch in rank for n in batch["m"].tolist()]
        assert [n for rank in batches for batch in rank for n in batch["n"].tolist()] == found
        failures = [failure for loader in loaders for failure in loader.failures]
        assert {failure.index for failure in failures} == nulls
        assert all("column 'n' is null" in failure.reason for failure in failures)
        if on_error == "skip":
            assert sorted(found) == sorted(good)
        else:
            assert len(found) == count
            assert set(found) == good
            assert {failure.replacement for failure in failures} <= good


def test_damaged_row_groups_fail_with_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(0)
    table = pa.table({"n": range(30), "x": rng.random(30)})
    pq.write_table(table, path, row_group_size=10, compression="none", use_dictionary=False, write_page_checksum=True)
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(1).column(1)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 4] ^= 1
    path.write_bytes(content)
    loader = TableLoader(path, 6, num_threads=1)
    with pytest.raises(
        LoadError, match=r"2 of 6 rows .*\n.*sample 10, .*a\.parquet, record 10.*row group 1, is damaged"
    ):
        list(loader)
    loader = TableLoader(path, 6, on_error="skip", num_threads=2, output="numpy", shuffle=True)
    assert sorted(n for batch in loader for n in batch["n"].tolist()) == [*range(10), *range(20, 30)]
    assert sorted(failure.index for failure in loader.failures) == list(range(10, 20))
    loader = TableLoader(path, 6, on_error="refill", num_threads=2, output="numpy")
    found = [n for batch in loader for n in batch["n"].tolist()]
    assert len(found) == 30
    assert set(found) <= {*range(10), *range(20, 30)}


def test_failures_of_the_storage_are_not_failures_of_rows(tmp_path: Path) -> None:
    write_numbers(tmp_path, files=1)
    loader = TableLoader(tmp_path / "0.parquet", 8, on_error="skip", num_threads=1)
    (tmp_path / "0.parquet").rename(tmp_path / "1.parquet")
    write_numbers(tmp_path, files=1, count=50)
    with pytest.raises(Exception, match="was written again since this source was made"):
        list(loader)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"nulls": "drop"}, ValueError, "`nulls` must be"),
        ({"on_error": "ignore"}, ValueError, "`on_error` must be"),
        ({"cache_bytes": -1}, ValueError, "`cache_bytes` must be"),
        ({"columns": ["z"]}, ValueError, "`columns` must be among the columns of"),
        ({"columns": "n"}, TypeError, "`columns` must be a list of names of columns"),
        ({"shuffle": "yes"}, TypeError, "`shuffle` must be"),
        ({"batch_size": 0}, ValueError, "`batch_size` must be"),
    ],
)
def test_arguments_without_sense_are_refused(
    numbers: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TableLoader(numbers / FILES, **{"batch_size": 8, **options})


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("columns", [["n", "x"], ["n", "flag"], ["n", "x", "text"]])
def test_every_epoch_decodes_row_groups_about_once(
    share: float, columns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, size = 40, 250
    count = groups * size
    texts = [f"text {n % 7}" for n in range(count)]
    table = {"n": np.arange(count), "x": np.arange(count) / 2, "flag": np.arange(count) % 3 == 0, "text": texts}
    pq.write_table(pa.table(table), tmp_path / "a.parquet", row_group_size=size)
    decoded: list[int] = []
    read_row_groups = pq.ParquetFile.read_row_groups

    def count_groups(self: Any, chosen: list[int], **options: Any) -> Any:
        decoded.extend(chosen)
        return read_row_groups(self, chosen, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", count_groups)
    loader = TableLoader(
        ParquetFiles(tmp_path / "a.parquet", columns=columns),
        100,
        shuffle=True,
        cache_bytes=int(share * count * 8 * len(columns)),
        output="numpy",
        num_threads=1,
    )
    decoded.clear()
    for _ in range(4):
        assert sorted(n for batch in loader for n in batch["n"].tolist()) == list(range(count))
        assert len(decoded) <= 1.6 * groups
        decoded.clear()
