"""The members of tar archives that lie in a store, found once and kept in a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.io._archive.headers_at_once import read_headers_at_once
from spdl.io._archive.tar_columns import TarColumns
from spdl.io._archive.tar_members import TarIndex
from spdl.io._array.kept_arrays import kept_arrays
from spdl.io._common.format_error import FormatError, name_path
from spdl.io._common.one_version import ChangedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spdl.io._array.kept_arrays import CachePath
    from spdl.io._common.one_version import OneVersion
    from spdl.store import Entry

__all__ = ["stored_tar_index"]

_VERSION = 1


def stored_tar_index(archive: OneVersion, cache: CachePath = None) -> TarIndex:
    """Find the members of a tar archive in a store, by reading its headers alone.

    The result is kept in a folder. Of several processes that want the same archive, one reads, and the others wait.

    Args:
        archive: The archive, whose version is known.
        cache: The folder, which ranks and later runs may share. None is ``spdl/tar`` in the user's cache folder. An
            archive with another size or etag has another file there. Without an etag nothing is kept.

    Returns:
        The regular files in their order.

    Raises:
        FormatError: If this is no tar archive, if it is compressed, damaged or truncated, if it holds a sparse file, or
            if it changes meanwhile.
        OSError: If it cannot be read.
    """
    from spdl.store._protocol.address import identity_of  # noqa: PLC0415 - only for those who have a store.

    entry = archive.entry
    assert entry is not None
    # Without an etag, another archive of the same size would have the same identity.
    named = f"{_VERSION}\n{identity_of(archive.store)}\n{entry.path}\n{entry.size}\n{entry.etag}"
    identity = None if entry.etag is None else named

    def read() -> Mapping[str, object]:
        return _read(archive, entry).arrays()

    return TarIndex(*TarColumns.load(kept_arrays("tar", identity, cache, read)))


def _read(archive: OneVersion, entry: Entry) -> TarColumns:
    def fetch(start: int, length: int) -> bytes:
        return bytes(archive.read([start], [length])[0])

    try:
        return TarColumns.of(read_headers_at_once(fetch, entry.size))
    except ChangedError:
        raise
    except FormatError as error:
        error.args = (f"{entry.path!r} in {archive.store!r}: {error}",)
        name_path(error, entry.path)
        raise
