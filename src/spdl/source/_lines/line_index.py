"""Where the lines of a file lie."""

from __future__ import annotations

import codecs
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdl.io import FormatError
from spdl.io._archive.decompress import is_compressed
from spdl.io._array.kept_arrays import kept_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spdl.io._array.kept_arrays import CachePath
    from spdl.source._records.contents import Contents
    from spdl.source._records.place import Place
    from spdl.store import Entry

    Integers = np.ndarray[Any, np.dtype[np.int64]]

__all__ = ["Lines", "find_lines"]

_VERSION = 2
_PIECE = 1 << 23
_NEWLINE = ord("\n")
# What a blank line consists of, as JSON has it.
_BLANK = np.zeros(256, bool)
_BLANK[list(b" \t\r\n")] = True


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
    if place.store is None:
        where = os.path.abspath(place.path)  # noqa: PTH100
    else:
        from spdl.store._protocol.address import identity_of  # noqa: PLC0415 - only for those who have a store.

        where = f"{identity_of(place.store)}\n{place.path}"
    # Without an etag, another object of the same size would have the same identity.
    identity = None if entry.etag is None else f"lines {_VERSION}\n{where}\n{entry.size}\n{entry.etag}"

    def read() -> Mapping[str, Any]:
        return _read(place, contents, entry.size)._asdict()

    arrays = kept_arrays("lines", identity, cache, read)
    return Lines(arrays["starts"], arrays["lengths"])


def _read(place: Place, contents: Contents, size: int) -> Lines:
    ends: list[Integers] = []
    # Whether a line has something in it that is not blank: by how many such bytes there are before it and behind it.
    solid: list[Integers] = [np.zeros(1, np.int64)]
    before = 0
    for start in range(0, size, _PIECE):
        piece = contents.read([start], [min(_PIECE, size - start)])[0]
        if start == 0 and is_compressed(bytes(piece[:8])):
            raise FormatError(
                f"{place} is compressed, so no line can be found without reading all before it: unpack it"
            )
        data = np.frombuffer(piece, np.uint8)
        found = np.flatnonzero(data == _NEWLINE)
        filled = ~_BLANK[data]
        if start == 0:
            filled[: _check_encoding(place, bytes(piece[:3]))] = False
        counted = np.cumsum(filled)
        ends.append(found + start)
        solid.append(before + counted[found])
        before += int(counted[-1])
    stops = np.concatenate([*ends, [size]]).astype(np.int64)
    marks = np.concatenate([*solid, [before]])
    begins = np.concatenate([[0], stops[:-1] + 1]).astype(np.int64)
    kept = np.diff(marks) > 0
    return Lines(begins[kept], (stops - begins)[kept])


def _check_encoding(place: Place, first: bytes) -> int:
    """Return how many of the first bytes are a mark of byte order."""
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FormatError(
            f"{place} is text in UTF-16, and lines of JSON are UTF-8: `iconv -f utf-16 -t utf-8` makes it so"
        )
    return len(codecs.BOM_UTF8) if first == codecs.BOM_UTF8 else 0
