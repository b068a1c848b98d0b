"""The rows of Parquet files as records, whose row groups are read when they are needed."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_int, refuse
from spdl._processes import RenewedLock
from spdl.source._place import find_places
from spdl.source._prefetch import ByteCache, prefetch, read_ahead
from spdl.source._shards.parquet_shard import ParquetShard, RowGroups, RowSlice, import_arrow, to_expression
from spdl.source._shards.parquet_tables import cast_table, group_tables, plain_schema
from spdl.source._shards.row_groups import GroupTables
from spdl.source._shards.sharded import ShardedRecords

if TYPE_CHECKING:
    from spdl.store import Store

_ROWS = 256
# Small row groups are decoded together, since each call costs some hundred microseconds.
_PIECE = 1 << 23
# A piece is no larger than this share of the bytes that may be held.
_SHARES = 16


class ParquetFiles(ShardedRecords[dict[str, Any], ParquetShard]):
    """The rows of Parquet files: in any order, with the columns that are wanted, from this machine or a store.

    A record is the dict of a row by the names of its columns, as pyarrow's ``to_pylist`` has it; images and sounds in
    files of Hugging Face's datasets are their encoded bytes, which the loaders decode. `tables_from` yields
    whole row groups as tables of pyarrow instead, which is much faster for numbers. Row groups are the unit: to read a
    row, its row group is decoded. So take an order that goes through few at a time: ``BlockShuffledOrder(len(files),
    block=files.block_sizes)``.

    Only the chosen columns are read. For an object in a store, a row group is one call, and those that follow are
    fetched in advance.

    Args:
        files: The files in the order of their rows: paths, URLs or patterns such as ``train-{00000..00099}.parquet``.
        store: The store of the files, unless they are on this machine or named by URLs; paths are relative to the
            store.
        columns: The names of the columns to read. None reads all.
        filters: Which rows are records: an expression of pyarrow such as ``pc.field("age") > 17``, or a list of tuples
            such as ``[("age", ">", 17), ("country", "in", ["ch", "se"])]``, as ``pyarrow.parquet.read_table`` takes
            them; the columns may be others than `columns`. A row for which the condition is null is left out. Row
            groups whose statistics exclude all rows are not read. Of the others, the columns in the condition are read
            once, when this is made, so that the number of rows is exact. Of groups that fulfil it in part, four bytes
            for each chosen row stay in memory.
        prefetch_bytes: How many bytes may be held in addition to the row groups in use; an iterator has at most
            three of those: what is fetched in advance, and row groups that were decoded for single rows and may be
            needed again.
            More makes up for a store that answers late, and for orders that go through many row groups at a time.

    Raises:
        ImportError: If pyarrow is not installed: ``pip install 'spdl-turbo[parquet]'``.
        TypeError: If an argument has the wrong type.
        ValueError: If it would have no rows, or a file does not have one of the columns.
        FormatError: If a file is not a Parquet file; when it is read, if it is damaged.
        OSError: If a file cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> from spdl.source import ParquetFiles
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = pa.table({"text": ["a", "b", "c", "d"], "label": [0, 1, 0, 1], "url": [""] * 4})
        ...     pq.write_table(table, Path(folder, "train.parquet"), row_group_size=3)
        ...     rows = ParquetFiles(f"{folder}/train.parquet", columns=["text", "label"])
        ...     row = rows[2]
        >>> len(rows), rows.block_sizes, row
        (4, [3, 1], {'text': 'c', 'label': 0})
    """

    def __init__(
        self,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        store: Store | None = None,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        prefetch_bytes: int = 1 << 27,
    ) -> None:
        import_arrow("ParquetFiles")
        places = find_places("files", files, store, "*.parquet")
        _check_columns(columns)
        self._filters = None if filters is None else to_expression(filters)
        self._prefetch_bytes = check_int("prefetch_bytes", prefetch_bytes, least=0)
        self._lock = RenewedLock()
        self._tables: GroupTables | None = None
        cache = ByteCache(self._prefetch_bytes)
        super().__init__([ParquetShard(place, columns, cache, self._filters) for place in places])
        if not len(self):
            if self._filters is not None:
                refuse(ValueError, "filters", "a condition that some rows fulfil", self._filters)
            refuse(ValueError, "files", "files with rows in them", files)

    def select(self, columns: Sequence[str]) -> ParquetFiles:
        """Return the same rows with some of the columns. No file is opened again.

        Args:
            columns: Their names.

        Raises:
            TypeError, ValueError: If they are not names of columns of all files.
        """
        _check_columns(columns)
        chosen = copy.copy(self)
        ShardedRecords.__init__(chosen, [copy.copy(shard) for shard in self._shards])
        cache = ByteCache(self._prefetch_bytes)
        for shard in chosen._shards:  # noqa: SLF001 - a copy of this one.
            shard.narrow(columns, cache)
        return chosen

    def fingerprint(self) -> str:
        """Return a short text that says which rows in which order these are, wherever the files are.

        It is made of the files' names, how many rows each has, and which of them fulfil `filters`.
        """
        own = super().fingerprint()
        if self._filters is None:
            return own
        numbers = b"".join(b"%d " % shard.digest for shard in self._shards)
        return f"{own}:{crc32(numbers):08x}"

    def table(self, positions: Sequence[int] | NDArray[np.integer]) -> Any:
        """Return the rows at some positions as a table of pyarrow.

        This is the fast way to rows in any order. Their row groups are decoded once and kept, as many as fit into
        `prefetch_bytes`; several threads may call at once, and then share the decoding. Take an order that goes through
        few row groups at a time, such as ``BlockShuffledOrder``, or a limit that all of them fit into: else each call
        decodes again what it needs, piece by piece. `spdl.dataloader.TableLoader` makes batches of tensors this way.

        Args:
            positions: Integers in any order, also several times. Negative ones count from the end.

        Returns:
            A table with a row for each position, in their order. Dictionaries within lists are given as their values.

        Raises:
            TypeError: If they are not integers.
            IndexError: If there is no such row.
            FormatError: If a file is damaged, or has columns of other types than the first one.
            OSError: If a file cannot be read.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> import pyarrow as pa
            >>> import pyarrow.parquet as pq
            >>> from spdl.source import ParquetFiles
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     pq.write_table(pa.table({"x": range(10)}), Path(folder, "a.parquet"), row_group_size=4)
            ...     table = ParquetFiles(f"{folder}/a.parquet").table([7, 0, -1, 7])
            >>> table["x"].to_pylist()
            [7, 0, 9, 7]
        """
        wanted = self._to_positions(positions)
        if not wanted.size:
            return plain_schema(self.schema).empty_table()
        found = self._open_tables().read(wanted)
        if found.errors:
            # A copy, since each caller's frames are noted in what it gets.
            raise copy.copy(found.errors[0][1])
        return found.table

    def _open_tables(self) -> GroupTables:
        with self._lock:
            if self._tables is None:
                schema = plain_schema(self.schema)
                self._tables = group_tables(
                    self._shards, lambda table, _: cast_table(table, schema), self._prefetch_bytes
                )
            return self._tables

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tables": None}

    @property
    def schema(self) -> Any:
        """The pyarrow schema of the columns that are read, as the first file has it."""
        return self._shards[0].schema

    @property
    def block_sizes(self) -> list[int]:
        """A new list of how many rows each row group has, of all files, without those that have none."""
        return [size for shard in self._shards for size in shard.group_sizes if size]

    def locate(self, position: int) -> tuple[str, int, int]:
        """Return the place of a row: the path of its file, the number of its row group there, and the row in that.

        Args:
            position: That of the row. A negative one counts from the end.

        Raises:
            IndexError: If there is no such row.
        """
        shard, number = self._find(self._check(position))
        return shard.place.path, *shard.locate(number)

    def _to_positions(self, positions: Any) -> NDArray[np.int64]:
        wanted = np.asarray(positions)
        if wanted.size and (wanted.ndim != 1 or wanted.dtype.kind not in "iu"):
            refuse(TypeError, "positions", "a list or an array of integers", positions)
        wanted = wanted.astype(np.int64).reshape(-1)
        size = len(self)
        wanted = np.where(wanted < 0, wanted + size, wanted)
        outside = np.flatnonzero((wanted < 0) | (wanted >= size))
        if outside.size:
            raise IndexError(f"{self!r} has no position {positions[int(outside[0])]}")
        return wanted

    def tables_from(self, position: int = 0) -> Iterator[Any]:
        """Return an iterator over the rows from a position on, as tables of pyarrow.

        A table has a row group, or several small ones. While one is used, the next is decoded in another thread.

        Args:
            position: That of the first row, from 0 to the number of rows.

        Raises:
            TypeError, ValueError: If it is not an int in that range.
        """
        begin = check_int("position", position, least=0, most=len(self))
        return (rows.table for rows in self._decoded(begin))

    def iterate_from(self, position: int) -> Iterator[dict[str, Any]]:
        return self._rows(check_int("position", position, least=0, most=len(self)))

    def _rows(self, begin: int) -> Iterator[dict[str, Any]]:
        for shard, number, table in self._decoded(begin):
            for first in range(0, len(table), _ROWS):
                yield from shard.to_records(RowSlice(shard, number + first, table.slice(first, _ROWS)))

    def _decoded(self, begin: int) -> Iterator[RowSlice]:
        if begin == len(self):
            return iter(())
        first, number = self._locate(begin)
        most = min(_PIECE, self._prefetch_bytes // _SHARES)
        pieces = chain.from_iterable(
            shard.pieces(number if place == first else 0, most)
            for place, shard in enumerate(self._shards[first:], first)
            if len(shard)
        )
        ready: Iterator[Callable[[], RowSlice]]
        if self._ahead():
            # Up to three pieces are used or decoded, whose bytes are here as well.
            room = self._prefetch_bytes - 6 * most
            ready = prefetch(RowGroups.fetch, pieces, lambda piece: piece.stored, room)
        else:
            ready = map(RowGroups.fetch, pieces)
        return read_ahead(lambda decode: [decode()], ready, 1)


def _check_columns(columns: Any) -> None:
    accepted = "a list of names of columns, or None"
    if columns is None:
        return
    if isinstance(columns, str | bytes) or not isinstance(columns, Sequence):
        refuse(TypeError, "columns", accepted, columns)
    if not all(isinstance(name, str) for name in columns):
        refuse(TypeError, "columns", accepted, columns)
    if not columns or len(set(columns)) != len(columns):
        refuse(ValueError, "columns", f"{accepted}, at least one and each once", columns)
