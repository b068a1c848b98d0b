"""A ready-made loader of the columns of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

import pyarrow as pa

from spdl._check import check_choice, check_flag, check_int, refuse
from spdl._not_here import LOADER_WORDS, refuses
from spdl.dataloader._loader.batches import TableBatch
from spdl.dataloader._loader.epoch_loader import pick
from spdl.dataloader._loader.sample_loader import MADE_WITH, SHARED_BY_SAMPLES, OnError, SampleLoader
from spdl.dataloader._loader.tensors import OutputKind
from spdl.dataloader._table.columns import Column, Nulls, Packing, is_text, plan_columns, text_type
from spdl.dataloader._table.table_maker import TableMaker
from spdl.source import BlockShuffledOrder, EpochOrder, ParquetFiles, SequentialOrder, ShuffledOrder
from spdl.source._shared import check_alike, count_nulls, distinct_values, sizes_of


class TableLoader(SampleLoader[TableBatch]):
    """A loader of Parquet files: shuffled batches of columns, as tensors or arrays.

    Order, ranks, failures, state and everything else that is not said here is as in `ImageLoader`. Row groups are
    decoded without the GIL, kept, and shared by all threads; the rows of a batch are taken from them by one operation
    for each column.

    A batch is a `TableBatch`, a dict of columns by their names. The array of a column depends on its type alone:

    * integers, floats and bools: an array (B,) of the same type;
    * timestamps, dates, times and durations: int64, or int32 for ``date32`` and ``time32``: the number of units that
      the type has, such as microseconds since 1970;
    * decimals: the nearest float64;
    * text and dictionaries: int32 (B,), the places in `dictionaries`;
    * lists of these: `Jagged`, values and offsets; lists of a fixed size n: (B, n);
    * bytes: `Jagged` uint8; of a fixed size n: uint8 (B, n).

    Structs, maps, lists of lists and other types are refused by their names when the loader is made.

    Args:
        source: Parquet files: `spdl.source.ParquetFiles`; or paths, URLs or patterns as it takes them.
        batch_size: The rows of a batch of one rank.
        columns: The names of the columns to read, in the order of the batch. None reads all.
        filters: Which rows to load, as `ParquetFiles` takes them; that class has an argument for its own. The length
            of the loader is exact: the columns in the condition are read once, when the loader is made, except in row
            groups whose statistics exclude all rows.
        nulls: How to treat nulls in columns that are not in `fill_null`. ``"error"``: a row with a null fails, see
            `on_error`; if the statistics of the files count nulls, the loader cannot be made, unless rows may fail or
            are filtered. ``"mask"``: a null becomes 0, the code -1 or an empty list, and ``batch.masks[name]`` is
            False there, for all columns that may have nulls by the schema. Nulls among the elements of a list are
            errors in both cases.
        fill_null: The values in place of nulls, by the names of columns. In columns of lists it is for elements, and a
            list that is null becomes an empty one; a row of a list of fixed size gets it everywhere. In columns of text
            it is a code: -1, one of the dictionary, or the number of its values, for one more.
        dictionaries: The dictionary of columns of text, by their names, such as the `dictionaries` of another loader.
            A value that is not in it is treated as a null. If there is none for a column, the column is read once when
            the loader is made, and its dictionary has all values of the row groups in the order in which they come
            first.
        shuffle: Whether each epoch has its own order. If all row groups fit into `cache_bytes` when they are decoded,
            all orders of rows are equally likely, as far as `ShuffledOrder` has it. If not, row groups come in a random
            order, and as many as fit into half of `cache_bytes` are shuffled together, row by row
            (`BlockShuffledOrder`): each row group is decoded about once in an epoch, and a batch has rows of that many
            groups, not of the whole. ``order=ShuffledOrder(n)`` still shuffles everything, and then each batch decodes
            the row groups of its rows.
        order: Your own order instead: an `spdl.source.EpochOrder`.
        seed: The seed of the order and of replacements, from 0 to 2**64 - 1.
        cache_bytes: How many bytes of decoded row groups are kept. Those in use may have more: at least a row group,
            and as much as its batches take. The order depends on it if not all fit, so a state needs the same.
        drop_last, even_batches, device: As for `ImageLoader`.
        batch_transform: Applied to each batch. The loop gets its result.
        output: ``"torch"`` makes tensors, ``"numpy"`` arrays. Both have their own memory, and may be written.
        on_error: How to treat rows that cannot be loaded, since their row group is damaged or a value is null:
            ``"raise"``, ``"skip"`` or ``"refill"``; see `ImageLoader`.
        rank, world_size: As for `ImageLoader`. Each rank decodes all row groups, since its rows lie in all of them.
            ``ParquetFiles.split()`` gives each rank its own files instead.
        num_threads: How many threads load, up to four. None takes the cores that this process may use, bounded by its
            control groups, and divided by ``LOCAL_WORLD_SIZE``.
        prefetch, timeout: As for `ImageLoader`.

    Attributes:
        dictionaries: The dictionaries of columns of text by their names, as arrays of pyarrow.

    Raises:
        ImportError: If pyarrow is not installed; or if a device is given and PyTorch is not installed.
        TypeError, ValueError: If an argument is not as described, a column has a type that has no array or nulls that
            are errors, or nothing would be loaded; the message names it.
        FormatError: If a file is not a Parquet file, or its columns are others than those of the first one.
        OSError: If a file cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> from spdl.dataloader import TableLoader
        >>> table = pa.table({"age": [31, 45, 27], "tags": [[7], [], [5, 7]], "city": ["Bern", "Oslo", "Bern"]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pq.write_table(table, Path(folder, "users.parquet"))
        ...     loader = TableLoader(f"{folder}/users.parquet", batch_size=2, output="numpy")
        ...     first, last = loader
        >>> first["age"], first["city"], loader.dictionaries["city"].to_pylist()
        (array([31, 45]), array([0, 1], dtype=int32), ['Bern', 'Oslo'])
        >>> last["tags"].values, last["tags"].offsets
        (array([5, 7]), array([0, 2]))
    """

    dictionaries: dict[str, Any]
    _order_follows_from = (
        " If not all row groups fit into `cache_bytes`, the order of `shuffle=True` follows from `cache_bytes` and "
        "`columns`: pass the same ones, or an `order`."
    )

    @property
    def _mix(self) -> None:
        """None, as what reads row groups in advance has the order, too."""

    @refuses(LOADER_WORDS)
    def __init__(
        self,
        source: ParquetFiles | str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        batch_size: int,
        *,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        nulls: Nulls = "error",
        fill_null: Mapping[str, Any] | None = None,
        dictionaries: Mapping[str, Any] | None = None,
        shuffle: bool = False,
        order: EpochOrder | None = None,
        seed: int = 0,
        cache_bytes: int = 1 << 29,
        drop_last: bool = False,
        even_batches: bool = True,
        batch_transform: Callable[[TableBatch], Any] | None = None,
        output: OutputKind = "torch",
        device: Any = None,
        on_error: OnError = "raise",
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        timeout: float | None = None,
    ) -> None:
        files = _open(source, columns, filters)
        schema = files.schema
        check_choice("nulls", nulls, get_args(Nulls))
        check_choice("on_error", on_error, get_args(OnError))
        fills = _check_names("fill_null", fill_null, schema.names)
        texts = [each.name for each in schema if is_text(each.type)]
        given = _check_names("dictionaries", dictionaries, texts, "columns of text")
        cache_bytes = check_int("cache_bytes", cache_bytes, least=0)
        # Before anything is read.
        plan_columns(schema, {}, fills)
        check_alike(files)
        if nulls == "error" and on_error == "raise":
            _refuse_nulls(files, fills)
        self.dictionaries = {
            field.name: _find_dictionary(files, field.name, text_type(field.type), given.get(field.name))
            for field in schema
            if is_text(field.type)
        }
        seed = check_int("seed", seed, least=0, most=(1 << 64) - 1)
        own = order is not None
        planned = plan_columns(schema, self.dictionaries, fills)
        if order is None:
            shuffled = check_flag("shuffle", shuffle)
            order = _make_order(files, planned, cache_bytes, seed) if shuffled else SequentialOrder(len(files))
        maker = TableMaker(
            files,
            planned,
            {each.name for each in schema if each.nullable and nulls == "mask" and each.name not in fills},
            order=order,
            has_own_order=own,
            nulls=nulls,
            cache_bytes=cache_bytes,
            **pick(locals(), MADE_WITH),
        )
        super().__init__(
            files,
            batch_size,
            maker.media,
            lambda: maker,
            **{**pick(locals(), SHARED_BY_SAMPLES), "shuffle": shuffle and own},
        )


def _open(source: Any, columns: Sequence[str] | None, filters: Any) -> ParquetFiles:
    if not isinstance(source, ParquetFiles):
        return ParquetFiles(source, columns=columns, filters=filters)
    if filters is not None:
        refuse(ValueError, "filters", "None with a `ParquetFiles`, which has its own", filters)
    # A copy, whose columns are read for this loader alone.
    return source.select(source.schema.names if columns is None else columns)


def _check_names(argument: str, given: Any, names: list[str], kind: str = "columns") -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        refuse(TypeError, argument, "a mapping with names of columns, or None", given)
    for name in given:
        if name not in names:
            known = f"such as {', '.join(names[:5])}" if names else "and there is none"
            refuse(ValueError, argument, f"a mapping with names of {kind}, {known}", name)
    return dict(given)


def _refuse_nulls(files: ParquetFiles, fills: Mapping[str, Any]) -> None:
    counts = {name: count for name, count in count_nulls(files).items() if name not in fills}
    if counts:
        found = ", ".join(f"{count} in {name!r}" for name, count in counts.items())
        remedy = (
            'Pass nulls="mask", or fill_null={column: value}, or on_error="skip" to leave out rows with nulls, or '
            "filters such as pc.field(column).is_valid()."
        )
        refuse(ValueError, "nulls", '"mask", since the statistics of the files count nulls', found, remedy)


def _find_dictionary(files: ParquetFiles, name: str, type_: Any, given: Any) -> Any:
    if given is None:
        return distinct_values(files, name, type_)
    try:
        values = given.cast(type_) if isinstance(given, pa.Array) else pa.array(given, type_)
        # Numbers would become text in silence.
        if isinstance(given, pa.Array) and pa.types.is_primitive(given.type) != pa.types.is_primitive(type_):
            raise TypeError(f"It is an array of {given.type}.")  # noqa: TRY301
    except (pa.ArrowException, TypeError) as error:
        refuse(TypeError, f"dictionaries[{name!r}]", f"values of {type_}", given, str(error))
    if values.null_count or len(values.unique()) != len(values):
        refuse(ValueError, f"dictionaries[{name!r}]", "values without nulls, each once", given)
    if not len(values):
        refuse(ValueError, f"dictionaries[{name!r}]", "at least one value", given)
    return values


def _make_order(files: ParquetFiles, columns: Sequence[Column], cache_bytes: int, seed: int) -> EpochOrder:
    beside = Packing(columns).beside
    sizes = [size + beside * rows for size, rows in zip(sizes_of(files), files.block_sizes, strict=True)]
    if sum(sizes) <= cache_bytes:
        return ShuffledOrder(len(files), seed=seed)
    window = max(1, cache_bytes // 2 // max(sizes))
    return BlockShuffledOrder(len(files), block=files.block_sizes, window=window, seed=seed)
