"""Tar archives with random access."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from spdl._check import check_int, check_path
from spdl.io._archive.member_header import has_header, not_there
from spdl.io._archive.stored_index import stored_tar_index
from spdl.io._archive.tar_index import SUFFIX, is_index_of, tar_index
from spdl.io._common.format_error import FormatError
from spdl.io._common.mapped_file import map_file
from spdl.io._common.one_version import ChangedError, find_version
from spdl.io._common.remote import is_url, open_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from spdl.io._archive.tar_members import TarIndex, TarMember


class TarFile:
    """A tar archive that is mapped into memory and whose members can be read in any order.

    `tar_index` finds the members and keeps its result beside the archive. Any number of threads may read. The file
    stays mapped while this object or the content of a member lives, and must not be truncated meanwhile. Of an archive
    that a URL names, the headers are read once, and then each member when it is asked for.

    Args:
        path: The archive, which must not be compressed, or its URL.

    Attributes:
        index: The names, positions and sizes of the members.

    Raises:
        FormatError: If this is no tar archive, if it is compressed, damaged or truncated, or holds a sparse file.
        OSError: If it cannot be mapped, or read.
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
        self._content_at: Callable[[int, int], memoryview]
        # The file whose headers are still compared with the index: those of a store have versions.
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
            TypeError, ValueError: If `position` is no int in that range.
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
        """Compare all of the index with the archive, since a header is not as most are.

        Raises:
            ChangedError: If they differ.
        """
        if is_index_of(self.index, file):
            self._compared = None
            return
        raise ChangedError(not_there(self._path, member, self._path + SUFFIX), path=self._path)
