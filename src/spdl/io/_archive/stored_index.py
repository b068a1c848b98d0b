"""The members of tar archives that lie in a store, found once and kept in a cache."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl._cache_folder import cache_folder, only_one
from spdl.io._archive.read_ahead import ReadAhead
from spdl.io._archive.tar_columns import TarColumns
from spdl.io._archive.tar_headers import read_headers
from spdl.io._archive.tar_index import TarIndex
from spdl.io._array.array_target import replaced
from spdl.io._array.npz import load_npz
from spdl.io._array.npz_save import save_npz
from spdl.io._common.format_error import FormatError

if TYPE_CHECKING:
    import os

    from spdl.store import Entry, Store

__all__ = ["describe", "stored_tar_index"]

_VERSION = 1


def describe(store: Store, path: str) -> Entry:
    """Return the size of an object, and its etag if the store lists such.

    Raises:
        FileNotFoundError: If there is none.
    """
    from spdl.store import Entry  # noqa: PLC0415 - only for those who have a store.

    # A web server may be unable to list.
    with contextlib.suppress(OSError):
        for entry in store.list(path):
            if entry.path == path:
                return entry
            break
    return Entry(path, store.size(path), None)


def stored_tar_index(store: Store, path: str, cache: str | os.PathLike[str] | None = None) -> TarIndex:
    """Find the members of a tar archive in a store, by reading its headers alone.

    The result is kept in a folder. Of several processes that want the same archive, one reads, and the others wait.

    Args:
        store: Where the archive is.
        path: Which object it is.
        cache: The folder, which ranks and later runs may share. None is ``spdl/tar`` in the user's cache folder. An
            archive with another size or etag has another file there.

    Returns:
        The regular files in their order.

    Raises:
        FormatError: If this is no tar archive, if it is compressed, damaged or truncated, or holds a sparse file.
        OSError: If it cannot be read.
    """
    entry = describe(store, path)
    identity = f"{_VERSION}\n{store!r}\n{path}\n{entry.size}\n{entry.etag}"
    folder = cache_folder() / "tar" if cache is None else Path(cache)
    file = folder / f"{hashlib.sha256(identity.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.index"
    known = _load(file, identity)
    if known is not None:
        return known
    with contextlib.ExitStack() as stack:
        # A cache that cannot be written to is no failure: the archive can be read.
        with contextlib.suppress(OSError):
            stack.enter_context(only_one(file))
        known = _load(file, identity)
        if known is not None:
            return known
        columns = _read(store, path, entry.size)
        with contextlib.suppress(OSError), replaced(file) as target:
            save_npz(target, {**columns.arrays(), "identity": _to_array(identity.encode("utf-8", "surrogateescape"))})
    return TarIndex(*columns)


def _read(store: Store, path: str, size: int) -> TarColumns:
    def fetch(start: int, length: int) -> bytes:
        return bytes(store.get_ranges(path, [start], [length])[0])

    try:
        return TarColumns.of(read_headers(ReadAhead(fetch, size).read, size))
    except FormatError as error:
        error.args = (f"{path!r} in {store!r}: {error}",)
        raise


def _load(file: Path, identity: str) -> TarIndex | None:
    """Return what is kept; None if there is nothing, or something damaged."""
    try:
        arrays = load_npz(file, verify=True)
        if arrays["identity"].tobytes() != identity.encode("utf-8", "surrogateescape"):
            return None
        return TarIndex(*TarColumns.load(arrays))
    except (OSError, FormatError, KeyError, TypeError, ValueError):
        return None


def _to_array(content: bytes) -> Any:
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    return np.frombuffer(content, np.uint8)
