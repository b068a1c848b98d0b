"""What a store says of one of its objects."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from spdl.store import Entry, Store

__all__ = ["describe"]


def describe(store: Store, path: str) -> Entry:
    """Return the size of an object, and its etag if the store lists such.

    Raises:
        FileNotFoundError: If there is none.
    """
    from spdl.store import Entry  # noqa: PLC0415 - only for those who have a store.
    from spdl.store._protocol.store import VersionedStore  # noqa: PLC0415

    if isinstance(store, VersionedStore):
        return store.read_version(path, ([], []))[0]
    # A web server may be unable to list.
    with contextlib.suppress(OSError):
        for entry in store.list(path):
            if entry.path == path:
                return entry
            break
    return Entry(path, store.size(path), None)
