"""Files of this machine."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spdl._check import check_path, refuse
from spdl.store._blocks import cut_out, merge_ranges, read_part
from spdl.store._store import CheckedStore, Entry, Spans, StoreError, check_inside, not_found

if TYPE_CHECKING:
    from typing_extensions import Buffer


_GAP = 1 << 14
"""Reading this many bytes takes about as long as another system call and another hand-over of the GIL."""
_BLOCK = 1 << 23


class LocalStore(CheckedStore):
    """A folder of this machine, or of a file system that is mounted here.

    Reading does not hold the GIL. Links are followed, but for one to a folder that it lies in. Only regular files are
    objects, not pipes for example. Listings are sorted by the paths. An ``etag`` consists of the file's number, size
    and time of change.

    Args:
        root: The folder.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If the path is empty.

    Example:
        >>> import os, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> os.mkdir(os.path.join(folder.name, "cats"))
        >>> with open(os.path.join(folder.name, "cats", "1.bin"), "wb") as file:
        ...     _ = file.write(b"0123456789")
        >>> store = LocalStore(folder.name)
        >>> [(entry.path, entry.size) for entry in store.list("cats")]
        [('cats/1.bin', 10)]
        >>> bytes(store.get("cats/1.bin"))
        b'0123456789'
        >>> [bytes(part) for part in store.get_ranges("cats/1.bin", [8, 0], [2, 3])]
        [b'89', b'012']
        >>> folder.cleanup()
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        check_path("root", root)
        self._root = os.fspath(root)
        if not self._root:
            refuse(ValueError, "root", "the path of a folder, not an empty one; '.' is the working folder", root)
        self._base = os.path.join(os.path.abspath(self._root), "")  # noqa: PTH100, PTH118 - half the time of Path.
        if not os.path.isdir(self._base):  # noqa: PTH112
            raise FileNotFoundError(2, "No such folder", self._root)

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    def identity(self) -> str:
        """Return a text that differs between stores which may have different objects under the same path.

        Caches know by it what they have kept. It is the whole path of the folder.
        """
        return self._base

    def _size(self, path: str) -> int:
        with self._named(path):
            status = os.stat(self._base + path)  # noqa: PTH116
        if stat.S_ISREG(status.st_mode):
            return status.st_size
        raise not_found(path, repr(self))

    def _list(self, prefix: str) -> Iterator[Entry]:
        if prefix:
            try:
                with self._named(prefix):
                    status = os.stat(self._base + prefix)  # noqa: PTH116
            except FileNotFoundError:
                return
            if stat.S_ISREG(status.st_mode):
                yield _entry(prefix, status)
        yield from self._walk(prefix + "/" if prefix else "", ())

    def _walk(self, folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[Entry]:
        with self._named(folder or "."):
            try:
                status = os.stat(self._base + folder)  # noqa: PTH116
                with os.scandir(self._base + folder) as found:
                    # As if all paths were sorted: what is below a folder comes where its name with a slash would.
                    names = sorted(self._look_at(folder, found), key=lambda each: each[0])
            except (FileNotFoundError, NotADirectoryError):
                return  # It was removed in the meantime.
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            return
        for name, entry in names:
            if entry is None:
                yield from self._walk(name, (*above, identity))
            else:
                yield entry

    def _look_at(self, folder: str, found: Iterable[os.DirEntry[str]]) -> Iterator[tuple[str, Entry | None]]:
        """Yield the paths of folders, with a slash at the end, and the paths of files with their entries."""
        for each in found:
            path = folder + each.name
            with self._named(path):
                try:
                    status = each.stat()
                except OSError as error:
                    if error.errno in (errno.ENOENT, errno.ELOOP):
                        continue  # A link to nothing, or to itself.
                    raise
            if stat.S_ISDIR(status.st_mode):
                yield f"{path}/", None
            elif stat.S_ISREG(status.st_mode):
                yield path, _entry(path, status)

    def _read(self, path: str, ranges: Spans | None) -> tuple[Entry, list[Buffer]]:
        with self._opened(path) as (descriptor, status):
            if ranges is None:
                parts = [self._read_part(path, descriptor, 0, status.st_size)]
            else:
                check_inside(path, repr(self), *ranges, status.st_size)
                blocks = merge_ranges(*ranges, gap=_GAP, most=_BLOCK)
                contents = (self._read_part(path, descriptor, block.start, block.length) for block in blocks)
                parts = cut_out(blocks, contents, *ranges)
            after = os.fstat(descriptor)  # It may have been written to in the meantime.
        return _entry(path, after), parts

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        with self._named(path):
            # Opening a pipe would wait for a writer.
            descriptor = os.open(self._base + path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise IsADirectoryError
                yield descriptor, status
            finally:
                os.close(descriptor)

    def _read_part(self, path: str, descriptor: int, start: int, length: int) -> Buffer:
        part = read_part(descriptor, start, length)
        if len(part) < length:
            raise StoreError(f"{path} in {self!r}: it was cut to {start + len(part)} bytes while it was read")
        return part

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise not_found(path, repr(self)) from error
        except OSError as error:
            raise StoreError(f"{path} in {self!r}: {error.strerror}") from error


def _entry(path: str, status: os.stat_result) -> Entry:
    return Entry(path, status.st_size, f'"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"')
