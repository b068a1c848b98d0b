"""The rows of Parquet files as records, whose row groups are read when they are needed."""

from __future__ import annotations

import atexit
import copy
import io
import os
import threading
import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from spdl._check import check_int, refuse
from spdl._processes import RenewedLock
from spdl.io import FormatError
from spdl.io._shared import ChangedError
from spdl.source._hub import find_media, unwrap
from spdl.source._place import Place, find_places
from spdl.source._prefetch import ByteCache, prefetch, read_ahead
from spdl.source._shards.parquet_filter import check_filters, choose_rows, to_expression
from spdl.source._shards.parquet_tables import cast_table, group_tables, plain_schema
from spdl.source._shards.row_groups import GroupTables
from spdl.source._shards.sharded import Contents, ShardedRecords, open_contents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spdl.store import Entry, Store


def import_arrow(who: str) -> tuple[Any, Any]:
    """Return the modules ``pyarrow`` and ``pyarrow.parquet``.

    Raises:
        ImportError: If it is not installed; the message has the command.
    """
    try:
        import pyarrow  # noqa: ICN001, PLC0415 - an optional dependency.
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"{who} needs pyarrow. Install it with: pip install 'spdl-turbo[parquet]'") from error
    return pyarrow, pyarrow.parquet


class RangeFile(io.RawIOBase):
    """A file whose ranges are fetched together; what is read beside them is fetched by itself.

    Args:
        contents: The object.
        size: Its size in bytes.
    """

    def __init__(self, contents: Contents, size: int) -> None:
        super().__init__()
        self._contents = contents
        self._size = size
        self._place = 0
        self._starts: list[int] = []
        self._parts: list[memoryview] = []

    def fetch(self, ranges: list[tuple[int, int]]) -> None:
        """Fetch ranges, given by their starts and lengths, in one call of the store."""
        starts: list[int] = []
        lengths: list[int] = []
        for start, length in sorted(each for each in ranges if each[1]):
            # Neighbours are one piece of memory: many small ones are not given back to the system.
            if starts and start == starts[-1] + lengths[-1]:
                lengths[-1] += length
            else:
                starts.append(start)
                lengths.append(length)
        self._starts, self._parts = starts, self._contents.read(starts, lengths)

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the bytes that follow; fewer at the end."""
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int | None = -1, /) -> memoryview:
        """Return the bytes that follow, as a view if they are here. pyarrow prefers it to `read`."""
        place = self._place
        left = self._size - place
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted <= 0:
            return memoryview(b"")
        self._place = place + wanted
        number = bisect_right(self._starts, place) - 1
        if number >= 0:
            begin = place - self._starts[number]
            if begin + wanted <= len(self._parts[number]):
                return lend(self._parts[number][begin : begin + wanted])
        return lend(self._contents.read([place], [wanted])[0])

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True


_SECONDS = 2.0
_NAP = 0.0005

# By the numbers of the references: their hash would be the hash of the content.
_lent: dict[int, weakref.ref[memoryview]] = {}
_returned: list[weakref.ref[memoryview]] = []


_ending = threading.Event()
"""Set when the interpreter is about to end."""


def lend(view: memoryview) -> memoryview:
    """Return a view of memory that is given to pyarrow, after noting it.

    A task of pyarrow's threads gives its result away before it lets go what it has used, and to let go something of
    Python it takes the GIL. If the interpreter ends then, CPython ends the thread, in the midst of a destructor:
    "terminate called without an active exception", and the process is aborted.
    """
    # A method of C, and so what is returned is counted without another turn of the interpreter in that thread.
    reference = weakref.ref(view, _returned.append)
    _lent[id(reference)] = reference
    _settle()
    return view


def take_back_at_exit() -> None:
    """Wait for what was lent, if the interpreter is about to end: called by the lender of views when it is done."""
    if _ending.is_set():
        _take_back()


def _settle() -> None:
    while _returned:
        try:
            reference = _returned.pop()
        except IndexError:  # Another thread was here first.
            return
        _lent.pop(id(reference), None)


def _take_back() -> None:
    deadline = time.monotonic() + _SECONDS
    _settle()
    while _lent and time.monotonic() < deadline:
        time.sleep(_NAP)
        _settle()


def _end() -> None:
    # Threads of pipelines may go on to read until their own turn comes.
    _ending.set()
    _take_back()


atexit.register(_end)


_TAIL = 1 << 16


class RowGroups(NamedTuple):
    """Row groups of a file that follow each other, which are read together."""

    shard: ParquetShard
    groups: list[int]
    stored: int
    """How many bytes their columns take in the file."""
    skip: int
    """How many rows at the beginning are left out."""


class RowSlice(NamedTuple):
    """Rows of a file that follow each other, as a table of pyarrow."""

    shard: ParquetShard
    first: int
    """The number of the first row in the file."""
    table: Any


class ParquetShard:
    """A Parquet file whose rows are read by their numbers. Its footer is read when it is first asked for something.

    Args:
        place: The place of the file.
        columns: The names of the columns to read; None reads all.
        cache: Keeps row groups that were read.
        filters: An expression of pyarrow that its rows have to fulfil, or None.
    """

    def __init__(self, place: Place, columns: Sequence[str] | None, cache: ByteCache, filters: Any = None) -> None:
        self.place = place
        self._columns = None if columns is None else list(columns)
        self._cache = cache
        self._filters = filters
        # Of each row group, unless all of its rows are chosen.
        self._chosen: dict[int, NDArray[np.uint32]] = {}
        self._threads = True
        self._dictionaries: list[str] = []
        self._size = 0
        self._metadata: Any = None
        # Which file the metadata are of.
        self._state: tuple[int, int, int] | None = None
        self._entry: Entry | None = None
        self._starts: list[int] = []
        self._media: list[str] = []
        self._lock = RenewedLock()

    def __len__(self) -> int:
        return self._open()[-1]

    @property
    def schema(self) -> Any:
        """The pyarrow schema of the columns."""
        self._open()
        schema = self._metadata.schema.to_arrow_schema()
        if self._columns is None:
            return schema
        arrow, _ = import_arrow("ParquetFiles")
        return arrow.schema([schema.field(name) for name in self._columns], schema.metadata)

    @property
    def group_sizes(self) -> list[int]:
        """How many rows of each row group are records."""
        starts = self._open()
        return [end - start for start, end in pairwise(starts)]

    @property
    def metadata(self) -> Any:
        """The metadata of pyarrow."""
        self._open()
        return self._metadata

    @property
    def digest(self) -> int:
        """A number that depends on which rows are records."""
        self._open()
        found = 0
        for group, rows in sorted(self._chosen.items()):
            found = crc32(rows.astype("<u4").tobytes(), crc32(b"%d" % group, found))
        return found

    def narrow(self, columns: Sequence[str] | None, cache: ByteCache) -> None:
        """Read some of the columns from now on. For a copy that nothing has read from yet."""
        self._open()
        self._cache = cache
        if columns is not None:
            self._columns = list(columns)
            self._check_names(self._metadata.schema.to_arrow_schema().names)

    def read_group(self, group: int) -> Any:
        """Return the rows of a row group as a table.

        Raises:
            FormatError: If the file is damaged.
            OSError: If it cannot be read.
        """
        return self.fetch(RowGroups(self, [group], 0, 0))().table

    def as_codes(self, names: list[str]) -> None:
        """Read columns of text as dictionaries from now on, in the thread that asks for them."""
        self._open()
        leaves = [self._metadata.schema.column(number) for number in range(self._metadata.num_columns)]
        self._threads = False
        # Others than plain columns of bytes cannot be read so.
        self._dictionaries = [leaf.path for leaf in leaves if leaf.path in names and leaf.physical_type == "BYTE_ARRAY"]

    def locate(self, number: int) -> tuple[int, int]:
        """Return the row group that a row lies in, and its number there."""
        group, row = self._find(number)
        chosen = self._chosen.get(group)
        return group, row if chosen is None else int(chosen[row])

    def _find(self, number: int) -> tuple[int, int]:
        starts = self._open()
        group = bisect_right(starts, number) - 1
        return group, number - starts[group]

    def read(self, numbers: list[int]) -> list[dict[str, Any]]:
        """Return rows as dicts.

        Raises:
            FormatError: If the file is damaged.
            OSError: If it cannot be read.
        """
        wanted: dict[int, tuple[list[int], list[int]]] = {}
        for place, number in enumerate(numbers):
            group, row = self._find(number)
            places, rows = wanted.setdefault(group, ([], []))
            places.append(place)
            rows.append(row)
        records: list[dict[str, Any]] = [{}] * len(numbers)
        for group, (places, rows) in wanted.items():
            table = self._cache.get((id(self), group), lambda group=group: self._read_group(group))  # type: ignore[misc]
            found = self.to_records(RowSlice(self, self._starts[group] + rows[0], table.take(rows)))
            for place, record in zip(places, found, strict=True):
                records[place] = record
        return records

    def to_records(self, rows: RowSlice) -> list[dict[str, Any]]:
        """Return rows as dicts; images and sounds of Hugging Face's datasets as their encoded bytes.

        Raises:
            FormatError: If a value has no Python equivalent, such as text that is not UTF-8.
        """
        try:
            records: list[dict[str, Any]] = rows.table.to_pylist()
        except (ValueError, OverflowError) as error:
            remedy = "`tables_from` gives such values as they are; `columns` leaves their column out"
            raise FormatError(f"{self.place}, in the rows from {rows.first} on: {error}: {remedy}") from error
        if self._media:
            unwrap(records, self._media)
        return records

    def pieces(self, first: int, most: int) -> Iterator[RowGroups]:
        """Yield the row groups from a row on, in pieces of a number of bytes, or of one row group if that is larger."""
        group, skip = self._find(first)
        groups: list[int] = []
        size = stored = 0
        for number in range(group, len(self._starts) - 1):
            if self._starts[number] == self._starts[number + 1]:
                continue
            own, own_stored = self._sizes(number)
            if groups and size + own > most:
                yield RowGroups(self, groups, stored, skip)
                groups, size, stored, skip = [], 0, 0, 0
            groups.append(number)
            size += own
            stored += own_stored
        yield RowGroups(self, groups, stored, skip)

    def fetch(self, piece: RowGroups) -> Callable[[], RowSlice]:
        """Fetch what a piece needs from the store, and return a function that decodes it."""
        source: Any
        arrow, _ = import_arrow("ParquetFiles")
        if self.place.store is None:
            source = arrow.memory_map(self.place.path)
            if _state(self.place.path) != self._state:
                source.close()
                raise ChangedError(
                    f"{self.place} was written again since this source was made, so its rows lie elsewhere: make the "
                    "source again"
                )
        else:
            file = RangeFile(open_contents(self.place, self._entry), self._size)
            file.fetch(self._ranges(piece.groups))
            source = arrow.PythonFile(file, mode="r")

        def decode() -> RowSlice:
            try:
                table = self._decode(source, piece.groups)
            finally:
                take_back_at_exit()
            first = self._starts[piece.groups[0]] + piece.skip
            return RowSlice(self, first, table.slice(piece.skip) if piece.skip else table)

        return decode

    def _read_group(self, group: int) -> tuple[Any, int]:
        table = self.read_group(group)
        return table, table.nbytes

    def _decode(self, source: Any, groups: list[int]) -> Any:
        arrow, parquet = import_arrow("ParquetFiles")
        try:
            with source:
                # Its bytes are here already: a separate buffer would hold them twice.
                file = parquet.ParquetFile(
                    source,
                    metadata=self._metadata,
                    pre_buffer=False,
                    page_checksum_verification=True,
                    read_dictionary=self._dictionaries,
                )
                table = self._read_groups(file, groups)
        except arrow.ArrowNotImplementedError as error:
            raise FormatError(f"{self.place}, row group {groups[0]}, cannot be read by pyarrow: {error}") from error
        except (arrow.ArrowException, MemoryError) as error:
            raise FormatError(f"{self.place}, row group {groups[0]}, is damaged: {error}") from error
        except OSError as error:
            # pyarrow's own, for pages that are damaged. Ours has a different name.
            if type(error) is not OSError or error.errno is not None:
                raise
            raise FormatError(f"{self.place}, row group {groups[0]}, is damaged: {error}") from error
        sizes = [self._metadata.row_group(group).num_rows for group in groups]
        rows = sum(sizes)
        if len(table) != rows:
            raise FormatError(f"{self.place}, row group {groups[0]}, is damaged: it has {len(table)} rows, not {rows}")
        if not self._chosen.keys().isdisjoint(groups):
            starts = accumulate(sizes, initial=0)
            chosen = [
                start + self._chosen[group] if group in self._chosen else np.arange(start, start + size)
                for group, size, start in zip(groups, sizes, starts, strict=False)
            ]
            table = table.take(arrow.array(np.concatenate(chosen, dtype=np.int64)))
        # In their order. And pyarrow takes the name of a column for the beginning of another's, such as "a" of "a.b".
        return table if self._columns is None else table.select(self._columns)

    def _read_groups(self, file: Any, groups: list[int]) -> Any:
        arrow, _ = import_arrow("ParquetFiles")
        try:
            return file.read_row_groups(groups, columns=self._columns, use_threads=self._threads)
        except arrow.ArrowNotImplementedError:
            # It cannot join dictionaries within lists, say.
            if len(groups) == 1:
                raise
            return arrow.concat_tables([file.read_row_group(group, columns=self._columns) for group in groups])

    def _open(self) -> list[int]:
        if self._metadata is None:
            with self._lock:
                if self._metadata is None:
                    self._load()
        return self._starts

    def _load(self) -> None:
        arrow, parquet = import_arrow("ParquetFiles")
        source: Any
        if self.place.store is None:
            # pyarrow's error does not say what is missing.
            self._state = _state(self.place.path)
            self._size = self._state[1]
            source = arrow.memory_map(self.place.path) if self._size else arrow.BufferReader(b"")
        else:
            entry = self.place.describe()
            self._size = entry.size
            contents = open_contents(self.place, entry)
            file = RangeFile(contents, self._size)
            file.fetch([(max(self._size - _TAIL, 0), min(_TAIL, self._size))])
            self._entry = contents.entry
            source = arrow.PythonFile(file, mode="r")
        try:
            with source:
                metadata = parquet.read_metadata(source)
            schema = metadata.schema.to_arrow_schema()
        except (arrow.ArrowException, MemoryError, UnicodeError) as error:
            raise FormatError(f"{self.place} is not a Parquet file that can be read: {error}") from error
        except OSError as error:
            # pyarrow's own, for a damaged footer.
            if type(error) is not OSError or error.errno is not None:
                raise
            raise FormatError(f"{self.place} is not a Parquet file that can be read: {error}") from error
        self._check_names(schema.names)
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if self._filters is not None:
            sizes, self._chosen = self._choose(schema, sizes)
        self._starts = list(accumulate(sizes, initial=0))
        self._media = find_media(schema.metadata)
        self._metadata = metadata

    def _check_names(self, names: list[str]) -> None:
        for name in self._columns or names:
            if names.count(name) > 1:
                raise FormatError(
                    f"{self.place} has {names.count(name)} columns {name!r}, and a record has one value for each name: "
                    "choose other `columns`, or write the file again"
                )
        for name in self._columns or ():
            if name not in names:
                refuse(ValueError, "columns", f"names of columns that {self.place} has: {', '.join(names)}", name)

    def _choose(self, schema: Any, sizes: list[int]) -> tuple[list[int], dict[int, NDArray[np.uint32]]]:
        """Return how many rows of each row group fulfil the filters, and which, unless it is all of them."""
        arrow, _ = import_arrow("ParquetFiles")
        check_filters(self._filters, schema, str(self.place))
        source: Any
        if self.place.store is None:
            source = arrow.memory_map(self.place.path)
        else:
            source = arrow.PythonFile(RangeFile(open_contents(self.place, self._entry), self._size), mode="r")
        try:
            with source:
                return choose_rows(source, self._filters, schema, sizes)
        except arrow.ArrowNotImplementedError as error:
            raise FormatError(f"{self.place} cannot be filtered by pyarrow: {error}") from error
        except (arrow.ArrowException, MemoryError) as error:
            raise FormatError(f"{self.place} is damaged: {error}") from error
        except OSError as error:
            if type(error) is not OSError or error.errno is not None:
                raise
            raise FormatError(f"{self.place} is damaged: {error}") from error
        finally:
            take_back_at_exit()

    def _sizes(self, group: int) -> tuple[int, int]:
        """Return how many bytes the columns of a row group take, decompressed and in the file."""
        if self._columns is None and self.place.store is None:
            # Mapped files are not fetched.
            return self._metadata.row_group(group).total_byte_size, 0
        chunks = self.chunks(group)
        return (
            sum(chunk.total_uncompressed_size for chunk in chunks),
            sum(chunk.total_compressed_size for chunk in chunks),
        )

    def _ranges(self, groups: list[int]) -> list[tuple[int, int]]:
        ranges = []
        for group in groups:
            for chunk in self.chunks(group):
                start = chunk.data_page_offset
                if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                    start = min(start, chunk.dictionary_page_offset)
                ranges.append((start, chunk.total_compressed_size))
        return ranges

    def chunks(self, group: int) -> list[Any]:
        """Return the metadata of the columns of a row group."""
        self._open()
        row_group = self._metadata.row_group(group)
        chunks = [row_group.column(number) for number in range(row_group.num_columns)]
        if self._columns is None:
            return chunks
        # A nested column has several, and a name may have dots.
        wanted = tuple(f"{name}." for name in self._columns)
        try:
            return [chunk for chunk in chunks if f"{chunk.path_in_schema}.".startswith(wanted)]
        except UnicodeError as error:
            # Row groups repeat the names of the schema, each time to be damaged.
            raise FormatError(f"{self.place}, row group {group}, is damaged: {error}") from error


def _state(path: str) -> tuple[int, int, int]:
    """Return what changes when a file is written again."""
    status = Path(path).stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


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
        places = find_places("files", files, store)
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
                self._tables = group_tables(self._shards, lambda table: cast_table(table, schema), self._prefetch_bytes)
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
        """Return an iterator over the rows from a position on, which begins there at once.

        Args:
            position: From 0 to the number of rows.

        Raises:
            TypeError, ValueError: If it is not an int in that range.
        """
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
            ready = prefetch(_fetch, pieces, lambda piece: piece.stored, self._prefetch_bytes - 6 * most)
        else:
            ready = map(_fetch, pieces)
        return read_ahead(_decode, ready, 1)


def _fetch(piece: RowGroups) -> Callable[[], RowSlice]:
    return piece.shard.fetch(piece)


def _decode(decode: Callable[[], RowSlice]) -> list[RowSlice]:
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
