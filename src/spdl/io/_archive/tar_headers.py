"""The members of a tar archive, found by its headers alone: for archives that are read in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spdl.io._archive.decompress import is_compressed
from spdl.io._common.errors import FormatError
from spdl.io._common.native import native

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[int, int], bytes]
    """Returns that many bytes from a position on; fewer only if the archive ends there."""

BLOCK = 512
_FIRST = 1 << 16
_WHOLE = 1 << 22
# A member that is smaller is read with its header: another request would cost more than the bytes that it saves.
_SMALL = 1 << 15
_SHARE = 256
_MOST = 1 << 16


class ReadAhead:
    """Reads ranges of an object in ascending order, each a bit further than it is asked for.

    If members are small, everything is read, in large pieces. Otherwise a 256th of the distance between two headers is
    read in advance, so that small members after a large one need no separate request. At first, headers are taken to be
    `apart` bytes from each other, if that is known. Others read what lies beyond `stop`.
    """

    def __init__(
        self,
        fetch: Callable[[int, int], bytes],
        size: int,
        begin: int = 0,
        *,
        apart: int | None = None,
        stop: int | None = None,
    ) -> None:
        self._fetch = fetch
        self._size = size
        self._begin = begin
        self._apart = apart
        self._stop = size if stop is None else stop
        self._start = 0
        self._bytes = b""
        self._reads = 0

    def read(self, start: int, length: int) -> bytes:
        """Return a range; less of it if the object ends before."""
        end = min(start + length, self._size)
        if end <= start:
            return b""
        self._reads += 1
        if start < self._start or end > self._start + len(self._bytes):
            want = max(end - start, min(self._ahead(start), self._stop - start))
            self._bytes, self._start = self._fetch(start, want), start
        return self._bytes[start - self._start : end - self._start]

    def _ahead(self, start: int) -> int:
        apart = self._apart if start == self._begin else (start - self._begin) // self._reads
        if apart is None:
            return _FIRST
        if apart < _SMALL:
            return _WHOLE
        return min(-(-apart // (_SHARE * BLOCK)) * BLOCK, _MOST)


class MemberHeader(NamedTuple):
    name: bytes
    offset: int
    """Where its content begins. Its header is the block before."""
    size: int


_ZEROS = bytes(BLOCK)
# The target of a link. The name of its member may have been read before.
_LINK = b"K"


class Walk:
    def __init__(self, read: Read, size: int) -> None:
        self._read = read
        self._size = size
        self._parser = native.TarParser()

    @property
    def is_plain(self) -> bool:
        """Whether no header so far applies to all later members."""
        return self._parser.is_plain

    def step(self, place: int) -> tuple[MemberHeader | None, int | None]:
        """Go over one member and the headers that belong to it, or raise a FormatError.

        Return the member if it is a regular file, and where the next one begins; None for both at the end.
        """
        parser = self._parser
        parser.begin_at(place)
        while True:
            block = self._read(place, BLOCK)
            if place == 0 and is_compressed(block[:8]):
                raise FormatError(
                    "the tar archive is compressed, so no member can be found without reading all before it: unpack it"
                )
            if len(block) < BLOCK:
                parser.take_end(len(block))
                return None, None
            kind, size = parser.take_header(block)
            if kind == "end":
                self._check_rest(place + BLOCK)
                return None, None
            content = place + BLOCK
            place = content + size + -size % BLOCK
            if place > self._size:
                parser.fail_truncated(self._size - content)
            if kind == "meta":
                parser.take_meta(self._read(content, size))
            elif kind == "member":
                return MemberHeader(parser.name, content, size), place
            elif block != _ZEROS and block[156:157] != _LINK:
                return None, place

    def _check_rest(self, place: int) -> None:
        """Raise a FormatError if there is more than zeros from a place on."""
        while piece := self._read(place, _FIRST):
            if any(piece):
                native.TarParser.fail_joined(place + len(piece) - len(piece.lstrip(b"\0")))
            place += len(piece)
