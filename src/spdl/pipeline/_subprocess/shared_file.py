"""Memory that a process shares with its worker: an unnamed file, which the system frees after its last user."""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any

__all__ = ["SharedFile"]


class SharedFile:
    """A shared file: its descriptor, which can be sent to a child, and this process's view of the content."""

    def __init__(self) -> None:
        self.fd = _make_file()
        self._map: mmap.mmap | None = None
        self._view = memoryview(b"")

    # For children that are not forked: multiprocessing pickles their arguments.
    def __getstate__(self) -> object:
        duplicate: object = reduction.DupFd(self.fd)
        return duplicate

    def __setstate__(self, duplicate: Any) -> None:
        self.fd = duplicate.detach()
        self._map = None
        self._view = memoryview(b"")

    def set_size(self, size: int) -> None:
        """Set the length of the file. This takes no memory yet."""
        os.ftruncate(self.fd, size)

    def back(self, begin: int, end: int) -> None:
        """Allocate the memory for a part of the file.

        Raises:
            OSError: If there is not enough. If the memory were not allocated here, writing would kill the process.
        """
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.fd, begin, end - begin)

    def view(self, begin: int, end: int) -> memoryview:
        """Return the bytes from ``begin`` to ``end`` of the file, as a view. Release it before the next call."""
        if end > len(self._view):
            self._unmap()
            self._map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
            self._view = memoryview(self._map)
        return self._view[begin:end]

    def close(self) -> None:
        """Unmap the file and close its descriptor."""
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
    # The file is deleted before anything is written.
    with tempfile.TemporaryFile(prefix="spdl-") as file:
        return os.dup(file.fileno())
