"""Which parts of a shared file are taken."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .shared_file import SharedFile

__all__ = ["Places"]

_LEAST_SIZE = 1 << 16

# Between passes a file that needed more memory than this gives all of it back.
_KEPT = 64 << 20


class Places:
    """The parts that are taken. They are given back in the order in which they were taken."""

    def __init__(self, file: SharedFile) -> None:
        self.file = file
        self.size = 0
        # So far the file has memory behind it.
        self.backed = 0
        # (begin, end), oldest first; (0, 0) for what took no place.
        self.taken: deque[tuple[int, int]] = deque()
        # The gap that the next place is cut from.
        self.begin = self.end = 0

    def take(self, size: int) -> int:
        """Take so many bytes, and return where they begin.

        Raises:
            OSError: If the system has not so much memory.
        """
        if self.end - self.begin < size:
            self._find_gap(size)
        begin = self.begin
        end = begin + size
        if end > self.backed:
            self.file.back(self.backed, end)
            self.backed = end
        self.begin = end
        self.taken.append((begin, end))
        return begin

    def take_none(self) -> None:
        """Take nothing, for what is given back like the others."""
        self.taken.append((0, 0))

    def give_back(self, count: int) -> None:
        """Give back the oldest places."""
        for _ in range(count):
            self.taken.popleft()

    def reset(self) -> None:
        """Give all back, and the memory as well if an unusual lot was needed."""
        self.taken.clear()
        if self.backed > _KEPT:
            self.file.set_size(0)
            self.size = self.backed = 0
        self.begin, self.end = 0, self.size

    def _find_gap(self, size: int) -> None:
        # The lowest one that is large enough: what was in use a moment ago is still in the cache.
        position = 0
        for begin, end in sorted(self.taken):
            if begin - position >= size:
                self.begin, self.end = position, begin
                return
            position = max(position, end)
        needed = position + size
        if needed > self.size:
            # Twice as long each time, so that few views of it become too short.
            self.size = max(_LEAST_SIZE, 1 << (needed - 1).bit_length())
            self.file.set_size(self.size)
        self.begin, self.end = position, self.size
