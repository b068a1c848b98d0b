"""The positions of the members of a tar archive."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from spdl._check import check_path
from spdl._replaced import replaced
from spdl.io._archive.decompress import is_compressed
from spdl.io._archive.member_header import has_header
from spdl.io._archive.stored_index import stored_tar_index
from spdl.io._archive.tar_columns import TarColumns
from spdl.io._archive.tar_members import TarIndex
from spdl.io._array.array_input import name_file
from spdl.io._array.npz import load_npz
from spdl.io._array.npz_save import save_npz
from spdl.io._common.format_error import FormatError
from spdl.io._common.mapped_file import check_regular, map_regular
from spdl.io._common.native import native
from spdl.io._common.remote import is_url, open_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

SUFFIX = ".index"

# The version of the index file's format.
_VERSION = 1


def tar_index(path: str | os.PathLike[str]) -> TarIndex:
    """Find the members of a tar archive, once.

    Of an archive that a URL names, only the headers are read. Its index is kept in the user's cache folder, for this
    version of the archive.

    The index is stored beside the archive as ``PATH.index``, readable for everyone who may read the archive. Later
    calls read that file, as long as the archive has the same size and modification time as before, was modified
    before the index was, and has the headers of its first, middle and last member where the index says. If the file
    cannot be written, every call scans the archive.

    Args:
        path: The archive, or its URL. It must not be compressed: a member of a compressed archive can only be found by
            reading everything before it.

    Returns:
        The regular files in their order.

    Raises:
        FormatError: If this is no tar archive, if it is compressed, damaged or truncated, holds a sparse file, or is a
            pipe or a device.
        OSError: If it cannot be mapped, or read.
        TypeError: If `path` is no path.

    Example:
        >>> index = tar_index(archive)
        >>> len(index), index[1].name, index.find("b.txt")
        (3, 'a.cls', 2)
    """
    check_path("path", path)
    if is_url(path):
        found = open_url(os.fspath(path))
        if not isinstance(found, str):
            from spdl.io._common.one_version import find_version  # noqa: PLC0415 - only for those who have a URL.

            return stored_tar_index(find_version(found.store, found.name))
        path = found
    beside = os.fsdecode(path) + SUFFIX
    archive = Path(path).stat()
    known = _load(beside, archive)
    data = map_regular(path)
    # Another archive may have the size and the time of the one before: `cp -p` and rsync set the time.
    if known is not None and _fits(known, data):
        return known
    if is_compressed(bytes(memoryview(data)[:8])):
        msg = f"{os.fsdecode(path)!r} is compressed, so no member can be found without reading all before it: unpack it"
        raise FormatError(msg, path=os.fsdecode(path))
    try:
        columns = _scan(data)
    except FormatError as error:
        name_file(error, path)
        raise
    # A read-only folder is no failure, since the index is here.
    with contextlib.suppress(OSError, FormatError):
        _save(beside, archive, columns)
    return TarIndex(*columns)


def is_index_of(index: TarIndex, data: Buffer) -> bool:
    """Return whether the members of an archive lie where an index says, by a look at all of them."""
    try:
        there = TarIndex(*_scan(data))
    except FormatError:
        return False
    return len(there) == len(index) and all(own == other for own, other in zip(index, there, strict=True))


def _scan(data: Buffer) -> TarColumns:
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    offsets, sizes, ends, names = native.index_tar(data)
    numbers = [np.frombuffer(column, np.uint64) for column in (offsets, sizes, ends)]
    return TarColumns(numbers[0], numbers[1], numbers[2], names)


def _fits(index: TarIndex, data: Buffer) -> bool:
    """Return whether some members lie where the index says. Those that are read are looked at when they are."""
    view = memoryview(data)
    places = {0, len(index) // 2, len(index) - 1} if len(index) else set()
    members = [index[place] for place in places]
    return all(has_header(view, member.offset, member) for member in members)


def _save(beside: str, archive: os.stat_result, columns: TarColumns) -> None:
    import numpy as np  # noqa: PLC0415

    if os.path.lexists(beside):  # Opening a pipe would wait for whoever reads it.
        check_regular(beside)
    arrays = {"version": np.array(_VERSION), "archive": np.array(_state(archive)), **columns.arrays()}
    # Other processes may read or write the file now: they see all of it or nothing.
    with replaced(beside) as file:
        # Names may be as secret as contents, so the index gets the archive's permissions.
        os.fchmod(file.fileno(), archive.st_mode & 0o666)
        save_npz(file, arrays)


def _state(archive: os.stat_result) -> tuple[int, int]:
    return archive.st_size, archive.st_mtime_ns


def _load(beside: str, archive: os.stat_result) -> TarIndex | None:
    """Return the stored index if it belongs to this state of the archive; None if it does not or is damaged."""
    try:
        # The clock of most file systems ticks about a hundred times a second. Within the tick in which the index was
        # written, the archive may have been rewritten and still have the same time.
        if os.stat(beside).st_mtime_ns <= archive.st_mtime_ns:  # noqa: PTH116
            return None
        arrays = load_npz(map_regular(beside), verify=True)
        if int(arrays["version"]) != _VERSION or tuple(arrays["archive"].tolist()) != _state(archive):
            return None
        return TarIndex(*TarColumns.load(arrays))
    except (OSError, FormatError, KeyError, TypeError, ValueError):
        return None
