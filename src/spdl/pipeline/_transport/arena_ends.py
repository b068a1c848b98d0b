"""The two ends of an arena: who puts content into its memory, and who reads it there."""

from __future__ import annotations

import os
from array import array
from itertools import accumulate
from math import ceil
from select import POLLIN, poll
from struct import Struct
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any

from .loans import Returns, lend
from .slab import Slab, block_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .anonymous_memory import AnonymousMemory
    from .counter import Counter

__all__ = [
    "ARENA_BEGIN",
    "GIVEN_BACK",
    "PUT",
    "SHUT_DOWN",
    "ArenaReader",
    "ArenaWriter",
    "read_number",
    "write_number",
]

# The memory's first page: how much was put in, how much was given back, and whether the arena is shut down. Each number
# is written by one process.
ARENA_BEGIN = 4096
PUT, GIVEN_BACK, SHUT_DOWN = 0, 64, 128
_NUMBER = Struct("<Q")
_READ_AT_ONCE = 1 << 16
# Milliseconds. The system takes a C int.
_LONGEST_POLL = 2**31 - 1


class ArenaWriter:
    """Takes blocks of an arena, and waits for them.

    Args:
        memory: The arena's memory.
        segment: What blocks are multiples of; None for any size.
        returns: The reading end of the pipe that blocks come back by.
        shut_down: What is added to when the arena is shut down.
        timeout: Seconds to wait for a block.
    """

    def __init__(
        self, memory: AnonymousMemory, segment: int | None, returns: int, shut_down: Counter, timeout: float
    ) -> None:
        self.view = memoryview(memory.map())
        self._slab = Slab(memory, ARENA_BEGIN, memory.size, segment, keeps=True)
        self._segment = segment
        self._returns = returns
        self._shut_down = shut_down
        self._timeout = timeout
        self._put = 0
        os.set_blocking(returns, False)

    def fits(self, size: int) -> bool:
        """Return whether so many bytes fit into the arena when it is empty."""
        return self._slab.fits(size)

    def acquire(self, size: int, signs: Sequence[int] = (), on_sign: Callable[[], object] | None = None) -> int:
        """Take a block.

        Args:
            size: Its bytes.
            signs: Descriptors to watch while waiting.
            on_sign: Called when one of them is readable. It raises to end the waiting.

        Raises:
            BufferError: If there is none in time, or if the arena was shut down.
        """
        begin = self._try(size)
        if begin is not None:
            return begin
        deadline = monotonic() + self._timeout
        waiting = poll()
        for fd in (self._returns, self._shut_down.reader, *signs):
            waiting.register(fd, POLLIN)
        while True:
            left = max(0.0, deadline - monotonic())
            ready = dict(waiting.poll(min(ceil(left * 1000), _LONGEST_POLL)))
            begin = self._try(size)
            if begin is not None:
                return begin
            if not left:
                raise BufferError(
                    f"The arena had no room for {size:,} bytes within {self._timeout:g} seconds: what was received "
                    "before is still in use. Drop what you need no more, or make the arena larger."
                )
            if on_sign is not None and any(sign in ready for sign in signs):
                on_sign()

    def release(self, blocks: Iterable[int]) -> None:
        """Take blocks back that were not sent."""
        self._slab.free(blocks)

    def publish(self, size: int) -> None:
        """Count a block that was sent: its bytes, or its segments."""
        self._put += _amount(size, self._segment)
        _NUMBER.pack_into(self.view, PUT, self._put)

    def close(self) -> None:
        """Let go of the memory."""
        self.view.release()

    def _try(self, size: int) -> int | None:
        if _NUMBER.unpack_from(self.view, SHUT_DOWN)[0]:
            raise BufferError("The arena was shut down.")
        if not self._slab.has_free(size):
            try:
                while content := os.read(self._returns, _READ_AT_ONCE):
                    self._slab.free(array("Q", content))
            except BlockingIOError:
                pass
        return self._slab.allocate(size)


class ArenaReader:
    """Reads blocks of an arena, and gives them back.

    Args:
        memory: The arena's memory.
        segment: What blocks are multiples of; None for any size.
        returns: The writing end of the pipe that blocks go back by. The reader closes it.
        zero_copy: Whether to return views of the memory, rather than copies.
    """

    def __init__(self, memory: AnonymousMemory, segment: int | None, returns: int, *, zero_copy: bool) -> None:
        self.zero_copy = zero_copy
        self._map = memory.map()
        self._segment = segment
        self._returns = Returns(returns)
        self._owner = os.getpid()
        self._given_back = 0
        self._sizes: dict[int, int] = {}
        # A finalizer may interrupt any code, this one included.
        self._lock = RLock()

    def borrow(self, begin: int, lengths: Sequence[int], alignment: int) -> list[Any]:
        """Return the buffers of a block, one behind the other, each beginning at a multiple of ``alignment``.

        If they are views, the block is given back with the last one, and otherwise at once.
        """
        sizes = [-(-length // alignment) * alignment for length in lengths]
        size = sum(sizes)
        with self._lock:
            self._sizes[begin] = size
        block = block_size(size) if self._segment is None else -(-size // self._segment) * self._segment
        view = lend(self._map, begin, size, block, self._give_back)
        positions = accumulate(sizes, initial=0)
        parts = [view[position : position + length] for position, length in zip(positions, lengths, strict=False)]
        return parts if self.zero_copy else [bytearray(part) for part in parts]

    def close(self) -> None:
        """Close the pipe. Views of the memory stay."""
        self._returns.close()

    def _give_back(self, begin: int) -> None:
        if os.getpid() != self._owner:
            # A fork has copied the views, and the lock as another thread may have held it.
            return
        with self._lock:
            self._given_back += _amount(self._sizes.pop(begin, 0), self._segment)
            _NUMBER.pack_into(self._map, GIVEN_BACK, self._given_back)
        self._returns.give_back(begin)


def _amount(size: int, segment: int | None) -> int:
    return size if segment is None else max(1, -(-size // segment))


def read_number(memory: AnonymousMemory, where: int) -> int:
    """Return a number of an arena's first page."""
    number: int = _NUMBER.unpack_from(memory.map(), where)[0]
    return number


def write_number(memory: AnonymousMemory, where: int, number: int) -> None:
    """Set a number of an arena's first page."""
    _NUMBER.pack_into(memory.map(), where, number)
