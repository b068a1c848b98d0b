"""The positions of the members of a tar archive."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

from spdl._check import check_path
from spdl.io._archive.decompress import is_compressed
from spdl.io._archive.sample_index import SampleIndex, find_samples
from spdl.io._archive.tar_columns import TarColumns
from spdl.io._array.array_input import name_file
from spdl.io._array.array_target import replaced
from spdl.io._array.npz import load_npz
from spdl.io._array.npz_save import save_npz
from spdl.io._common.format_error import FormatError
from spdl.io._common.mapped_file import map_file
from spdl.io._common.native import native
from spdl.io._common.remote import is_url, open_url

if TYPE_CHECKING:
    from spdl.io._archive.tar_columns import Integers

SUFFIX = ".index"

# The version of the index file's format.
_VERSION = 1


class TarMember(NamedTuple):
    """A regular file in a tar archive.

    Example:
        >>> tar_index(archive)[0]
        TarMember(name='a.txt', offset=512, size=1)
    """

    name: str
    """Its name in the archive."""
    offset: int
    """The position of its content in the archive, in bytes."""
    size: int
    """The size of its content in bytes."""


class TarIndex(Sequence[TarMember]):
    """The regular files of a tar archive in their order, as `tar_index` returns them.

    ``index[i]`` is the member at position `i`; ``index.find(name)`` is the position of a name. The index does not need
    the archive any longer.

    Example:
        >>> index = tar_index(archive)
        >>> [member.name for member in index], index.find("b.txt")
        (['a.txt', 'a.cls', 'b.txt'], 2)
    """

    def __init__(self, offsets: Integers, sizes: Integers, ends: Integers, names: bytes) -> None:
        self._offsets = offsets
        self._sizes = sizes
        self._ends = ends
        self._names = names
        self._positions: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, position: int) -> TarMember: ...
    @overload
    def __getitem__(self, position: slice) -> list[TarMember]: ...
    def __getitem__(self, position: int | slice) -> TarMember | list[TarMember]:
        if isinstance(position, slice):
            return [self[index] for index in range(*position.indices(len(self)))]
        index = position.__index__()
        index += len(self) if index < 0 else 0
        if not 0 <= index < len(self):
            msg = f"the archive has {len(self)} members, got the position {position}"
            raise IndexError(msg)
        return TarMember(self._name(index), int(self._offsets[index]), int(self._sizes[index]))

    def find(self, name: str) -> int:
        """Return the position of a member. If several have the name, the last one counts: it replaces the others.

        Raises:
            KeyError: If no member has the name.
        """
        if self._positions is None:
            self._positions = {self._name(index): index for index in range(len(self))}
        try:
            return self._positions[name]
        except KeyError:
            msg = f"the archive of {len(self)} members has no regular file {name!r}"
            raise KeyError(msg) from None

    def samples(self) -> SampleIndex:
        """Return where the samples of the archive lie, grouped as `group_samples` does it.

        Example:
            >>> [sample.key for sample in tar_index(archive).samples()]
            ['a', 'b']
        """
        return SampleIndex(self, find_samples(self._names, self._ends))

    def __repr__(self) -> str:
        return f"<TarIndex of {len(self)} members>"

    def _name(self, index: int) -> str:
        begin = int(self._ends[index - 1]) if index else 0
        return self._names[begin : int(self._ends[index])].decode("utf-8", "surrogateescape")


def tar_index(path: str | os.PathLike[str]) -> TarIndex:
    """Find the members of a tar archive, once.

    Of an archive that a URL names, only the headers are read. Its index is kept in the user's cache folder, for this
    version of the archive.

    The index is stored beside the archive as ``PATH.index``, readable for everyone who may read the archive. Later
    calls read that file, as long as the archive has the same size and modification time as before and was modified
    before the index was. If the file cannot be written, every call scans the archive.

    Args:
        path: The archive, or its URL. It must not be compressed: a member of a compressed archive can only be found by
            reading everything before it.

    Returns:
        The regular files in their order.

    Raises:
        FormatError: If this is no tar archive, if it is compressed, damaged or truncated, or holds a sparse file.
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
            from spdl.io._archive.stored_index import stored_tar_index  # noqa: PLC0415 - it stands on this module.
            from spdl.io._common.one_version import find_version  # noqa: PLC0415 - only for those who have a URL.

            return stored_tar_index(find_version(found.store, found.name))
        path = found
    beside = os.fsdecode(path) + SUFFIX
    archive = Path(path).stat()
    known = _load(beside, archive)
    if known is not None:
        return known
    data = map_file(path)
    if is_compressed(bytes(memoryview(data)[:8])):
        msg = f"{os.fsdecode(path)!r} is compressed, so no member can be found without reading all before it: unpack it"
        raise FormatError(msg)
    try:
        offsets, sizes, ends, names = native.index_tar(data)
    except FormatError as error:
        name_file(error, path)
        raise
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    numbers = [np.frombuffer(column, np.uint64) for column in (offsets, sizes, ends)]
    columns = TarColumns(numbers[0], numbers[1], numbers[2], names)
    # A read-only folder is no failure, since the index is here.
    with contextlib.suppress(OSError):
        _save(beside, archive, columns)
    return TarIndex(*columns)


def _save(beside: str, archive: os.stat_result, columns: TarColumns) -> None:
    import numpy as np  # noqa: PLC0415

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
        arrays = load_npz(beside, verify=True)
        if int(arrays["version"]) != _VERSION or tuple(arrays["archive"].tolist()) != _state(archive):
            return None
        return TarIndex(*TarColumns.load(arrays))
    except (OSError, FormatError, KeyError, TypeError, ValueError):
        return None
