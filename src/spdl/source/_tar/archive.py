"""How the content of tar archives is read: mapped into memory, or in ranges from a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from spdl.io import FormatError, TarIndex, tar_index
from spdl.io._archive.stored_index import stored_tar_index
from spdl.io._common.mapped_file import map_file, stat_file

if TYPE_CHECKING:
    from spdl.source._records.place import Place
    from spdl.store import Store

__all__ = ["Archive", "MappedArchive", "StoredArchive", "open_archive"]

CachePath = str | os.PathLike[str] | None


class Archive(Protocol):
    """A tar archive of which parts can be read."""

    def find_members(self, cache: CachePath) -> TarIndex:
        """Return where its members lie, from what is kept of it or by its headers."""

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        """Return parts of it as read-only views, in the order they were asked for."""


class MappedArchive:
    """An archive on this machine."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = map_file(path)

    def find_members(self, cache: CachePath) -> TarIndex:  # noqa: ARG002 - it is kept beside the archive.
        """Return where its members lie."""
        while True:
            before = stat_file(self._path)
            index = tar_index(self._path)
            # The file may have been replaced since it was mapped.
            self._file = map_file(self._path)
            if os.path.samestat(before, stat_file(self._path)):
                return index

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        """Return views of the file."""
        # A new view each time: without the GIL, Python 3.13 miscounts the slices of a memoryview that threads share.
        view = memoryview(self._file)
        size = len(view)
        parts = []
        for start, length in zip(starts, lengths, strict=True):
            if start + length > size:
                raise FormatError(
                    f"{self._path!r} has {size} bytes, but by its index a sample goes up to byte {start + length}"
                )
            parts.append(view[start : start + length])
        return parts


class StoredArchive:
    """An archive in a store."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self._path = path

    def find_members(self, cache: CachePath) -> TarIndex:
        """Return where its members lie."""
        return stored_tar_index(self._store, self._path, cache)

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        """Return parts that the store reads in one call."""
        return [memoryview(part) for part in self._store.get_ranges(self._path, starts, lengths)]


def open_archive(place: Place) -> Archive:
    """Open the archive at a place.

    Raises:
        OSError: If it is a file that cannot be mapped.
    """
    return MappedArchive(place.path) if place.store is None else StoredArchive(place.store, place.path)
