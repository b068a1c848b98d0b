"""Files with a JSON value in each line: in any order by an index, or from beginning to end, compressed perhaps."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from spdl._check import check_int, check_path, refuse, show
from spdl.io import FormatError
from spdl.io._shared import (
    CachePath,
    OneVersion,
    decompressed,
    is_compressed,
    is_zstd,
    kept_arrays,
    zstd_frames,
)
from spdl.source._labelled.lists import fingerprint
from spdl.source._place import Place, find_places
from spdl.source._shards.sharded import Contents, LazyShard, ShardedRecords, kept_name, naming_place, open_contents

if TYPE_CHECKING:
    from spdl.store import Entry, Store

Integers = np.ndarray[Any, np.dtype[np.int64]]


_VERSION = 2
_PIECE = 1 << 23
_NEWLINE = ord("\n")
# The characters of a blank line, by JSON's rules.
_BLANK = b" \t\r\n"


class Lines(NamedTuple):
    """The lines of a file that are not blank."""

    starts: Integers
    lengths: Integers
    """How many bytes each has, without what ends it."""


def find_lines(place: Place, contents: Contents, entry: Entry, cache: CachePath) -> Lines:
    """Return where the lines of a file lie, from what is kept of it or by reading all of it."""

    def read() -> Mapping[str, Any]:
        return _read(place, contents, entry.size)._asdict()

    arrays = kept_arrays("lines", kept_name(f"lines {_VERSION}", place, entry), cache, read)
    return Lines(arrays["starts"], arrays["lengths"])


def _read(place: Place, contents: Contents, size: int) -> Lines:
    ends: list[Integers] = []
    # Whether a line has something in it that is not blank. The last one of a piece goes on in the next.
    solid: list[np.ndarray[Any, np.dtype[np.bool_]]] = []
    begun = False
    for start in range(0, size, _PIECE):
        piece = contents.read([start], [min(_PIECE, size - start)])[0]
        if start == 0 and is_compressed(bytes(piece[:8])):
            raise FormatError(
                f"{place} is compressed, so no line can be found without reading all before it: unpack it"
            )
        data = np.frombuffer(piece, np.uint8)
        found = np.flatnonzero(data == _NEWLINE)
        ends.append(found + start)
        first = check_encoding(place, bytes(piece[:3])) if start == 0 else 0
        filled = _find_solid(piece, data, np.concatenate([[first], found + 1]))
        filled[0] |= begun
        begun = bool(filled[-1])
        solid.append(filled[:-1])
    stops = np.concatenate([*ends, [size]]).astype(np.int64)
    kept = np.concatenate([*solid, [begun]])
    begins = np.concatenate([[0], stops[:-1] + 1]).astype(np.int64)
    return Lines(begins[kept], (stops - begins)[kept])


def _find_solid(piece: memoryview, data: Any, begins: Integers) -> np.ndarray[Any, np.dtype[np.bool_]]:
    # Almost all begin with a bracket, and a look at every byte would take ten times as long.
    firsts = data[np.minimum(begins, data.size - 1)]
    found: np.ndarray[Any, np.dtype[np.bool_]] = ~np.isin(firsts, list(_BLANK)) & (begins < data.size)
    stops = np.append(begins[1:], data.size)
    for number in np.flatnonzero(~found & (stops - begins > 1)).tolist():
        found[number] = bool(bytes(piece[begins[number] : stops[number]]).strip(_BLANK))
    return found


def check_encoding(place: Place, first: bytes) -> int:
    """Return how many of the first bytes are a mark of byte order."""
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FormatError(
            f"{place} is text in UTF-16, and lines of JSON are UTF-8: `iconv -f utf-16 -t utf-8` makes it so"
        )
    return len(codecs.BOM_UTF8) if first == codecs.BOM_UTF8 else 0


def parse_record(line: bytes, where: Callable[[], str]) -> dict[str, Any]:
    """Return the record of a line. FormatError, which names the place, if it is not a JSON object."""
    # Files that were put together may have a mark of byte order at the beginning of each.
    content = line.removeprefix(codecs.BOM_UTF8)
    try:
        # Not of bytes: json would take some lines for UTF-16.
        record = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where()} is not JSON: {error}: {show(content)}") from error
    if not isinstance(record, dict):
        raise FormatError(f'{where()} is {show(record)}: a record is an object, such as {{"text": "..."}}')
    return record


class JsonShard(LazyShard[tuple[Contents, Lines]]):
    """A JSON lines file whose records are read by their numbers. The folder `cache` keeps where its lines begin."""

    def __init__(self, place: Place, cache: CachePath) -> None:
        super().__init__(place)
        self._cache = cache

    def __len__(self) -> int:
        return len(self._open()[1].starts)

    def read(self, numbers: list[int]) -> list[dict[str, Any]]:
        contents, lines = self._open()
        starts = lines.starts[numbers].tolist()
        texts = contents.read(starts, lines.lengths[numbers].tolist())
        return [
            parse_record(bytes(text), partial(self._where, number, start))
            for number, start, text in zip(numbers, starts, texts, strict=True)
        ]

    def _where(self, number: int, start: int) -> str:
        return f"{self.place}, record {number}, at byte {start},"

    def _load(self) -> tuple[Contents, Lines]:
        while True:
            contents = open_contents(self.place, self._entry)
            before = self.place.describe()
            if isinstance(contents, OneVersion):
                contents.check(before)
            lines = find_lines(self.place, contents, before, self._cache)
            # A file may have been replaced since it was mapped.
            if self.place.store is not None or self.place.describe() == before:
                self._entry = contents.entry
                return contents, lines


class JsonLines(ShardedRecords[dict[str, Any], JsonShard]):
    """The records of JSON lines files (.jsonl): in any order, from this machine or a store.

    Each line is a JSON object, and a record is the dict of it. Lines that are blank are not records. The beginnings of
    lines are found by reading each file once, in pieces, and are kept in a cache folder, by the size and the time of
    change of the file or the etag of the object: 16 bytes for each line. Files are mapped into memory.

    Args:
        files: The files in the order of their records: paths, URLs or patterns such as ``part-{000..127}.jsonl``.
            They must not be compressed.
        store: The store of the files, unless they are on this machine or named by URLs; paths are relative to the
            store.
        cache: The folder that keeps where lines begin, which ranks and later runs share. None is a folder in the user's
            cache.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there is no record.
        FormatError: If a file is compressed; when a record is read, if its line is not a JSON object.
        OSError: If a file cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spdl.source import JsonLines
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "captions.jsonl")
        ...     with path.open("w") as file:
        ...         print('{"image": "1.jpg", "text": "a cat"}', file=file)
        ...         print('{"image": "2.jpg", "text": "a dog"}', file=file)
        ...     records = JsonLines(path, cache=folder)
        ...     record = records[1]
        >>> len(records), record
        (2, {'image': '2.jpg', 'text': 'a dog'})
    """

    def __init__(
        self,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        store: Store | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        if cache is not None:
            check_path("cache", cache)
        super().__init__([JsonShard(place, cache) for place in find_places("files", files, store, "*.jsonl")])
        if not len(self):
            refuse(ValueError, "files", "files with lines in them", files)


_STEP = 1 << 20
# No record is as long: a file without newlines, or one that was made to fill the memory.
_LONGEST = 1 << 30
_FIRST = 8


class Mark(NamedTuple):
    """A place in the files at which reading can begin."""

    record: int = 0
    """The number of the first record that begins there."""
    file: int = 0
    offset: int = 0
    """The byte of the file: its beginning, or that of a frame."""
    skip: int = 0
    """How many bytes of the content from there on belong to the record before."""


class Line(NamedTuple):
    """A line that is not parsed yet."""

    place: Place
    number: int
    """The number of the record in all files."""
    content: bytes


class StreamedJsonLines:
    r"""The records of JSON lines files in their order, which may be compressed: by gzip, zstd, xz or bzip2.

    The format is recognised by the first bytes. Each line is a JSON object, and a record is the dict of it; blank lines
    are not records. Nothing of a compressed file can be read without all before it, so these records have neither a
    number nor another order. For files that are not compressed, `JsonLines` has both.

    `iterate_from` begins at a record by reading what is before it. A loader's state has a mark in the files, so that
    no file is read whose records were all received, and of a file of zstd no frame: files of several frames are written
    by ``pzstd``, by the seekable format, and by joining files.

    Args:
        files: The files in the order of their records: paths, URLs or patterns such as ``part-{000..127}.jsonl.zst``.
        store: The store of the files, unless they are on this machine or named by URLs; paths are relative to the
            store.

    Raises:
        TypeError: If an argument has the wrong type.
        FormatError: While iterating, if a file is damaged or truncated, or a line is not a JSON object.
        OSError: If a file cannot be read.

    Example:
        >>> import gzip, tempfile
        >>> from pathlib import Path
        >>> from spdl.source import StreamedJsonLines
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "captions.jsonl.gz")
        ...     _ = path.write_bytes(gzip.compress(b'{"text": "a cat"}\n{"text": "a dog"}\n'))
        ...     list(StreamedJsonLines(path).iterate_from(1))
        [{'text': 'a dog'}]
    """

    def __init__(
        self, files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, store: Store | None = None
    ) -> None:
        self._places = find_places("files", files, store, "*.jsonl")
        sizes = [place.describe().size for place in self._places]
        names = [f"{place.name} {size}" for place, size in zip(self._places, sizes, strict=True)]
        self._fingerprint = fingerprint("StreamedJsonLines", len(names), names.__getitem__)

    def fingerprint(self) -> str:
        """Return a short text that says which files in which order these are: by their names and sizes."""
        return self._fingerprint

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.iterate_from(0)

    def iterate_from(self, position: int) -> Iterator[dict[str, Any]]:
        """Return an iterator over the records from a position on. Earlier lines are read, and not parsed.

        Args:
            position: How many records to leave out.

        Raises:
            TypeError, ValueError: If it is not an int of at least 0.
            FormatError, OSError: While iterating; see `StreamedJsonLines`.
        """
        lines = self._lines_from(check_int("position", position, least=0))
        return map(self._parse, lines)

    def _lines_from(self, position: int, mark: tuple[int, ...] | None = None) -> LineReader:
        """Return an iterator over the lines from a record on.

        It begins to read at the mark, which is not after that record.
        """
        begin = Mark() if mark is None else Mark(*mark)
        reader = LineReader(self._places, begin)
        for _ in islice(reader, position - begin.record):
            pass
        return reader

    @staticmethod
    def _parse(line: Line) -> dict[str, Any]:
        return parse_record(line.content, lambda: f"{line.place}, record {line.number} of all files,")

    def __repr__(self) -> str:
        return f"StreamedJsonLines: {len(self._places)} files"


class LineReader:
    """An iterator over the lines of files from a mark on, which knows a mark at or before the line that comes next."""

    def __init__(self, places: list[Place], mark: Mark) -> None:
        self._places = places
        self.mark = mark
        # A mark that counts from its record on.
        self._coming = mark
        self._number = mark.record
        self._lines = self._read(mark)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Line:
        return next(self._lines)

    def _read(self, mark: Mark) -> Iterator[Line]:
        for file in range(mark.file, len(self._places)):
            place = self._places[file]
            begin = mark if file == mark.file else Mark(self._number, file)
            self.mark = self._coming = begin
            with naming_place(place):
                yield from self._read_file(place, begin)

    def _read_file(self, place: Place, begin: Mark) -> Iterator[Line]:
        # The beginning of a line whose end has not come yet.
        parts: list[bytes] = []
        skip = begin.skip
        for start, piece in _pieces(place, begin.offset):
            if start == 0:
                check_encoding(place, piece[:3])
            elif start not in (None, begin.offset):
                self._note(begin.file, start or 0, parts, piece)
            lines = piece[skip:].split(b"\n")
            skip = max(0, skip - len(piece))
            lines[0] = b"".join([*parts, lines[0]]) if len(lines) > 1 and parts else lines[0]
            if len(lines) > 1:
                parts = []
            parts.append(lines.pop())
            if sum(map(len, parts)) > _LONGEST:
                raise FormatError(f"{place} has a line of more than {_LONGEST:,} bytes")
            yield from self._number_lines(place, lines)
        yield from self._number_lines(place, [b"".join(parts)])

    def _note(self, file: int, offset: int, parts: list[bytes], piece: bytes) -> None:
        """Make a mark of the beginning of a piece, unless the line before continues after it."""
        before = b"".join(parts)
        end = piece.find(b"\n") + 1 if before else 0
        if before and not end:
            return
        belongs = bool((before + piece[:end]).strip(_BLANK))
        self._coming = Mark(self._number + belongs, file, offset, end)

    def _number_lines(self, place: Place, lines: list[bytes]) -> Iterator[Line]:
        for content in lines:
            if content.removeprefix(codecs.BOM_UTF8).strip(_BLANK):
                if self._number >= self._coming.record:
                    self.mark = self._coming
                number, self._number = self._number, self._number + 1
                yield Line(place, number, content)


def _pieces(place: Place, offset: int) -> Iterator[tuple[int | None, bytes]]:
    """Yield the content of a file from a byte on, and with some pieces the byte of the file at which they begin."""
    contents, size = open_contents(place), place.describe().size
    first = bytes(contents.read([0], [min(_FIRST, size)])[0]) if size else b""
    read = _reader(contents, size, offset)
    if is_zstd(first):
        yield from zstd_frames(read, offset)
    elif is_compressed(first):
        inflate = decompressed(read(_FIRST), read)
        start: int | None = 0
        while piece := inflate(_STEP):
            yield start, piece
            start = None
    else:
        while piece := read(_STEP):
            yield offset, piece
            offset += len(piece)


def _reader(contents: Contents, size: int, position: int) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        nonlocal position
        length = min(most, size - position)
        if length <= 0:
            return b""
        piece = bytes(contents.read([position], [length])[0])
        position += length
        return piece

    return read
