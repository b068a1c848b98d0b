"""Tar archives with random access, by the positions of their members."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from spdl._check import check_int, check_path
from spdl._files import replaced
from spdl.io._archive.decompress import is_compressed
from spdl.io._archive.members import TarColumns, TarIndex
from spdl.io._archive.stored_index import stored_tar_index
from spdl.io._archive.tar_headers import BLOCK
from spdl.io._array.array_io import name_file
from spdl.io._array.npz import load_npz, save_npz
from spdl.io._common.errors import FormatError
from spdl.io._common.inputs import check_regular, is_url, map_file, map_regular, open_url
from spdl.io._common.native import native
from spdl.io._common.one_version import ChangedError, find_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from spdl.io._archive.members import TarMember

BEFORE = 8 * BLOCK
"""How many bytes in front of a content show what its header is, also if a pax header has its name."""

_NAME = 100
_SIZE = slice(124, 135)
_PREFIX = 345
# Names that are not ASCII are in a pax header, which lies before the header.
_PATH = re.compile(rb"(?:^|\n|\0)\d+ path=([^\n]*)\n")
_OCTAL = 1 << 33


def has_header(content: memoryview, begin: int, member: TarMember) -> bool:
    """Return whether what lies in front of a member, whose content begins at a place in `content`, is its header."""
    header = bytes(content[begin - BLOCK : begin]) if begin >= BLOCK else b""
    name = member.name.encode("utf-8", "surrogateescape")
    # Nearly all headers are like this, and this takes a tenth of the time of what is below.
    if (
        header[: len(name) + 1] == name + b"\0"
        and header[_SIZE] == b"%011o" % member.size
        and not header[_PREFIX]
        and len(name) < _NAME
    ):
        return True
    return _is_header(header, bytes(content[max(0, begin - BEFORE) : max(0, begin - BLOCK)]), name, member.size)


def not_there(archive: str, member: TarMember, index: str) -> str:
    """Return the message for a member of a file that is not where the index beside it says."""
    return (
        f"{archive} has no member {member.name!r} of {member.size} bytes at byte {member.offset}, where its index "
        f"{index} says it is: it was replaced or rewritten since. Delete {index}, and begin again"
    )


def _is_header(header: bytes, before: bytes, name: bytes, length: int) -> bool:
    here = native.look_at_tar_header(header) if len(header) == BLOCK else None
    if here is None:
        return False
    found, size = here
    # A pax header before it has the size of what is larger, and the names that do not fit or are not ASCII.
    if size != length and length < _OCTAL:
        return False
    if len(name) >= _NAME or found == name:
        return True
    return not name.isascii() and _is_name_of(name, found, before)


def _is_name_of(name: bytes, short: bytes, before: bytes) -> bool:
    """Return whether a name that is not ASCII belongs to a header with another one."""
    paths: list[bytes] = _PATH.findall(before)
    if paths:
        return paths[-1] == name
    # That header is farther away. Then the name has a mark wherever it is not ASCII.
    return short.isascii() and b"?" in short and _ascii_of(short) == _ascii_of(name)


def _ascii_of(name: bytes) -> bytes:
    return bytes(byte for byte in name if byte < 128 and byte != ord("?"))  # noqa: PLR2004 - what ASCII is.


SUFFIX = ".index"

# The version of the index file's format.
_VERSION = 1


def tar_index(path: str | os.PathLike[str]) -> TarIndex:
    """Find the members of a tar archive, once.

    If the archive has a URL, only the headers are read. Its index is kept in the user's cache folder, for this
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
        FormatError: If this is not a tar archive, if it is compressed, damaged or truncated, holds a sparse file, or is
            a pipe or a device.
        OSError: If it cannot be mapped, or read.
        TypeError: If `path` is not a path.

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
    # A read-only folder is not a failure, since the index is here.
    with contextlib.suppress(OSError, FormatError):
        _save(beside, archive, columns)
    return TarIndex(*columns)


def is_index_of(index: TarIndex, data: Buffer) -> bool:
    """Return whether an archive's members are at the places in an index, by a look at all of them."""
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

    if os.path.lexists(beside):  # Opening a pipe would wait for its reader.
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


