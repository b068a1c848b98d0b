"""The members of tar archives that lie in a store, found once and kept in a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.io._archive.headers_at_once import read_headers_at_once
from spdl.io._archive.tar_columns import TarColumns
from spdl.io._archive.tar_index import TarIndex
from spdl.io._array.kept_arrays import kept_arrays
from spdl.io._common.format_error import FormatError
from spdl.io._common.stored import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spdl.io._array.kept_arrays import CachePath
    from spdl.store import Store

__all__ = ["stored_tar_index"]

_VERSION = 1


def stored_tar_index(store: Store, path: str, cache: CachePath = None) -> TarIndex:
    """Find the members of a tar archive in a store, by reading its headers alone.

    The result is kept in a folder. Of several processes that want the same archive, one reads, and the others wait.

    Args:
        store: Where the archive is.
        path: Which object it is.
        cache: The folder, which ranks and later runs may share. None is ``spdl/tar`` in the user's cache folder. An
            archive with another size or etag has another file there. Without an etag nothing is kept.

    Returns:
        The regular files in their order.

    Raises:
        FormatError: If this is no tar archive, if it is compressed, damaged or truncated, or holds a sparse file.
        OSError: If it cannot be read.
    """
    entry = describe(store, path)
    # Without an etag, another archive of the same size would have the same identity.
    identity = None if entry.etag is None else f"{_VERSION}\n{store!r}\n{path}\n{entry.size}\n{entry.etag}"

    def read() -> Mapping[str, object]:
        return _read(store, path, entry.size).arrays()

    return TarIndex(*TarColumns.load(kept_arrays("tar", identity, cache, read)))


def _read(store: Store, path: str, size: int) -> TarColumns:
    def fetch(start: int, length: int) -> bytes:
        return bytes(store.get_ranges(path, [start], [length])[0])

    try:
        return TarColumns.of(read_headers_at_once(fetch, size))
    except FormatError as error:
        error.args = (f"{path!r} in {store!r}: {error}",)
        raise
