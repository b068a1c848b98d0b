"""The members of tar archives that lie in a store, found once and kept in a cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._files import cache_folder, only_one, replaced
from spdl.io._archive.headers_at_once import read_headers_at_once
from spdl.io._archive.members import TarColumns, TarIndex
from spdl.io._array.npz import load_npz, save_npz
from spdl.io._common.errors import FormatError, name_path
from spdl.io._common.inputs import map_regular
from spdl.io._common.one_version import ChangedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spdl.io._common.one_version import OneVersion
    from spdl.store import Entry

CachePath: TypeAlias = str | os.PathLike[str] | None
"""A folder; None is one in the user's cache."""

_IDENTITY = "identity"


def kept_arrays(
    kind: str, identity: str | None, cache: CachePath, make: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return arrays from a folder, or make them and keep them there. If several processes ask, one makes them.

    The folder is `cache`, or else the user's of that `kind`; it is not a failure if it cannot be written to. `identity`
    says what the arrays are of, and in which version; if that is unknown, they are made.
    """
    if identity is None:
        return make()
    text = identity.encode("utf-8", "surrogateescape")
    folder = cache_folder() / kind if cache is None else Path(cache)
    file = folder / f"{hashlib.sha256(text).hexdigest()[:32]}.index"
    known = _load(file, text)
    if known is not None:
        return known
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(only_one(file))
            known = _load(file, text)
        if known is not None:
            return known
        arrays = make()
        _save(file, arrays, text)
    return arrays


def _load(file: Path, identity: bytes) -> Mapping[str, Any] | None:
    """Return what is kept; None if there is nothing, or something damaged."""
    try:
        # All of them, since each is verified when it is taken.
        arrays = dict(load_npz(map_regular(file), verify=True))
        return arrays if arrays[_IDENTITY].tobytes() == _described(identity, arrays) else None
    except (OSError, FormatError, KeyError, TypeError, ValueError):
        return None


def _save(file: Path, arrays: Mapping[str, Any], identity: bytes) -> None:
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    with contextlib.suppress(OSError), replaced(file) as target:
        save_npz(target, {**arrays, _IDENTITY: np.frombuffer(_described(identity, arrays), np.uint8)})


def _described(identity: bytes, arrays: Mapping[str, Any]) -> bytes:
    """Return the arrays' identity and names: checksums reveal only damage to contents."""
    names = sorted(name for name in arrays if name != _IDENTITY)
    return b"\n".join((identity, *(name.encode("utf-8", "surrogateescape") for name in names)))


_VERSION = 1


def stored_tar_index(archive: OneVersion, cache: CachePath = None) -> TarIndex:
    """Find the members of a tar archive in a store, by reading its headers alone.

    The result is kept in a folder, which ranks and later runs may share: by default ``spdl/tar`` in the user's cache
    folder. If several processes want the same archive, one reads, and the others wait. An archive with another size or
    etag has another file there. Without an etag nothing is kept.

    Returns:
        The regular files in their order.

    Raises:
        FormatError: If this is not a tar archive, if it is compressed, damaged or truncated, if it holds a sparse file,
            or if it changes during the call.
        OSError: If it cannot be read.
    """
    from spdl.store._store import identity_of  # noqa: PLC0415 - only for those who have a store.

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
