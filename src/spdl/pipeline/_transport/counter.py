"""A number that two processes share, and that wakes the one that takes it: an eventfd, or a pipe where there is none.

What was written before an addition is seen by whoever takes it: both are calls of the system. So rings need no atomic
operations, and a process that is killed at any instruction has either published a message whole, or not at all.
"""

from __future__ import annotations

import os
from multiprocessing import reduction
from struct import Struct, iter_unpack
from typing import Any

__all__ = ["Counter"]

_AMOUNT = Struct("<Q")
_READ_AT_ONCE = 1 << 16


class Counter:
    """One process's descriptors of the number. It can be sent to a child process, as an argument of the process."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self._set(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        else:
            self._set(*os.pipe())
            os.set_blocking(self.reader, False)

    def __getstate__(self) -> object:
        return [reduction.DupFd(fd) for fd in self.descriptors()]

    def __setstate__(self, duplicates: Any) -> None:
        self._set(*[duplicate.detach() for duplicate in duplicates])

    def descriptors(self) -> list[int]:
        """Return the descriptors: one, or two of a pipe."""
        both = (self.reader, self._writer) if self._writer != self.reader else (self.reader,)
        return [fd for fd in both if fd >= 0]

    def copy(self) -> Counter:
        """Return a counter of the same number with descriptors of its own."""
        return self.copy_of(self.reader, self._writer)

    @classmethod
    def copy_of(cls, reader: int, writer: int) -> Counter:
        """Return a counter of the number that these descriptors are of, with descriptors of its own."""
        copied = cls.__new__(cls)
        copied._set(*[os.dup(fd) for fd in sorted({reader, writer}, key=(reader, writer).index)])  # noqa: SLF001
        return copied

    def add(self, amount: int) -> None:
        """Add to the number, and wake the process that waits for ``reader`` to become readable."""
        if self._writer == self.reader:
            os.eventfd_write(self._writer, amount)
        else:
            os.write(self._writer, _AMOUNT.pack(amount))

    def take(self) -> int:
        """Return the number and set it to 0."""
        try:
            if self._writer == self.reader:
                return os.eventfd_read(self.reader)
            return sum(amount for (amount,) in iter_unpack(_AMOUNT.format, os.read(self.reader, _READ_AT_ONCE)))
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the descriptors."""
        for fd in self.descriptors():
            os.close(fd)
        self.reader = self._writer = -1

    def _set(self, *descriptors: int) -> None:
        self.reader, self._writer = descriptors[0], descriptors[-1]
