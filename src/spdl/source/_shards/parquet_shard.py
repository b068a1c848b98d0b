"""A Parquet file whose row groups are read when they are needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from spdl._check import refuse
from spdl._not_here import require
from spdl._processes import RenewedLock
from spdl.io import FormatError
from spdl.io._shared import ChangedError, map_regular
from spdl.source._hub import find_media, unwrap
from spdl.source._place import Place
from spdl.source._prefetch import ByteCache
from spdl.source._shards.range_file import RangeFile, take_back_at_exit
from spdl.source._shards.sharded import grouped, open_contents

if TYPE_CHECKING:
    from spdl.store import Entry


def import_arrow(who: str) -> tuple[Any, Any]:
    """Return the modules ``pyarrow`` and ``pyarrow.parquet``. ImportError, with the command, if it is not installed."""
    return require("pyarrow", who, extra="parquet"), require("pyarrow.parquet", who, extra="parquet")


_TAIL = 1 << 16


@contextmanager
def _named(what: str, damaged: str, unsupported: str) -> Iterator[None]:
    """Raise a FormatError that says what is wrong with something in the place of pyarrow's errors."""
    arrow, _ = import_arrow("ParquetFiles")
    try:
        yield
    except arrow.ArrowNotImplementedError as error:
        raise FormatError(f"{what} {unsupported}: {error}") from error
    except (arrow.ArrowException, MemoryError, UnicodeError) as error:
        raise FormatError(f"{what} {damaged}: {error}") from error
    except OSError as error:
        # pyarrow's own, for pages and footers that are damaged. Ours has a different name.
        if type(error) is not OSError or error.errno is not None:
            raise
        raise FormatError(f"{what} {damaged}: {error}") from error


class RowGroups(NamedTuple):
    shard: ParquetShard
    groups: list[int]
    stored: int
    """How many bytes their columns take in the file."""
    skip: int
    """How many rows at the beginning are left out."""

    def fetch(self) -> Callable[[], RowSlice]:
        return self.shard.fetch(self)


class RowSlice(NamedTuple):
    shard: ParquetShard
    first: int
    """The number of the first row in the file."""
    table: Any


class ParquetShard:
    """A Parquet file whose rows are read by their numbers. Its footer is read when it is first asked for something.

    Messages call the user's argument that names the columns `argument`.
    """

    def __init__(
        self,
        place: Place,
        columns: Sequence[str] | None,
        cache: ByteCache,
        filters: Any = None,
        *,
        argument: str = "columns",
    ) -> None:
        self.place = place
        self._argument = argument
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

    def grouped(self, numbers: list[int]) -> dict[int, tuple[list[int], list[int]]]:
        """Return for each row group that has some rows their places in `numbers`, and their numbers in the group."""
        return grouped(map(self._find, numbers))

    def read(self, numbers: list[int]) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = [{}] * len(numbers)
        for group, (places, rows) in self.grouped(numbers).items():
            table = self._cache.get((id(self), group), lambda group=group: self._read_group(group))  # type: ignore[misc]
            found = self.to_records(RowSlice(self, self._starts[group] + rows[0], table.take(rows)))
            for place, record in zip(places, found, strict=True):
                records[place] = record
        return records

    def to_records(self, rows: RowSlice) -> list[dict[str, Any]]:
        """Return rows as dicts; images and sounds of Hugging Face's datasets as their encoded bytes."""
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
        source = self._source(piece.groups)

        def decode() -> RowSlice:
            try:
                table = self._decode(source, piece.groups)
            finally:
                take_back_at_exit()
            first = self._starts[piece.groups[0]] + piece.skip
            return RowSlice(self, first, table.slice(piece.skip) if piece.skip else table)

        return decode

    def _source(self, groups: list[int]) -> Any:
        """Return the file for pyarrow, in the version of the metadata, with some row groups fetched from the store."""
        arrow, _ = import_arrow("ParquetFiles")
        if self.place.store is not None:
            file = RangeFile(open_contents(self.place, self._entry), self._size)
            if groups:
                file.fetch(self._ranges(groups))
            return arrow.PythonFile(file, mode="r")
        source = arrow.memory_map(self.place.path)
        if _state(self.place.path) != self._state:
            source.close()
            raise ChangedError(
                f"{self.place} was written again since this source was made, so its rows lie elsewhere: make the "
                "source again"
            )
        return source

    def _read_group(self, group: int) -> tuple[Any, int]:
        table = self.read_group(group)
        return table, table.nbytes

    def _decode(self, source: Any, groups: list[int]) -> Any:
        arrow, parquet = import_arrow("ParquetFiles")
        with _named(f"{self.place}, row group {groups[0]},", "is damaged", "cannot be read by pyarrow"), source:
            # Its bytes are here already: a separate buffer would hold them twice.
            file = parquet.ParquetFile(
                source,
                metadata=self._metadata,
                pre_buffer=False,
                page_checksum_verification=True,
                read_dictionary=self._dictionaries,
            )
            table = self._read_groups(file, groups)
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
            # pyarrow's error does not say what is missing, nor that Git LFS has not fetched it.
            self._state = _state(self.place.path)
            map_regular(self.place.path)
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
        wrong = "is not a Parquet file that can be read"
        with _named(str(self.place), wrong, wrong):
            with source:
                metadata = parquet.read_metadata(source)
            schema = metadata.schema.to_arrow_schema()
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
                accepted = f"among the columns of {self.place}, which are {', '.join(names)}"
                refuse(ValueError, self._argument, accepted, name)

    def _choose(self, schema: Any, sizes: list[int]) -> tuple[list[int], dict[int, NDArray[np.uint32]]]:
        """Return how many rows of each row group fulfil the filters, and which, unless it is all of them."""
        check_filters(self._filters, schema, str(self.place))
        try:
            with _named(str(self.place), "is damaged", "cannot be filtered by pyarrow"), self._source([]) as source:
                return choose_rows(source, self._filters, schema, sizes)
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


