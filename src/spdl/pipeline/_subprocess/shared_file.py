"""Memory that a process shares with its worker: a file without a name, which the system frees with its last user."""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any

__all__ = ["SharedFile"]


class SharedFile:
    """The file's descriptor, which can be handed to a child, and this process's view of the content."""

    def __init__(self) -> None:
        self.fd = _make_file()
        self._map: mmap.mmap | None = None
        self._view = memoryview(b"")

    # How a child that is not forked gets it: multiprocessing pickles what it hands over.
    def __getstate__(self) -> object:
        duplicate: object = reduction.DupFd(self.fd)
        return duplicate

    def __setstate__(self, duplicate: Any) -> None:
        self.fd = duplicate.detach()
        self._map = None
        self._view = memoryview(b"")

    def set_size(self, size: int) -> None:
        """Make the file so long. That takes no memory yet."""
        os.ftruncate(self.fd, size)

    def back(self, begin: int, end: int) -> None:
        """Take the memory for a part of the file.

        Raises:
            OSError: If there is not so much. Without this, writing there would end the process.
        """
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.fd, begin, end - begin)

    def view(self, begin: int, end: int) -> memoryview:
        """The bytes from ``begin`` to ``end``, which must be in the file. Release it before asking for another one."""
        if end > len(self._view):
            self._unmap()
            self._map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
            self._view = memoryview(self._map)
        return self._view[begin:end]

    def close(self) -> None:
        """Let go of it."""
        self._unmap()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _unmap(self) -> None:
        self._view.release()
        self._view = memoryview(b"")
        if self._map is not None:
            self._map.close()
            self._map = None


def _make_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("spdl", os.MFD_CLOEXEC)
    # Deleted before anything is written.
    with tempfile.TemporaryFile(prefix="spdl-") as file:
        return os.dup(file.fileno())
