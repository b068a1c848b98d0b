"""An object of a store as a file of which parts are here already."""

from __future__ import annotations

import io
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spdl.store import Store

__all__ = ["RangeFile"]


class RangeFile(io.RawIOBase):
    """A file whose ranges are fetched together; what is read beside them is fetched by itself.

    Args:
        store: Where the object is.
        path: Which one.
        size: Its size in bytes.
    """

    def __init__(self, store: Store, path: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._path = path
        self._size = size
        self._place = 0
        self._starts: list[int] = []
        self._parts: list[memoryview] = []

    def fetch(self, ranges: list[tuple[int, int]]) -> None:
        """Fetch ranges, given by their starts and lengths, in one call of the store."""
        listed = sorted(each for each in ranges if each[1])
        starts = [start for start, _ in listed]
        parts = self._store.get_ranges(self._path, starts, [length for _, length in listed])
        self._starts, self._parts = starts, [memoryview(part) for part in parts]

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the bytes that follow; fewer at the end."""
        place = self._place
        left = self._size - place
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted <= 0:
            return b""
        self._place = place + wanted
        number = bisect_right(self._starts, place) - 1
        if number >= 0:
            begin = place - self._starts[number]
            if begin + wanted <= len(self._parts[number]):
                return bytes(self._parts[number][begin : begin + wanted])
        return bytes(self._store.get_ranges(self._path, [place], [wanted])[0])

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place in the file, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        """Return the place in the file."""
        return self._place

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True
