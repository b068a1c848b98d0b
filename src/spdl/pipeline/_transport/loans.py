"""Blocks of shared memory that are on loan: views of them, and how they are given back when the last view is gone."""

from __future__ import annotations

import ctypes
import os
from array import array
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

__all__ = ["Returns", "lend"]


class Returns:
    """Gives blocks back to the process that allocates them, by a pipe. Any thread may do so, at any time.

    Args:
        pipe: The descriptor that the beginnings of blocks are written to. It is closed by `close`.
    """

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._owner = os.getpid()
        # A finalizer may interrupt any code, this one included.
        self._lock = RLock()
        # Blocks that the pipe had no room for.
        self.waiting = array("Q")

    def give_back(self, block: int) -> None:
        """Give a block back."""
        if os.getpid() != self._owner:
            # A fork has copied the views. The memory is not its to give.
            return
        with self._lock:
            self.waiting.append(block)
            self.flush()

    def flush(self) -> None:
        """Write what has been waiting, as much as the pipe has room for."""
        with self._lock:
            content = self.waiting[: 4096 // self.waiting.itemsize]
            while content and self._pipe >= 0:
                try:
                    # No more than the system writes in one piece.
                    os.write(self._pipe, content)
                except BlockingIOError:
                    return
                except OSError:  # The other process is gone, and the blocks with it.
                    self.waiting = array("Q")
                    return
                del self.waiting[: len(content)]
                content = self.waiting[: len(content)]

    def close(self) -> None:
        """Close the pipe. Blocks that are given back later are nobody's."""
        if os.getpid() != self._owner:
            # A thread that this fork does not have may have held the lock when it was forked.
            self._close()
            return
        with self._lock:
            self._close()

    def _close(self) -> None:
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)


def lend(mapped: mmap.mmap, begin: int, length: int, size: int, give_back: Callable[[int], object]) -> memoryview:
    """Return a view of a block. When it, and all that was made of it, is gone, the block is given back.

    Args:
        mapped: The mapping of the memory. The view keeps it.
        begin: Where the block begins.
        length: The bytes to see.
        size: The size of the block, at least ``length``. There should be few different ones: each has its own class.
        give_back: Called with ``begin``, by whichever thread drops the last view.
    """
    loan = _loan_class(size).from_buffer(mapped, begin)
    loan.begin_with(begin, give_back)
    return memoryview(loan).cast("B")[:length]


class _Loan:
    """What makes an array of ctypes a loan: something of Python's own that shows memory, and has a finalizer.

    Before Python 3.12, classes that are written in Python cannot show memory otherwise.
    """

    def begin_with(self, begin: int, give_back: Callable[[int], object]) -> None:
        self._begin = begin
        self._give_back = give_back

    def __del__(self) -> None:
        self._give_back(self._begin)


@cache
def _loan_class(size: int) -> Any:
    return type("Loan", (_Loan, ctypes.c_ubyte * size), {})
