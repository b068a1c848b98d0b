"""Files of the disk cache, and the locks of the processes that share them."""

from __future__ import annotations

import fcntl
import os
import secrets
import struct
import threading
import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from zlib import crc32

from spdl._locate import warn_caller
from spdl.store._blocks import read_part

_OPEN_FILE = getattr(fcntl, "F_OFD_SETLKW", None)
"""Locks of parts of a file that belong to the open file, and so to a thread; those of POSIX belong to the process."""

_held: set[int] = set()
"""The descriptors that hold locks. A forked process closes its copies: the lock has to end with the parent."""

_noting = threading.RLock()
"""Held while a descriptor is opened or closed, and by a fork: an unknown copy would keep the lock forever.

A thread may hold it twice: if a signal's handler forks.
"""


@contextmanager
def holding(path: str, numbers: Iterable[int] = ()) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is missing, and the folder, too; or the locks of numbers in it."""
    descriptor = _open(path)
    try:
        ordered = sorted(set(numbers))  # In one order everywhere, so that threads never wait in a circle.
        if not ordered or _OPEN_FILE is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            for number in ordered:
                fcntl.fcntl(descriptor, _OPEN_FILE, struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
        yield
    finally:
        _close(descriptor)


def _open(path: str) -> int:
    try:
        return _open_noted(path)
    except FileNotFoundError:  # Somebody has removed the folder.
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)  # noqa: PTH103, PTH120
        return _open_noted(path)


def _open_noted(path: str) -> int:
    with _noting:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _held.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    with _noting:
        if descriptor in _held:  # A forked process has closed it already.
            _held.discard(descriptor)
            os.close(descriptor)


def _begin_anew() -> None:
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()
    _noting.release()


os.register_at_fork(before=_noting.acquire, after_in_parent=_noting.release, after_in_child=_begin_anew)


_FLOOR_BYTES = 1 << 30
"""The space left free on the disk for others."""
_LOW_SHARE = 0.9
_USED_SECONDS = 60.0
_AT_ONCE = 1 << 30
"""Linux writes less than 2 GiB in one call."""
_TEMPORARY = "new-"
_BLOCK = 1 << 16
_SUM = 4
_REMEMBERED = 1 << 18


class DiskCache:
    """A folder of files named by their keys. Processes share it, and may be killed at any moment.

    Behind the content of a file is a checksum for each block of it. They are compared until a process has read the
    whole file: after a power failure, a file may have its size and other bytes. If the folder cannot be written to,
    nothing is kept, and the first time there is a warning.

    A file appears under its name when it is complete. A counter in the folder is never less than what is there: bytes
    are added to it before they are written, and subtracted after they are removed. When they are more than `most`, or
    the disk is nearly full, the folder is listed, the counter put right, and the files that were not used for longest
    removed. The kernel releases a lock when its process dies.
    """

    def __init__(self, folder: str, most: int) -> None:
        self._folder = folder
        self._most = most
        self._warned = False
        self._sound: set[int] = set()
        try:
            for path in (folder, f"{folder}/files", f"{folder}/locks"):
                # The content may be private.
                os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103
        except (FileExistsError, NotADirectoryError):
            raise
        except OSError as error:
            self._go_on_without(error)

    def _path(self, name: str) -> str:
        return f"{self._folder}/files/{name}"

    def read(self, key: str, start: int, length: int, size: int) -> memoryview | None:
        """Return bytes of a file; None if it is not there, or is not the `size` bytes that were written."""
        path = self._path(key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # It is not there, or the disk is broken. Reading continues without it.
            return None
        try:
            status = os.fstat(descriptor)
            if time.time() - status.st_mtime > _USED_SECONDS:
                with suppress(OSError):  # Somebody else's folder that may only be read.
                    os.utime(descriptor)
            if status.st_size == size + _SUM * _blocks(size):
                mark = hash((key, status.st_ino))
                if mark in self._sound:
                    data = read_part(descriptor, start, length)
                    return memoryview(data) if len(data) == length else None
                found = self._read_checked(descriptor, key, start, length, size)
                if found is not None:
                    if length == size:
                        if len(self._sound) >= _REMEMBERED:
                            self._sound.clear()
                        self._sound.add(mark)
                    return found
        except OSError:
            return None
        finally:
            os.close(descriptor)
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        return None

    def _read_checked(self, descriptor: int, key: str, start: int, length: int, size: int) -> memoryview | None:
        """Return bytes of a file; None if the blocks that they lie in are not those that were written."""
        first, stop = start // _BLOCK, _blocks(start + length)
        begin, end = first * _BLOCK, min(stop * _BLOCK, size)
        if end == size:  # What follows the content is read with it.
            data = memoryview(read_part(descriptor, begin, size + _SUM * _blocks(size) - begin))
            sums = data[end - begin + _SUM * first :]
        else:
            data = memoryview(read_part(descriptor, begin, end - begin))
            sums = memoryview(read_part(descriptor, size + _SUM * first, _SUM * (stop - first)))
        content = data[: end - begin]
        if sums != _sums(key, first, content):
            return None
        return content[start - begin : start - begin + length]

    @contextmanager
    def alone(self, keys: Iterable[str]) -> Iterator[None]:
        """Keep all other threads and processes from entering with one of these keys, if the folder has locks."""
        with ExitStack() as held:
            try:
                held.enter_context(holding(f"{self._folder}/locks/keys", (int(key[:15], 16) for key in keys)))
            except OSError as error:
                self._go_on_without(error)
            yield

    def _go_on_without(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warn_caller(
                f"The folder {self._folder!r} cannot be written to ({error.strerror}): what is read is not kept there"
            )

    def write(self, key: str, content: memoryview) -> bool:
        try:
            return self._write(key, content)
        except FileNotFoundError:  # Somebody has removed the folder.
            return False
        except OSError as error:  # The disk is full, or broken.
            self._go_on_without(error)
            return False

    def _write(self, key: str, content: memoryview) -> bool:
        sums = _sums(key, 0, content)
        length = content.nbytes + len(sums)
        if length > self._most:
            return False
        name = f"{_TEMPORARY}{length}-{secrets.token_hex(8)}"
        with holding(f"{self._folder}/locks/all"):
            total = self._counter()
            if total + length > self._most or self._lacks_space(length):
                total = self._make_room(length)
                if total + length > self._most or self._lacks_space(length):
                    self._count(total)
                    return False
            self._count(total + length)
            descriptor = os.open(self._path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            # This tells those that list the folder that the file is still being written.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            for part in (content, memoryview(sums)):
                done = 0
                while done < part.nbytes:
                    done += os.write(descriptor, part[done : done + _AT_ONCE])
            # A process that lists the folder at this moment could miss both names.
            with holding(f"{self._folder}/locks/all"):
                os.rename(self._path(name), self._path(key))  # noqa: PTH104
        except BaseException:
            with suppress(OSError):
                os.unlink(self._path(name))  # noqa: PTH108
            raise
        finally:
            os.close(descriptor)
        return True

    def _lacks_space(self, length: int) -> bool:
        system = os.statvfs(self._folder)
        return system.f_bavail * system.f_frsize < _FLOOR_BYTES + length

    def _counter(self) -> int:
        try:
            with open(f"{self._folder}/bytes", encoding="ascii") as file:  # noqa: PTH123
                return int(file.read())
        except (FileNotFoundError, ValueError):
            return self._make_room(0)

    def _count(self, total: int) -> None:
        # A number of fixed width in one write: a killed process leaves the old number or the new one.
        descriptor = os.open(f"{self._folder}/bytes", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, b"%20d" % total, 0)
        finally:
            os.close(descriptor)

    def _make_room(self, length: int) -> int:
        """Remove files until `length` more bytes fit, and return how many bytes are there."""
        files, total = [], 0
        with os.scandir(f"{self._folder}/files") as found:
            for each in found:
                with suppress(FileNotFoundError):
                    if each.name.startswith(_TEMPORARY):
                        total += self._of_temporary(each.name)
                    else:
                        status = each.stat()
                        files.append((status.st_mtime_ns, status.st_size, each.path))
                        total += status.st_size
        files.sort(reverse=True)
        wanted = self._most if total + length <= self._most else int(_LOW_SHARE * self._most)
        while files and (total + length > wanted or self._lacks_space(length)):
            _, size, path = files.pop()
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108
            total -= size
        return total

    def _of_temporary(self, name: str) -> int:
        """Return how many bytes a file will have that is being written; remove it if its writer is dead."""
        descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(name.split("-")[1])
        else:
            os.unlink(self._path(name))  # noqa: PTH108
            return 0
        finally:
            os.close(descriptor)


def _blocks(size: int) -> int:
    return -(-size // _BLOCK)


def _sums(key: str, first: int, content: memoryview) -> bytes:
    """Return the checksums of blocks, which hold for this file alone, and for blocks from that number on."""
    of_file = int(key[:8], 16)
    starts = range(0, content.nbytes, _BLOCK)
    return array(
        "I", [crc32(content[at : at + _BLOCK], of_file ^ first + number) for number, at in enumerate(starts)]
    ).tobytes()
