"""An object of a store as a file of which parts are here already."""

from __future__ import annotations

import io
from bisect import bisect_right
from typing import TYPE_CHECKING

from spdl.source._parquet.lent import lend

if TYPE_CHECKING:
    from spdl.source._records.contents import Contents

__all__ = ["RangeFile"]


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
            # What lies together is one piece of memory: many small ones are not given back to the system.
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
