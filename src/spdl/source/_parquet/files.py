"""The rows of Parquet files as records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from spdl._check import check_int, refuse
from spdl.source._parquet.shard import ParquetShard, RowGroups, Rows, import_arrow
from spdl.source._records.place import find_places
from spdl.source._records.read_ahead import ByteCache, prefetch, read_ahead
from spdl.source._records.sharded import ShardedRecords

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from spdl.store import Store

__all__ = ["ParquetFiles"]

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

    Only the chosen columns are read. Of an object in a store a row group is one call, and those that follow are fetched
    in advance.

    Args:
        files: The files in the order of their rows: paths, URLs or patterns such as ``train-{00000..00099}.parquet``.
        store: Where the files are, if neither on this machine nor where URLs say; paths are those of the store.
        columns: The names of the columns to read. None reads all.
        prefetch_bytes: How many bytes may be held besides the row groups in use, of which an iterator has at most
            three: what is fetched in advance, and row groups that were decoded for single rows and may be needed again.
            More makes up for a store that answers late, and for orders that go through many row groups at a time.

    Raises:
        ImportError: If pyarrow is not installed: ``pip install 'spdl-turbo[parquet]'``.
        TypeError: If an argument has the wrong type.
        ValueError: If there are no rows, or a file does not have one of the columns.
        FormatError: If a file is no Parquet file; when it is read, if it is damaged.
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
        prefetch_bytes: int = 1 << 27,
    ) -> None:
        import_arrow("ParquetFiles")
        places = find_places("files", files, store)
        _check_columns(columns)
        self._prefetch_bytes = check_int("prefetch_bytes", prefetch_bytes, least=0)
        cache = ByteCache(self._prefetch_bytes)
        super().__init__([ParquetShard(place, columns, cache) for place in places])
        if not len(self):
            refuse(ValueError, "files", "files with rows in them", files)

    @property
    def schema(self) -> Any:
        """The pyarrow schema of the columns that are read, as the first file has it."""
        return self._shards[0].schema

    @property
    def block_sizes(self) -> list[int]:
        """A new list of how many rows each row group has, of all files, without those that have none."""
        return [size for shard in self._shards for size in shard.group_sizes if size]

    def locate(self, position: int) -> tuple[str, int, int]:
        """Return where a row lies: the path of its file, the number of its row group there, and the row in that.

        Args:
            position: That of the row. A negative one counts from the end.

        Raises:
            IndexError: If there is no such row.
        """
        shard, number = self._find(self._check(position))
        return shard.place.path, *shard.locate(number)

    def tables_from(self, position: int = 0) -> Iterator[Any]:
        """Return an iterator over the rows from a position on, as tables of pyarrow.

        A table has a row group, or several small ones. While one is used, the next is decoded in another thread.

        Args:
            position: That of the first row, from 0 to the number of rows.

        Raises:
            TypeError, ValueError: If it is no int in that range.
        """
        begin = check_int("position", position, least=0, most=len(self))
        return (rows.table for rows in self._decoded(begin))

    def iterate_from(self, position: int) -> Iterator[dict[str, Any]]:
        """Return an iterator over the rows from a position on, which begins there at once.

        Args:
            position: From 0 to the number of rows.

        Raises:
            TypeError, ValueError: If it is no int in that range.
        """
        return self._rows(check_int("position", position, least=0, most=len(self)))

    def _rows(self, begin: int) -> Iterator[dict[str, Any]]:
        for shard, number, table in self._decoded(begin):
            for first in range(0, len(table), _ROWS):
                yield from shard.to_records(Rows(shard, number + first, table.slice(first, _ROWS)))

    def _decoded(self, begin: int) -> Iterator[Rows]:
        if begin == len(self):
            return iter(())
        first, number = self._locate(begin)
        most = min(_PIECE, self._prefetch_bytes // _SHARES)
        pieces = chain.from_iterable(
            shard.pieces(number if place == first else 0, most)
            for place, shard in enumerate(self._shards[first:], first)
            if len(shard)
        )
        ready: Iterator[Callable[[], Rows]]
        if self._ahead():
            # Up to three pieces are used or decoded, whose bytes are here as well.
            ready = prefetch(_fetch, pieces, lambda piece: piece.stored, self._prefetch_bytes - 6 * most)
        else:
            ready = map(_fetch, pieces)
        return read_ahead(_decode, ready, 1)


def _fetch(piece: RowGroups) -> Callable[[], Rows]:
    return piece.shard.fetch(piece)


def _decode(decode: Callable[[], Rows]) -> list[Rows]:
    return [decode()]


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
