"""Each type of column becomes what its rule says, or is refused by its name."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dataloader.table.table_files import TYPES, expected_rows, rows_in, tables, write_tables

from spdl.dataloader import Jagged, TableLoader
from spdl.io import FormatError, LoadError
from spdl.source import ParquetFiles

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pytest.importorskip("pyarrow.compute", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
pytest.importorskip("torch", reason="needs PyTorch")


def write(folder: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=2)
    return folder / "a.parquet"


OPTIONS = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 10),
        "shuffle": st.booleans(),
        "output": st.sampled_from(["numpy", "torch"]),
        "cache_bytes": st.sampled_from([0, 300, 1 << 20]),
        "seed": st.integers(0, 3),
    }
)


@given(tables(), OPTIONS)
def test_table_loader_gives_each_row_as_pyarrow_reads_it(
    drawn: tuple[list[Any], list[int]], options: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        everything = write_tables(Path(name), *drawn)
        files = f"{name}/{{0..{len(drawn[0]) - 1}}}.parquet"
        loader = TableLoader(files, nulls="mask", num_threads=1, **options)
        seen = []
        for batch in loader:
            rows = batch.index.tolist()
            seen += rows
            taken = everything.take(pa.array(rows))
            assert list(batch) == everything.column_names
            for column, values in zip(taken.column_names, taken.columns, strict=True):
                assert rows_in(batch, column, loader.dictionaries.get(column)) == expected_rows(values)
        assert sorted(seen) == list(range(len(everything)))
        assert options["shuffle"] or seen == sorted(seen)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_arrays_have_their_own_memory(tmp_path: Path, kind: Any, output: Any) -> None:
    """A loop may write into a batch, and the rows stay as they are."""
    empty: Any = {pa.list_(pa.float32(), 3): [1.0] * 3, pa.list_(pa.int64(), 1): [1], pa.binary(3): b"abc"}
    value = empty.get(kind)
    column = pa.array([value] * 4, kind) if value else pa.array([None, None, None, None], kind)
    loader = TableLoader(write(tmp_path, x=column), 4, output=output, nulls="mask", num_threads=1)
    before = []
    for _ in range(2):
        (batch,) = loader
        arrays = list(batch["x"]) if isinstance(batch["x"], Jagged) else [batch["x"]]
        before.append([array.tolist() for array in arrays])
        for array in arrays:
            array[...] = 1
    assert before[0] == before[1]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.int8(), "int8"),
        (pa.uint16(), "uint16"),
        (pa.float16(), "float16"),
        (pa.bool_(), "bool"),
        (pa.timestamp("s"), "int64"),
        (pa.date32(), "int32"),
        (pa.time32("s"), "int32"),
        (pa.duration("us"), "int64"),
        (pa.decimal128(5, 1), "float64"),
        (pa.string(), "int32"),
        (pa.list_(pa.uint8(), 2), "uint8"),
    ],
    ids=str,
)
def test_types_of_arrays(tmp_path: Path, kind: Any, dtype: str) -> None:
    path = write(tmp_path, x=pa.array([None], kind))
    (batch,) = TableLoader(path, 4, output="numpy", nulls="mask", num_threads=1)
    assert batch["x"].dtype == np.dtype(dtype)
    (batch,) = TableLoader(path, 4, nulls="mask", num_threads=1)
    assert str(batch["x"].dtype) == f"torch.{dtype}"


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("a", pa.int32())]),
        pa.map_(pa.string(), pa.int32()),
        pa.list_(pa.list_(pa.int32())),
        pa.list_(pa.binary()),
        pa.list_(pa.struct([("a", pa.int32())])),
        pa.null(),
    ],
    ids=str,
)
def test_types_without_arrays_are_refused_by_name(tmp_path: Path, kind: Any) -> None:
    path = write(tmp_path, good=[1, 2], bad=pa.array([None, None], kind))
    with pytest.raises(ValueError, match=r"`columns` must be .* got .bad: .*`columns` says which columns to read"):
        TableLoader(path, 2)
    assert len(TableLoader(path, 2, columns=["good"])) == 1


@pytest.mark.parametrize("on_error", ["raise", "skip", "refill"])
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"a": pa.array([2], pa.int32()), "b": ["x"]},
            "column 'a' as int32, and .*0.parquet as int64: write them with",
        ),
        ({"a": [2.5], "b": ["x"]}, "column 'a' as double, and .*0.parquet as int64"),
        ({"a": [[2]], "b": ["x"]}, "column 'a' as list"),
        ({"a": [2], "b": [b"x"]}, "column 'b' as binary, and .*0.parquet as string"),
        ({"a": [2]}, "the columns a, and .*0.parquet has a, b: say by `columns`"),
        ({"b": ["x"], "a": [2]}, "the columns b, a, and .*0.parquet has a, b: say by `columns`"),
        ({"a": [2], "b": ["x"], "c": [0]}, "the columns a, b, c, and"),
    ],
)
def test_files_with_other_columns_are_refused_and_never_left_out(
    tmp_path: Path, other: Any, message: str, on_error: Any
) -> None:
    tables = [pa.table({"a": [1], "b": ["x"]}), pa.table(other)]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    with pytest.raises(FormatError, match=message):
        TableLoader(f"{tmp_path}/{{0..1}}.parquet", 1, on_error=on_error)


def test_files_that_hold_the_same_values_otherwise_go_together(tmp_path: Path) -> None:
    tables = [
        pa.table({"a": [1], "b": ["x"], "c": [[1]]}),
        pa.table(
            {
                "a": [2],
                "b": pa.array(["y"]).dictionary_encode(),
                "c": pa.array([[2, 3]], pa.large_list(pa.int64())),
                "d": [0],
            }
        ),
        # No rows, as pandas writes a part without values.
        pa.table({"a": pa.array([], pa.null()), "b": pa.array([], pa.null()), "c": pa.array([], pa.null())}),
    ]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    loader = TableLoader(f"{tmp_path}/{{0..2}}.parquet", 3, columns=["a", "b", "c"], output="numpy", num_threads=1)
    (batch,) = loader
    assert (batch["a"].tolist(), batch["b"].tolist(), batch["c"].values.tolist()) == ([1, 2], [0, 1], [1, 2, 3])


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_file_of_nulls_alone_has_the_type_of_the_others(tmp_path: Path, kind: Any) -> None:
    tables = [
        pa.table({"x": pa.nulls(count, kind if number == 0 else pa.null())}) for number, count in enumerate((2, 3))
    ]
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if is_list:
        # As pyarrow types lists without elements.
        tables.append(pa.table({"x": [[], None]}))
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    files = f"{tmp_path}/{{0..{len(tables) - 1}}}.parquet"
    rows = pa.concat_tables([table.cast(tables[0].schema) for table in tables]).to_pylist()
    assert ParquetFiles(files).table(range(len(rows))).to_pylist() == rows
    given = {"x": ["a"]} if "string" in str(kind) else None
    (batch,) = TableLoader(files, len(rows), nulls="mask", dictionaries=given, num_threads=1)
    assert batch.masks["x"].tolist() == [row["x"] is not None for row in rows]


def test_columns_are_in_the_order_they_were_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, a=[1], b=[2], c=[3])
    (batch,) = TableLoader(path, 1, columns=["c", "a"], num_threads=1)
    assert {name: value.tolist() for name, value in batch.items()} == {"c": [3], "a": [1]}


# ------------------------------------------------------------------------------------------------------------- nulls


def test_nulls_that_statistics_count_are_refused_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, a=[1, None, None], b=[1, 2, 3])
    with pytest.raises(ValueError, match=r"`nulls` must be \"mask\", .* \"2 in 'a'\".*fill_null"):
        TableLoader(path, 2)
    assert len(TableLoader(path, 2, columns=["b"])) == 2


def test_nulls_without_statistics_fail_when_they_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, None, 3]}), tmp_path / "a.parquet", write_statistics=False)
    loader = TableLoader(tmp_path / "a.parquet", 2, num_threads=1)
    with pytest.raises(LoadError, match=r"1 of 2 rows of a batch .*\n.*sample 1, .*the column 'a' is null"):
        next(iter(loader))


def test_nulls_that_filters_leave_out_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, a=[1, None, 3, 4])
    (batch,) = TableLoader(path, 4, filters=pa.compute.field("a").is_valid(), num_threads=1)
    assert batch["a"].tolist() == [1, 3, 4]


def test_nulls_mask(tmp_path: Path) -> None:
    path = write(tmp_path, a=[1, None, 3], t=["x", None, "y"], l=[[1], None, []])
    (batch,) = TableLoader(path, 3, nulls="mask", output="numpy", num_threads=1)
    assert batch["a"].tolist() == [1, 0, 3]
    assert batch["t"].tolist() == [0, -1, 1]
    assert batch["l"].offsets.tolist() == [0, 1, 1, 1]
    assert {name: mask.tolist() for name, mask in batch.masks.items()} == {name: [True, False, True] for name in "atl"}


def test_masks_are_there_for_columns_without_nulls_in_a_batch(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int32()), pa.field("b", pa.int32(), nullable=False)])
    pq.write_table(pa.table({"a": [1, 2], "b": [1, 2]}, schema=schema), tmp_path / "a.parquet")
    (batch,) = TableLoader(tmp_path / "a.parquet", 2, nulls="mask", output="numpy", num_threads=1)
    assert {name: mask.tolist() for name, mask in batch.masks.items()} == {"a": [True, True]}


def test_fill_null(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        a=[1, None],
        f=[None, 0.5],
        b=[None, False],
        t=[None, "x"],
        l=[[1, None], None],
        v=pa.array([[1, None], None], pa.list_(pa.int32(), 2)),
        y=[None, b"ab"],
    )
    fills = {"a": -7, "f": float("inf"), "b": True, "t": 1, "l": 8, "v": 6, "y": b"z"}
    (batch,) = TableLoader(path, 2, fill_null=fills, output="numpy", num_threads=1)
    assert batch["a"].tolist() == [1, -7]
    assert batch["f"].tolist() == [float("inf"), 0.5]
    assert batch["b"].tolist() == [True, False]
    assert batch["t"].tolist() == [1, 0]
    assert (batch["l"].values.tolist(), batch["l"].offsets.tolist()) == ([1, 8], [0, 2, 2])
    assert batch["v"].tolist() == [[1, 6], [6, 6]]
    assert bytes(batch["y"].values) == b"zab"
    assert batch.masks == {}


def test_nulls_among_elements_are_errors_under_a_mask(tmp_path: Path) -> None:
    path = write(tmp_path, l=[[1], [2, None], None])
    loader = TableLoader(path, 3, nulls="mask", num_threads=1)
    with pytest.raises(LoadError, match=r"sample 1, .*there is a null in the list of the column 'l'"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("fills", "error", "message"),
    [
        ({"z": 1}, ValueError, "`fill_null` must be a mapping with names of columns, such as a, t, got 'z'"),
        ([1], TypeError, "`fill_null` must be a mapping"),
        ({"a": 300}, ValueError, r"`fill_null\['a'\]` must be a value of int8, got 300"),
        ({"a": 0.5}, ValueError, r"`fill_null\['a'\]` must be a value of int8, got 0.5"),
        ({"t": "x"}, TypeError, r"`fill_null\['t'\]` must be a code, such as -1, got 'x'"),
        ({"t": 2, "a": 0}, ValueError, r"`fill_null\['t'\]` must be -1, a code of the 1 values in the dictionary, or"),
        ({"t": -2, "a": 0}, ValueError, r"`fill_null\['t'\]` must be -1, a code"),
    ],
)
def test_fill_null_refuses_what_is_no_value(tmp_path: Path, fills: Any, error: type[Exception], message: str) -> None:
    path = write(tmp_path, a=pa.array([1, None], pa.int8()), t=["x", None])
    with pytest.raises(error, match=message):
        TableLoader(path, 2, fill_null=fills)


# ------------------------------------------------------------------------------------------------------ dictionaries


def test_dictionaries_have_the_values_in_the_order_of_the_files(tmp_path: Path) -> None:
    for number, column in enumerate([["b", "a", "b"], pa.array(["c", None, "a"]).dictionary_encode()]):
        pq.write_table(pa.table({"t": column, "l": [["q"], [], ["r", "b"]]}), tmp_path / f"{number}.parquet")
    loader = TableLoader(tmp_path / "{0..1}.parquet", 6, nulls="mask", output="numpy", num_threads=1)
    (batch,) = loader
    assert {name: each.to_pylist() for name, each in loader.dictionaries.items()} == {
        "t": ["b", "a", "c"],
        "l": ["q", "r", "b"],
    }
    assert batch["t"].tolist() == [0, 1, 0, 2, -1, 1]
    assert batch["l"].values.tolist() == [0, 1, 2, 0, 1, 2]


def test_dictionaries_of_another_loader(tmp_path: Path) -> None:
    path = write(tmp_path, t=["x", "new", "y"])
    for values in (["y", "x"], pa.array(["y", "x"])):
        loader = TableLoader(path, 3, dictionaries={"t": values}, nulls="mask", output="numpy", num_threads=1)
        (batch,) = loader
        assert batch["t"].tolist() == [1, -1, 0]
        assert batch.masks["t"].tolist() == [True, False, True]
    loader = TableLoader(path, 3, dictionaries={"t": ["y", "x"]}, num_threads=1)
    with pytest.raises(LoadError, match="the column 't' is null, or not in its dictionary"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"t": ["a", "a"]}, ValueError, "values without nulls, each once"),
        ({"t": ["a", None]}, ValueError, "values without nulls, each once"),
        ({"t": [1]}, TypeError, "values of string"),
        ({"t": pa.array([1])}, TypeError, r"values of string, got .* It is an array of int64"),
        ({"t": []}, ValueError, "at least one value"),
        (
            {"n": ["a"]},
            ValueError,
            "`dictionaries` must be a mapping with names of columns of text, such as t, got 'n'",
        ),
    ],
)
def test_dictionaries_without_sense_are_refused(
    tmp_path: Path, given: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TableLoader(write(tmp_path, t=["a"], n=[1]), 1, dictionaries=given)


def test_dictionaries_without_a_column_of_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a mapping with names of columns of text, and there is none, got 'n'"):
        TableLoader(write(tmp_path, n=[1]), 1, dictionaries={"n": [1]})