_ACCEPTED = "an expression of pyarrow, or a list of tuples such as ('age', '>', 17)"


def to_expression(filters: Any) -> Any:
    import pyarrow.compute as pc  # noqa: PLC0415 - an optional dependency.
    from pyarrow.parquet import filters_to_expression  # noqa: PLC0415

    if isinstance(filters, pc.Expression):
        return filters
    if not isinstance(filters, list | tuple):
        refuse(TypeError, "filters", _ACCEPTED, filters)
    try:
        return filters_to_expression(filters)
    except (ValueError, TypeError) as error:
        refuse(ValueError, "filters", _ACCEPTED, filters, f"pyarrow says: {error}")


def check_filters(filters: Any, schema: Any, name: str) -> None:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    try:
        schema.empty_table().filter(filters)
    except pa.ArrowException as error:
        reason = str(error).partition(" in ")[0] if "FieldRef" in str(error) else str(error)
        has = ", ".join(f"{field.name}: {field.type}" for field in schema)
        refuse(ValueError, "filters", f"about columns of {name}, which has {has}", filters, f"pyarrow says: {reason}")


def choose_rows(
    source: Any, filters: Any, schema: Any, sizes: list[int]
) -> tuple[list[int], dict[int, NDArray[np.uint32]]]:
    """Return how many rows of each row group fulfil a condition; and the numbers of these rows, unless all do."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.
    from pyarrow import dataset  # noqa: PLC0415

    fragment = dataset.ParquetFileFormat().make_fragment(source).subset(filters, schema=schema)
    groups = [group.id for group in fragment.row_groups]
    counts = [0] * len(sizes)
    chosen: dict[int, NDArray[np.uint32]] = {}
    for group in groups:
        # Only the columns in the condition are read.
        scanner = dataset.Scanner.from_fragment(
            fragment.subset(row_group_ids=[group]), schema=schema, columns={"chosen": filters}, use_threads=False
        )
        kept = scanner.to_table().column(0)
        mask = np.concatenate([np.empty(0, bool), *(each.fill_null(False).to_numpy(False) for each in kept.chunks)])  # noqa: FBT003 - pyarrow's arguments.
        if len(mask) != sizes[group]:
            raise pa.ArrowInvalid(f"row group {group} has {len(mask)} rows, not {sizes[group]}")
        rows = np.flatnonzero(mask)
        counts[group] = len(rows)
        if len(rows) < sizes[group]:
            chosen[group] = rows.astype(np.uint32)
    return counts, chosen
