"""Tar archives with random access."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spdl._check import check_int, check_path
from spdl.io._archive.tar_index import TarIndex, tar_index
from spdl.io._common.format_error import FormatError
from spdl.io._common.mapped_file import map_file, stat_file

if TYPE_CHECKING:
    from collections.abc import Iterator


class TarFile:
    """A tar archive that is mapped into memory and whose members can be read in any order.

    `tar_index` finds the members and keeps its result beside the archive. Any number of threads may read. The file
    stays mapped while this object or the content of a member lives, and must not be truncated meanwhile.

    Args:
        path: The archive, which must not be compressed.

    Attributes:
        index: The names, positions and sizes of the members.

    Raises:
        FormatError: If this is no tar archive, if it is compressed, damaged or truncated, or holds a sparse file.
        OSError: If it cannot be mapped.
        TypeError: If `path` is no path.

    Example:
        >>> tar = TarFile(archive)
        >>> len(tar), bytes(tar.read(2)), bytes(tar.read("a.cls"))
        (3, b'2', b'7')
        >>> [name for name, content in tar.iter_from(1)]
        ['a.cls', 'b.txt']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_path("path", path)
        self._path = os.fsdecode(path)
        while True:
            archive = stat_file(path)
            self.index: TarIndex = tar_index(path)
            self._file = map_file(path)
            # The file may have been replaced between the two calls.
            if os.path.samestat(archive, os.stat(path)):  # noqa: PTH116
                break

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[tuple[str, memoryview]]:
        return self.iter_from(0)

    def read(self, member: int | str) -> memoryview:
        """Return the content of a member as a read-only view of the file.

        Args:
            member: Its name, or its position among the regular files. A negative position counts from the end.

        Raises:
            FormatError: If the archive has become shorter since it was indexed.
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
            TypeError, ValueError: If `position` is no int in that range.
            FormatError: While iterating, if the file is shorter than its index says.
        """
        position = check_int("position", position, least=0, most=len(self))
        return (self._content(index) for index in range(position, len(self)))

    def __repr__(self) -> str:
        return f"<TarFile of {len(self)} members>"

    def _content(self, position: int) -> tuple[str, memoryview]:
        name, offset, size = self.index[position]
        # A new view each time: without the GIL, Python 3.13 miscounts the slices of a memoryview that threads share.
        view = memoryview(self._file)
        if offset + size > len(view):
            msg = (
                f"{self._path!r} has {len(view)} bytes, but by its index the member {name!r} goes up to byte "
                f"{offset + size}"
            )
            raise FormatError(msg)
        return name, view[offset : offset + size]
