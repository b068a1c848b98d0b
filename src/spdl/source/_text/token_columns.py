"""Columns of token ids: of Parquet and Arrow files, and of MDS shards."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from spdl.io import FormatError
from spdl.io._shared import kept_arrays
from spdl.source._place import Place
from spdl.source._prefetch import ByteCache
from spdl.source._shards.indexed import PackedShard
from spdl.source._shards.parquet_shard import ParquetShard, import_arrow
from spdl.source._shards.sharded import LazyShard, kept_name
from spdl.source._text.bounds import Integers, Lengths, Numbers, narrowed
from spdl.source._text.token_shard import Cuts, Options, Parts, Tokens, TokenShard

_VERSION = 1
_FILE = b"ARROW1"
_AT_ONCE = 1024
"""So that a store is asked for many documents in one call."""


class ColumnShard(TokenShard):
    _named = "input_ids"

    @property
    def _column(self) -> str:
        return self.options.column or self._named

    @abc.abstractmethod
    def _read(self, numbers: list[int]) -> list[Tokens]:
        """Whole documents."""

    def read(self, numbers: list[int], within: Cuts | None = None) -> list[Tokens]:
        found = self._read(numbers)
        if within is not None:
            starts, lengths = self.cut(numbers, np.array([len(ids) for ids in found], np.int64), within)
            spans = zip(found, starts.tolist(), lengths.tolist(), strict=True)
            found = [ids[start : start + length] for ids, start, length in spans]
        return self.check_ids(numbers, found)

    def _kept(self, place: Place) -> Lengths:
        """Return the lengths, which take reading all of the file: once, since a cache keeps them."""
        name = kept_name(f"token lengths {_VERSION}\n{self._column}", place, place.describe())
        lengths: Integers = kept_arrays("tokens", name, self.options.cache, self._measure)["lengths"]
        if len(lengths) != len(self):
            raise FormatError(f"{place} was written again since this source was made: make the source again")
        return narrowed(lengths)

    def _measure(self) -> Mapping[str, Any]:
        raise NotImplementedError


class ArrowLists:
    """The lists of integers of a chunked column of pyarrow, as NumPy arrays of Arrow's memory."""

    def __init__(self, where: str, column: Any) -> None:
        self._chunks = [_lists(where, chunk) for chunk in column.chunks]
        self._starts = np.cumsum([0, *(len(offsets) - 1 for offsets, _ in self._chunks)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, numbers: list[int]) -> list[Tokens]:
        chunks = np.searchsorted(self._starts, numbers, "right") - 1
        rows = numbers - self._starts[chunks]
        found = []
        for chunk, row in zip(chunks.tolist(), rows.tolist(), strict=True):
            offsets, values = self._chunks[chunk]
            found.append(values[offsets[row] : offsets[row + 1]])
        return found

    def lengths(self) -> Integers:
        if not self._chunks:
            return np.empty(0, np.int64)
        return np.concatenate([np.diff(offsets) for offsets, _ in self._chunks]).astype(np.int64)


def dtype_of(where: str, kind: Any) -> np.dtype[Any]:
    arrow, _ = import_arrow("Reading token ids from Parquet and Arrow files")
    types = arrow.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_type
        if types.is_integer(inner):
            dtype: np.dtype[Any] = np.dtype(inner.to_pandas_dtype())
            return dtype
    raise FormatError(f"{where} has the type {kind}, and token ids are lists of integers")


def _lists(where: str, chunk: Any) -> tuple[Numbers, Tokens]:
    arrow, _ = import_arrow("Reading token ids from Parquet and Arrow files")
    dtype = dtype_of(where, chunk.type)
    try:
        # Arrow trusts what it is given: a damaged offset would be read as an address.
        chunk.validate(full=True)
    except (arrow.ArrowException, ValueError) as error:
        raise FormatError(f"{where} is damaged: {error}") from error
    if chunk.null_count:
        raise FormatError(f"{where} has null in the place of {chunk.null_count} documents: write it without")
    if arrow.types.is_fixed_size_list(chunk.type):
        values = chunk.flatten()
        offsets = np.arange(len(chunk) + 1) * chunk.type.list_size
    else:
        offsets = chunk.offsets.to_numpy()
        values = chunk.values.slice(0, int(offsets[-1]))
    if values.null_count:
        raise FormatError(f"{where} has null in the place of a token: write it without")
    return offsets, values.to_numpy(zero_copy_only=True).astype(dtype, copy=False)


class ArrowShard(ColumnShard, LazyShard[tuple[ArrowLists, "np.dtype[Any]"]]):
    """An Arrow file or stream, as Hugging Face datasets are on disk: mapped, or read whole from a store."""

    def __init__(self, place: Place, options: Options) -> None:
        LazyShard.__init__(self, place)
        super().__init__(place, options)
        self._parts = Parts()

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._open()[1]

    def __len__(self) -> int:
        return len(self._open()[0])

    def lengths(self) -> Lengths:
        return narrowed(self._open()[0].lengths())

    def _read(self, numbers: list[int]) -> list[Tokens]:
        return self._open()[0].read(numbers)

    def _load(self) -> tuple[ArrowLists, np.dtype[Any]]:
        arrow, _ = import_arrow("TokenFiles of Arrow files")
        import pyarrow.ipc  # noqa: PLC0415 - an optional dependency.

        content = self._parts.open(self.place).whole()
        where = f"{self.place}, column {self._column!r},"
        try:
            # Its threads would let go of Python's memory later, maybe when the interpreter has ended.
            options = partial(pyarrow.ipc.IpcReadOptions, use_threads=False)
            buffer = arrow.py_buffer(content)
            is_file = bytes(content[: len(_FILE)]) == _FILE
            open_ipc = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
            column = _find(self.place, open_ipc(buffer, options=options()).schema, self._column)
            table = open_ipc(buffer, options=options(included_fields=[column])).read_all()
        except FormatError:
            raise
        except (arrow.ArrowException, OSError, MemoryError, ValueError) as error:
            raise FormatError(f"{self.place} is not an Arrow file that can be read: {error}") from error
        dtype = self.options.checked(self.place, dtype_of(where, table.schema.field(0).type))
        return ArrowLists(where, table.column(0)), dtype


def _find(place: Place, schema: Any, column: str) -> int:
    if schema.names.count(column) != 1:
        raise FormatError(
            f"{place} has the columns {', '.join(schema.names)}, and one of the name {column!r} is wanted: say which, "
            "as `column`"
        )
    return int(schema.get_field_index(column))


class ParquetTokens(ColumnShard):
    """A Parquet file, whose row groups are decoded when they are needed, and kept in a cache."""

    def __init__(self, place: Place, options: Options, cache: ByteCache) -> None:
        super().__init__(place, options)
        self._shard = ParquetShard(place, [self._column], cache, argument="column")
        self._cache = cache

    @property
    def dtype(self) -> np.dtype[Any]:
        kind = self._shard.schema.field(self._column).type
        return self.options.checked(self.place, dtype_of(self._where, kind))

    def __len__(self) -> int:
        return len(self._shard)

    def blocks(self) -> list[int]:
        return self._shard.group_sizes

    def lengths(self) -> Lengths:
        return self._kept(self.place)

    def _measure(self) -> Mapping[str, Any]:
        groups = (self._decode(group)[0].lengths() for group in range(len(self._shard.group_sizes)))
        return {"lengths": np.concatenate([np.empty(0, np.int64), *groups])}

    def _read(self, numbers: list[int]) -> list[Tokens]:
        found: list[Any] = [None] * len(numbers)
        for group, (places, rows) in self._shard.grouped(numbers).items():
            lists = self._cache.get((id(self), group), lambda group=group: self._decode(group))  # type: ignore[misc]
            for place, ids in zip(places, lists.read(rows), strict=True):
                # A view would keep all of the row group.
                found[place] = ids.copy()
                found[place].setflags(write=False)
        return found

    def _decode(self, group: int) -> tuple[ArrowLists, int]:
        table = self._shard.read_group(group)
        return ArrowLists(f"{self._where} row group {group},", table.column(0)), table.nbytes

    @property
    def _where(self) -> str:
        return f"{self.place}, column {self._column!r},"


class MDSTokens(ColumnShard):
    """A shard of MosaicML Streaming with a column of arrays, or of their bytes."""

    _named = "tokens"

    def __init__(self, place: Place, options: Options, shard: PackedShard) -> None:
        super().__init__(place, options)
        self._shard = shard
        self._dtype: np.dtype[Any] | None = None
        self._is_looked_at = False
        self._parts = Parts()
        self._is_same = False

    @property
    def dtype(self) -> np.dtype[Any] | None:
        if not self._is_looked_at:
            if len(self._shard):
                self._dtype = self.options.checked(self.place, self._array(0, self._shard.read([0])[0]).dtype)
            self._is_looked_at = True
            self._parts.open(self.place)
        return self._dtype

    def __len__(self) -> int:
        return len(self._shard)

    def lengths(self) -> Lengths:
        return self._kept(self.place)

    def _measure(self) -> Mapping[str, Any]:
        lengths = [
            len(ids)
            for first in range(0, len(self), _AT_ONCE)
            for ids in self._read(list(range(first, min(first + _AT_ONCE, len(self)))))
        ]
        return {"lengths": np.array(lengths, np.int64)}

    def _read(self, numbers: list[int]) -> list[Tokens]:
        if not self._is_same:
            # In a copy the shard is opened again, and it knows only how many samples it has.
            self._parts.open(self.place)
            self._is_same = True
        found = [self._array(*each) for each in zip(numbers, self._shard.read(numbers), strict=True)]
        for number, ids in zip(numbers, found, strict=True):
            if ids.dtype != self.dtype:
                raise FormatError(
                    f"{self.place}, document {number}, has tokens of {ids.dtype}, and the first one of {self.dtype}"
                )
        return found

    def _array(self, number: int, record: dict[str, Any]) -> Tokens:
        where = f"{self.place}, document {number}:"
        column = self._column
        if column not in record:
            raise FormatError(f"{where} its columns are {', '.join(record)}, not {column!r}: say which, as `column`")
        value = record[column]
        if isinstance(value, bytes):
            if self.options.dtype is None:
                raise FormatError(
                    f"{where} the column {column!r} has bytes, which do not say their type: dtype='int64' if "
                    "llm-foundry wrote them"
                )
            if len(value) % self.options.dtype.itemsize:
                raise FormatError(f"{where} it has {len(value)} bytes, and a token has {self.options.dtype.itemsize}")
            value = np.frombuffer(value, self.options.dtype) if value else np.empty(0, self.options.dtype)
        if not isinstance(value, np.ndarray) or value.ndim != 1:
            raise FormatError(f"{where} the column {column!r} has {type(value).__name__}, not arrays of one dimension")
        value.setflags(write=False)
        return value

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_is_same": False}
