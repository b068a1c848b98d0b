"""A file for pyarrow whose ranges are fetched together, and what was lent to pyarrow when the interpreter ends."""

from __future__ import annotations

import atexit
import io
import threading
import time
import weakref
from bisect import bisect_right

from spdl.source._shards.sharded import Contents


class RangeFile(io.RawIOBase):
    """A file whose ranges are fetched together; what is read beside them is fetched by itself."""

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

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
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
