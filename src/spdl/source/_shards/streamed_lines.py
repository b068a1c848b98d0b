"""JSON lines that are read from beginning to end: compressed, say."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from spdl._check import check_int
from spdl.io import FormatError
from spdl.io._shared import decompressed, is_compressed, is_zstd, zstd_frames
from spdl.source._labelled.lists import fingerprint
from spdl.source._place import Place, find_places
from spdl.source._shards.lines import check_encoding, parse_record
from spdl.source._shards.sharded import Contents, open_contents

if TYPE_CHECKING:
    from spdl.store import Store

_PIECE = 1 << 20
# No record is as long: a file without newlines, or one that was made to fill the memory.
_LONGEST = 1 << 30
_FIRST = 8
# What JSON allows around a value.
_BLANK = b" \t\r\n"


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
        self._places = find_places("files", files, store)
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

        Args:
            position: The record's number.
            mark: Where to begin to read, at this record or an earlier one; None for the beginning.
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
    """An iterator over the lines of files, which knows a mark at or before the line that comes next.

    Args:
        places: The files.
        mark: Where to begin.
    """

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
            try:
                yield from self._read_file(place, begin)
            except FormatError as error:
                if str(place) in str(error):
                    raise
                raise FormatError(f"{place}: {error}", path=place.path) from error

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
        while piece := inflate(_PIECE):
            yield start, piece
            start = None
    else:
        while piece := read(_PIECE):
            yield offset, piece
            offset += len(piece)


def _reader(contents: Contents, size: int, position: int) -> Callable[[int], bytes]:
    """Return a function that reads a file from a byte on."""

    def read(most: int) -> bytes:
        nonlocal position
        length = min(most, size - position)
        if length <= 0:
            return b""
        piece = bytes(contents.read([position], [length])[0])
        position += length
        return piece

    return read
