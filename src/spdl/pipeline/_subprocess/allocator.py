"""Allocates blocks of a shared file."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .shared_file import SharedFile

__all__ = ["Allocator"]

_LEAST_SIZE = 1 << 16

# Between passes, a file that needed more memory than this gives all of it back.
_KEPT = 64 << 20


class Allocator:
    """Allocates blocks of a file. Blocks are freed in the order in which they were allocated."""

    def __init__(self, file: SharedFile) -> None:
        self.file = file
        self.size = 0
        # The file has memory up to here.
        self.backed = 0
        # (begin, end) of the blocks in use, oldest first; (0, 0) for a message without a block.
        self.blocks: deque[tuple[int, int]] = deque()
        # The gap that the next block is cut from.
        self.begin = self.end = 0

    def allocate(self, size: int) -> int:
        """Allocate a block of ``size`` bytes, and return the offset of its beginning.

        Raises:
            OSError: If the system does not have that much memory.
        """
        if self.end - self.begin < size:
            self._find_gap(size)
        begin = self.begin
        end = begin + size
        if end > self.backed:
            self.file.back(self.backed, end)
            self.backed = end
        self.begin = end
        self.blocks.append((begin, end))
        return begin

    def allocate_nothing(self) -> None:
        """Add an empty block, for a message whose content is not in the file. It is freed like the others."""
        self.blocks.append((0, 0))

    def free(self, count: int) -> None:
        """Free the ``count`` oldest blocks."""
        for _ in range(count):
            self.blocks.popleft()

    def reset(self) -> None:
        """Free all blocks. If an unusual amount of memory was needed, give it back to the system as well."""
        self.blocks.clear()
        if self.backed > _KEPT:
            self.file.set_size(0)
            self.size = self.backed = 0
        self.begin, self.end = 0, self.size

    def _find_gap(self, size: int) -> None:
        # The lowest gap that is large enough: recently used memory is still in the cache.
        position = 0
        for begin, end in sorted(self.blocks):
            if begin - position >= size:
                self.begin, self.end = position, begin
                return
            position = max(position, end)
        needed = position + size
        if needed > self.size:
            # The size doubles, so that views of the file rarely become too short.
            self.size = max(_LEAST_SIZE, 1 << (needed - 1).bit_length())
            self.file.set_size(self.size)
        self.begin, self.end = position, self.size
