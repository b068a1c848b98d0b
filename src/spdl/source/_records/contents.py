"""How parts of a file are read: mapped into memory, or in ranges from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from spdl.io import FormatError
from spdl.io._common.mapped_file import map_regular
from spdl.io._common.one_version import OneVersion

if TYPE_CHECKING:
    from spdl.source._records.place import Place
    from spdl.store import Entry

__all__ = ["Contents", "MappedContents", "open_contents"]


class Contents(Protocol):
    """A file of which parts can be read, by several threads at once."""

    @property
    def entry(self) -> Entry | None:
        """The version of an object in a store, if that is known yet."""

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        """Return parts of it as read-only views, in the order they were asked for."""


class MappedContents:
    """A file on this machine."""

    # What is mapped stays what it is, also if another file takes its place.
    entry = None

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = map_regular(path)

    def whole(self) -> memoryview:
        """Return a view of all of the file."""
        return memoryview(self._file)

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


def open_contents(place: Place, entry: Entry | None = None) -> Contents:
    """Open the file at a place.

    Args:
        place: Where it is.
        entry: Which version of an object in a store it has to be: the one that was indexed. None for that which is read
            first.

    Raises:
        FormatError: If it is a pipe, a socket or a device.
        OSError: If it is a file that cannot be mapped.
    """
    return MappedContents(place.path) if place.store is None else OneVersion(place.store, place.path, entry)
