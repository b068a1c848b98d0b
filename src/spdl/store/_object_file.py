"""An object of a store as a file."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import TYPE_CHECKING

from spdl._check import check_instance, check_str
from spdl.store._store import Store, StoreError, VersionedStore

if TYPE_CHECKING:
    from typing_extensions import Buffer


_FIRST = 1 << 17
_MOST = 1 << 22
_KEPT = 4
"""Formats go back and forth between a few places: an index at the end, sounds beside pictures."""


class ObjectFile(io.RawIOBase):
    """A binary file, open for reading, whose content is an object of a store.

    Only what is read is requested, in pieces: of 128 KiB at first, and of twice as much each time that one follows the
    last, up to 4 MiB. The last four pieces are kept. So it suits readers that read little of a large object, or all
    of it from begin to end; for a whole object, `Store.get` takes fewer requests. One thread may use it at a time.

    Args:
        store: The store of the object.
        path: The path of the object.

    Raises:
        FileNotFoundError: If the object is missing.
        StoreError: If the store cannot say how large it is; when it is read, if it has changed since it was opened, or
            cannot be read.
        TypeError: If `store` is not a store.

    Example:
        >>> import tempfile, zipfile
        >>> from pathlib import Path
        >>> from spdl.store import LocalStore, ObjectFile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with zipfile.ZipFile(Path(folder, "a.zip"), "w") as archive:
        ...         archive.writestr("1.txt", "one")
        ...     file = ObjectFile(LocalStore(folder), "a.zip")
        ...     zipfile.ZipFile(file).read("1.txt")
        b'one'
    """

    def __init__(self, store: Store, path: str) -> None:
        super().__init__()
        check_instance("store", store, Store, "a store, such as spdl.store.LocalStore")
        self._store = store
        self._path = check_str("path", path)
        # A file that could not be opened is closed as well.
        self._pieces: OrderedDict[int, memoryview] = OrderedDict()
        self._etag: str | None = None
        if isinstance(store, VersionedStore):
            self._size, self._etag = store.read_version(path, ([], []))[0][1:]
        else:
            self._size = store.size(path)
        self._place = 0
        self._next = -1
        self._wanted = _FIRST

    @property
    def store(self) -> Store:
        """The store of the object."""
        return self._store

    @property
    def name(self) -> str:
        """The path of the object."""
        return self._path

    def readinto(self, buffer: Buffer, /) -> int:
        """Read the bytes that follow into a buffer. Return how many: 0 at the end, and fewer than fit at any time.

        Raises:
            StoreError: If the object has changed since it was opened, or cannot be read.
            ValueError: If the file is closed.
        """
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        target = memoryview(buffer).cast("B")
        if not target.nbytes or self._place >= self._size:
            return 0
        start, piece = self._piece(self._place, target.nbytes)
        part = piece[self._place - start : self._place - start + target.nbytes]
        target[: part.nbytes] = part
        self._place += part.nbytes
        return part.nbytes

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the bytes that follow: as many as wanted, or all with -1, and fewer only at the end.

        Raises:
            StoreError, ValueError: As `readinto`.
        """
        left = max(0, self._size - self._place)
        wanted = left if size is None or size < 0 else min(size, left)
        content = bytearray(wanted)
        done = 0
        with memoryview(content) as view:
            while done < wanted:
                done += self.readinto(view[done:])
        return bytes(content)

    def read_at(self, start: int, length: int) -> memoryview:
        """Return the bytes from a place on, read-only, by a separate request. Any number of threads may call this.

        Args:
            start: The place, from the begin.
            length: How many bytes.

        Raises:
            StoreError: If there are fewer bytes, the object has changed since it was opened, or it cannot be read.
        """
        if not isinstance(self._store, VersionedStore):
            return memoryview(self._store.get_ranges(self._path, [start], [length])[0])
        entry, parts = self._store.read_version(self._path, ([start], [length]))
        # Some servers tell no version until they are asked for content.
        self._etag = self._etag or entry.etag
        if (entry.size, entry.etag) != (self._size, self._etag):
            raise StoreError(f"{self._path} in {self._store!r}: it has changed since it was opened; open it again")
        return memoryview(parts[0])

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place and return it, counted from the begin.

        Args:
            offset: The place, in bytes.
            whence: The place that it is counted from: 0 is the begin, 1 the place now, 2 the end.

        Raises:
            ValueError: If it is before the begin.
        """
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"a place in a file is 0 or more, not {base + offset}")
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        """Return the place."""
        return self._place

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Let go the pieces."""
        self._pieces.clear()
        super().close()

    def __repr__(self) -> str:
        return f"<ObjectFile {self._path!r} in {self._store!r}>"

    def _piece(self, place: int, wanted: int) -> tuple[int, memoryview]:
        """Return a piece that has the byte of a place, and its first place."""
        for start, piece in self._pieces.items():
            if start <= place < start + piece.nbytes:
                self._pieces.move_to_end(start)
                return start, piece
        self._wanted = min(_MOST, 2 * self._wanted) if place == self._next else _FIRST
        piece = self.read_at(place, min(max(self._wanted, min(wanted, _MOST)), self._size - place))
        self._next = place + piece.nbytes
        self._pieces[place] = piece
        if len(self._pieces) > _KEPT:
            self._pieces.popitem(last=False)
        return place, piece