class TarFile:
    """A tar archive that is mapped into memory and whose members can be read in any order.

    `tar_index` finds the members and keeps its result beside the archive. Any number of threads may read. The file
    stays mapped while this object or the content of a member lives, and must not be truncated until then. From an
    archive at a URL, the headers are read once, and then each member on request.

    Args:
        path: The archive, which must not be compressed, or its URL.

    Attributes:
        index: The names, positions and sizes of the members.

    Raises:
        FormatError: If this is not a tar archive, if it is compressed, damaged or truncated, holds a sparse file, or
            goes on after its end.
        OSError: If it cannot be mapped, or read.
        TypeError: If `path` is not a path.

    Example:
        >>> tar = TarFile(archive)
        >>> len(tar), bytes(tar.read(2)), bytes(tar.read("a.cls"))
        (3, b'2', b'7')
        >>> [name for name, content in tar.iter_from(1)]
        ['a.cls', 'b.txt']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_path("path", path)
        self._content_at: Callable[[int, int], memoryview]
        # The file whose headers are still compared with the index: objects in a store have versions.
        self._compared: Buffer | None = None
        if is_url(path):
            found = open_url(os.fspath(path))
            if not isinstance(found, str):
                self._path = found.name
                self.index: TarIndex = stored_tar_index(find_version(found.store, found.name))
                self._content_at = found.read_at
                return
            path = found
        self._path = os.fsdecode(path)
        self._content_at = self._map(path)

    def _map(self, path: str | os.PathLike[str]) -> Callable[[int, int], memoryview]:
        while True:
            archive = Path(path).stat()
            self.index = tar_index(path)
            file = map_file(path)
            # The file may have been replaced between the two calls.
            if os.path.samestat(archive, Path(path).stat()):
                break
        self._compared = file

        def content_at(start: int, length: int) -> memoryview:
            # A new view each time: without the GIL, Python 3.13 miscounts the slices of one that threads share.
            return memoryview(file)[start : start + length]

        return content_at

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[tuple[str, memoryview]]:
        return self.iter_from(0)

    def read(self, member: int | str) -> memoryview:
        """Return the content of a member as a read-only view of the file, or of what was read for it.

        Args:
            member: Its name, or its position among the regular files. A negative position counts from the end.

        Raises:
            FormatError: If the archive is another one than was indexed: there is no such member where the index says.
            IndexError: If no member has that position.
            KeyError: If no member has that name.
        """
        return self._content(self.index.find(member) if isinstance(member, str) else member)[1]

    def iter_from(self, position: int) -> Iterator[tuple[str, memoryview]]:
        """Iterate over names and contents from a position on, without reading the members before it.

        Args:
            position: The position of the first member, from 0 to the number of members.

        Returns:
            An iterator over names and read-only views of the mapped file.

        Raises:
            TypeError, ValueError: If `position` is not an int in that range.
            FormatError: While iterating, if the archive is another one than was indexed.
        """
        position = check_int("position", position, least=0, most=len(self))
        return (self._content(index) for index in range(position, len(self)))

    def __repr__(self) -> str:
        return f"<TarFile of {len(self)} members>"

    def _content(self, position: int) -> tuple[str, memoryview]:
        member = name, offset, size = self.index[position]
        content = self._content_at(offset, size)
        if len(content) < size:
            there = os.stat(self._path).st_size  # noqa: PTH116
            end = offset + size
            msg = f"{self._path!r} has {there} bytes, but by its index the member {name!r} goes up to byte {end}"
            raise FormatError(msg, path=self._path)
        compared = self._compared
        if compared is not None and not has_header(memoryview(compared), offset, member):
            self._compare_all(member, compared)
        return name, content

    def _compare_all(self, member: TarMember, file: Buffer) -> None:
        """Compare all of the index with the archive, since a header is not as most are. Raises a ChangedError."""
        if is_index_of(self.index, file):
            self._compared = None
            return
        raise ChangedError(not_there(self._path, member, self._path + SUFFIX), path=self._path)
