"""An object of a store whose parts are all of the same version, however long it is read."""

from __future__ import annotations

import contextlib
from contextlib import suppress
from typing import TYPE_CHECKING

from spdl.io._common.errors import FormatError

if TYPE_CHECKING:
    from spdl.store import Entry, Store


def describe(store: Store, path: str) -> Entry:
    """Return the size of an object, and its etag if the store lists such, or raise a FileNotFoundError."""
    from spdl.store import Entry  # noqa: PLC0415 - only for those who have a store.
    from spdl.store._store import VersionedStore  # noqa: PLC0415

    if isinstance(store, VersionedStore):
        return store.read_version(path, ([], []))[0]
    # A web server may be unable to list.
    with contextlib.suppress(OSError):
        for entry in store.list(path):
            if entry.path == path:
                return entry
            break
    return Entry(path, store.size(path), None)


class ChangedError(FormatError):
    """Raised if an object is not the one that it was before. Its message names the object."""


class OneVersion:
    """Reads parts of an object, and notices if it is another one than it was before. Threads share it.

    The answers of a store that does not report versions cannot be compared. Without an `entry`, the first version that
    is read is the right one.
    """

    def __init__(self, store: Store, path: str, entry: Entry | None = None) -> None:
        from spdl.store._store import VersionedStore  # noqa: PLC0415 - only for those who have a store.

        self.store = store
        self._versioned = store if isinstance(store, VersionedStore) else None
        self._path = path
        # The known answers: one with an etag, one without. Some servers send none until they are asked for content. A
        # lock is not needed, which a forked process might inherit.
        self._known: dict[bool, Entry] = {} if entry is None else {entry.etag is not None: entry}

    @property
    def entry(self) -> Entry | None:
        """The version that is read, if it is known yet."""
        return self._known.get(True) or self._known.get(False)

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        """Return parts that the store reads in one call.

        Raises a ChangedError if the object has changed, and a FormatError if it ends before one of the parts does.
        """
        try:
            if self._versioned is None:
                return [memoryview(part) for part in self.store.get_ranges(self._path, starts, lengths)]
            entry, parts = self._versioned.read_version(self._path, (starts, lengths))
        except FileNotFoundError:
            raise
        except OSError:
            # A shorter object has no such parts, and a cache that has noticed the change speaks of itself.
            with suppress(OSError):
                self._check_ends(starts, lengths)
            raise
        self.check(entry)
        return [memoryview(part) for part in parts]

    def _check_ends(self, starts: list[int], lengths: list[int]) -> None:
        if self._versioned is None:
            size = self.store.size(self._path)
        else:
            entry = self._versioned.read_version(self._path, ([], []))[0]
            self.check(entry)
            size = entry.size
        end = max((start + length for start, length in zip(starts, lengths, strict=True)), default=0)
        if end > size:
            raise FormatError(
                f"{self._path} in {self.store!r} has {size} bytes, but by its index a record goes up to byte {end}"
            )

    def check(self, entry: Entry) -> None:
        """Raise a ChangedError if a version that was read is not the earlier one."""
        # If two threads come first, both compare with the version that one of them has noted.
        self._known.setdefault(entry.etag is not None, entry)
        for known in list(self._known.values()):
            told = None not in (known.etag, entry.etag)
            if known.size != entry.size or (told and known.etag != entry.etag):
                raise ChangedError(
                    f"{self._path} in {self.store!r} has changed since this source was made, from {_show(known)} to "
                    f"{_show(entry)}, so its records have moved: make a new source"
                )


def find_version(store: Store, path: str) -> OneVersion:
    """Return an object of a store, to be read in the version that it has now, or raise a FileNotFoundError."""
    return OneVersion(store, path, describe(store, path))


def _show(entry: Entry) -> str:
    return f"{entry.size} bytes with the etag {entry.etag}"
