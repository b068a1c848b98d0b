"""Reads of an archive's headers, as few and as small as they can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ReadAhead"]

_BLOCK = 512
_FIRST = 1 << 16
_WHOLE = 1 << 22
# A member that is smaller is read with its header: another request would cost more than the bytes that it saves.
_SMALL = 1 << 15
_SHARE = 256
_MOST = 1 << 16


class ReadAhead:
    """Reads ranges of an object in ascending order, each a bit further than it is asked for.

    Where members are small, everything is read, in large pieces. Elsewhere what is read in advance is a 256th of what
    lies between two headers, so that the small members behind a large one need no request of their own.

    Args:
        fetch: Reads so many bytes from a position on.
        size: The size of the object.
        begin: Where the first range begins.
        apart: How many bytes lie between two headers at first, if that is known.
        stop: From where on nothing is read in advance, since others read it. None for the end of the object.
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
        return min(-(-apart // (_SHARE * _BLOCK)) * _BLOCK, _MOST)
