"""The blocks that the writing process has lent to its own code, which fills them and then sends them."""

from __future__ import annotations

import ctypes
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from .loans import lend
from .slab import block_size

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Iterator

__all__ = ["LentBlocks", "Place"]


class Place(NamedTuple):
    """Where a buffer is: in which block, and how far from its beginning."""

    begin: int
    offset: int


class LentBlocks:
    """Knows which blocks this process's code has, and how often each was sent. A block is free when both are over.

    Args:
        mapped: The mapping of the memory.
    """

    def __init__(self, mapped: mmap.mmap) -> None:
        self._map = mapped
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        # The size of each block that was lent, and how many there are who have it.
        self._sizes: dict[int, int] = {}
        self._users: dict[int, int] = {}
        # Blocks that this process has dropped. A finalizer, which may interrupt any code, puts them here.
        self._dropped: deque[int] = deque()

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def lend(self, begin: int, size: int) -> memoryview:
        """Return a view of a block."""
        self._sizes[begin] = size
        self._users[begin] = 1
        return lend(self._map, begin, size, block_size(size), self._dropped.append)

    def find(self, buffer: memoryview) -> Place | None:
        """Return the place of a buffer that lies in a lent block, or None."""
        if buffer.readonly:
            return None
        position = ctypes.addressof(ctypes.c_char.from_buffer(buffer)) - self._base
        for begin, size in self._sizes.items():
            if begin <= position and position + buffer.nbytes <= begin + size:
                return Place(begin, position - begin)
        return None

    def send(self, begin: int) -> None:
        """Note that the receiver has the block, too."""
        self._users[begin] += 1

    def leave(self, blocks: Iterable[int]) -> Iterator[int]:
        """Note that the receiver, or whoever, has given blocks back, and yield those that are free now."""
        for begin in blocks:
            users = self._users.get(begin)
            if users is None:
                yield begin
            elif users > 1:
                self._users[begin] = users - 1
            else:
                del self._users[begin], self._sizes[begin]
                yield begin

    def take_dropped(self) -> list[int]:
        """Return the blocks that this process has dropped since the last call."""
        dropped = []
        while self._dropped:
            dropped.append(self._dropped.popleft())
        return dropped
