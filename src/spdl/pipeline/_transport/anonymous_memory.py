"""Memory that processes share: without a name, sealed, and gone with its last user."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import resource
import tempfile
from errno import ENOMEM
from functools import cache
from math import inf
from multiprocessing import reduction
from pathlib import Path
from typing import Any

from .available_memory import available_memory

__all__ = ["AnonymousMemory", "largest_mapped", "largest_size"]

# Who gets the descriptor can neither cut the file off, which would kill readers, nor change these rules.
_SEALS = [getattr(fcntl, f"F_SEAL_{name}", 0) for name in ("SHRINK", "GROW", "SEAL")]


# Looking how much is left takes longer than taking less than this.
_LEAST_CHECKED = 1 << 24
# If a process may map only so much, one memory takes a part of what is left that leaves room for others, and for all
# else that the process needs. It is of use only from some size on.
_ADDRESSES = 16
_LEAST_SIZE = 1 << 26


class AnonymousMemory:
    """Memory that can be sent to a child process, as an argument of the process.

    It has a length, but takes only what `back` has asked for. The system frees it with the last process that has it.
    No limit of ``/dev/shm`` applies. Views of the mapping keep the mapping, also after `close`. What lies behind the
    mapping takes none of the addresses that a process may have only so many of (``ulimit -v``).

    Args:
        size: Bytes. It never changes.
        mapped: How many of them, from the beginning, each process maps. `read` and `write` reach the others. None is
            all.
    """

    def __init__(self, size: int, mapped: int | None = None) -> None:
        self._set(size, size if mapped is None else mapped, _make_file())
        try:
            os.ftruncate(self.fd, size)
            if all(_SEALS):
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, sum(_SEALS))
            # Mapped here, so that a size that this process has no room for shows at once.
            self.map()
        except BaseException:
            os.close(self.fd)
            raise

    # For children that are not forked: multiprocessing pickles their arguments.
    def __getstate__(self) -> object:
        return self.size, self.mapped, reduction.DupFd(self.fd)

    def __setstate__(self, state: Any) -> None:
        size, mapped, duplicate = state
        self._set(size, mapped, duplicate.detach())

    def _set(self, size: int, mapped: int, fd: int) -> None:
        self.size = size
        self.mapped = mapped
        self.fd = fd
        self._map: mmap.mmap | None = None

    def copy(self) -> AnonymousMemory:
        """Return the same memory with a descriptor and a mapping of its own."""
        return self.copy_of(self.size, self.mapped, self.fd)

    @classmethod
    def copy_of(cls, size: int, mapped: int, fd: int) -> AnonymousMemory:
        """Return the memory of a descriptor, with a descriptor and a mapping of its own."""
        copied = cls.__new__(cls)
        copied._set(size, mapped, os.dup(fd))  # noqa: SLF001 - another one of this class.
        return copied

    def map(self) -> mmap.mmap:
        """Return this process's mapping."""
        if self._map is None:
            self._map = mmap.mmap(self.fd, self.mapped)
        return self._map

    def write(self, begin: int, content: Any) -> None:
        """Copy content into what is not mapped. Back it before."""
        with memoryview(content) as view, view.cast("B") as left:
            done = 0
            while done < len(left):
                done += os.pwrite(self.fd, left[done:], begin + done)

    def read(self, begin: int, size: int) -> bytearray:
        """Return a copy of what is not mapped."""
        content = bytearray(size)
        with memoryview(content) as left:
            done = 0
            while done < size:
                done += os.preadv(self.fd, [left[done:]], begin + done)
        return content

    def back(self, begin: int, end: int) -> None:
        """Take memory for the bytes from ``begin`` to ``end``.

        Raises:
            OSError: If there is not enough. If it were not taken here, writing there would kill the process.
        """
        size = end - begin
        # The system would end processes, this one perhaps, before it refused.
        if size > _LEAST_CHECKED and size > available_memory():
            raise OSError(ENOMEM, f"The machine or this process's group has no {size:,} bytes of memory left to share")
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.fd, begin, size)

    def give_up(self, begin: int, end: int) -> None:
        """Give the memory of whole pages between ``begin`` and ``end`` back to the system. Back it before using it."""
        begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        if begin < end and hasattr(mmap, "MADV_REMOVE"):
            # If the system does not know how, or has no addresses left, the memory stays.
            with contextlib.suppress(OSError):
                if end <= self.mapped:
                    self.map().madvise(mmap.MADV_REMOVE, begin, end - begin)
                else:
                    with mmap.mmap(self.fd, end - begin, offset=begin) as mapped:
                        mapped.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """Let go of it. What views refer to stays for as long as they live."""
        mapped, self._map = self._map, None
        if mapped is not None:
            with contextlib.suppress(BufferError):
                mapped.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def largest_mapped() -> int:
    """Return the bytes of this machine's memory, as a power of two that a process has addresses for many times."""
    size = largest_size()
    left = _addresses_left()
    while size > _LEAST_SIZE and size * _ADDRESSES > left:
        size //= 2
    return size


@cache
def largest_size() -> int:
    """Return the bytes of this machine's memory, as a power of two."""
    try:
        pages = os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        pages = 0
    return 1 << max(32, min(40, (pages * mmap.PAGESIZE).bit_length()))


def _addresses_left() -> float:
    """Return how many more bytes this process may map; infinite if it has no limit, as under no ``ulimit -v``."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return inf
    # Where the system does not tell how much is mapped, the limit counts.
    with contextlib.suppress(OSError):
        limit -= int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    return limit


def _make_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("spdl", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    # The file is deleted before anything is written.
    with tempfile.TemporaryFile(prefix="spdl-") as file:
        return os.dup(file.fileno())
