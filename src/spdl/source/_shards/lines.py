"""Files with a JSON value in each line."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdl._check import check_path, refuse, show
from spdl._processes import RenewedLock
from spdl.io import FormatError
from spdl.io._shared import CachePath, OneVersion, is_compressed, kept_arrays
from spdl.source._place import Place, find_places
from spdl.source._shards.sharded import Contents, ShardedRecords, kept_name, open_contents

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
    """Return where the lines of a file lie, from what is kept of it or by reading all of it.

    Raises:
        FormatError: If it is compressed.
        OSError: If it cannot be read.
    """

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
    """Return which lines of a piece have something in them that is not blank."""
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
    """Return the record of a line.

    Args:
        line: The line.
        where: Returns its place, for messages.

    Raises:
        FormatError: If it is not a JSON object.
    """
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


class JsonShard:
    """A JSON lines file whose records are read by their numbers. It is opened when it is first asked for something.

    Args:
        place: The place of the file.
        cache: The folder that keeps the beginnings of its lines.
    """

    def __init__(self, place: Place, cache: CachePath) -> None:
        self.place = place
        self._cache = cache
        self._opened: tuple[Contents, Lines] | None = None
        # Which version is read, if it is in a store: also by copies in other processes.
        self._entry: Entry | None = None
        self._lock = RenewedLock()

    def __len__(self) -> int:
        return len(self._open()[1].starts)

    def read(self, numbers: list[int]) -> list[dict[str, Any]]:
        """Return records.

        Raises:
            FormatError: If a line is not a JSON object.
            OSError: If the file cannot be read.
        """
        contents, lines = self._open()
        starts = lines.starts[numbers].tolist()
        texts = contents.read(starts, lines.lengths[numbers].tolist())
        return [self._parse(*each) for each in zip(numbers, starts, texts, strict=True)]

    def _parse(self, number: int, start: int, text: memoryview) -> dict[str, Any]:
        return parse_record(bytes(text), lambda: self._where(number, start))

    def _where(self, number: int, start: int) -> str:
        return f"{self.place}, record {number}, at byte {start},"

    def _open(self) -> tuple[Contents, Lines]:
        if self._opened is None:
            with self._lock:
                if self._opened is None:
                    self._opened = self._find()
                    self._entry = self._opened[0].entry
        return self._opened

    def _find(self) -> tuple[Contents, Lines]:
        while True:
            contents = open_contents(self.place, self._entry)
            before = self.place.describe()
            if isinstance(contents, OneVersion):
                contents.check(before)
            lines = find_lines(self.place, contents, before, self._cache)
            # A file may have been replaced since it was mapped.
            if self.place.store is not None or self.place.describe() == before:
                return contents, lines

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


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
        super().__init__([JsonShard(place, cache) for place in find_places("files", files, store)])
        if not len(self):
            refuse(ValueError, "files", "files with lines in them", files)
