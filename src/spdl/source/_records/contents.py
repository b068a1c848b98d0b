"""How parts of a file are read: mapped into memory, or in ranges from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from spdl.io import FormatError
from spdl.io._common.mapped_file import map_file

if TYPE_CHECKING:
    from spdl.source._records.place import Place
    from spdl.store import Store

__all__ = ["Contents", "MappedContents", "StoredContents", "open_contents"]


class Contents(Protocol):
    """A file of which parts can be read, by several threads at once."""

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        """Return parts of it as read-only views, in the order they were asked for."""


class MappedContents:
    """A file on this machine."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = map_file(path)

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        """Return views of the file."""
        # A new view each time: without the GIL, Python 3.13 miscounts the slices of a memoryview that threads share.
        view = memoryview(self._file)
        size = len(view)
        parts = []
        for start, length in zip(starts, lengths, strict=True):
            if start + length > size:
                raise FormatError(
                    f"{self._path!r} has {size} bytes, but by its index a record goes up to byte {start + length}"
                )
            parts.append(view[start : start + length])
        return parts


class StoredContents:
    """An object of a store."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self._path = path

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        """Return parts that the store reads in one call."""
        return [memoryview(part) for part in self._store.get_ranges(self._path, starts, lengths)]


def open_contents(place: Place) -> Contents:
    """Open the file at a place.

    Raises:
        OSError: If it is a file that cannot be mapped.
    """
    return MappedContents(place.path) if place.store is None else StoredContents(place.store, place.path)
