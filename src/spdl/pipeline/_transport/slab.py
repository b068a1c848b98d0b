"""Divides memory into blocks of any size, which come back in any order. Only the process that writes knows how."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .anonymous_memory import AnonymousMemory

__all__ = ["Slab", "block_size"]

_LEAST = 4096

# What a lane keeps of its memory when it needs less, and how many blocks are a time in which the need is measured.
_KEPT = 64 << 20
_WINDOW = 256


def block_size(size: int) -> int:
    """Return the size of the block for so many bytes: four sizes for each power of two, so that blocks fit again."""
    if size <= _LEAST:
        return _LEAST
    shift = (size - 1).bit_length() - 3
    return (((size - 1) >> shift) + 1) << shift


class Slab:
    """A part of a memory, divided into blocks.

    Freed blocks serve requests for the same size, the latest one first, since it is still in the processor's cache. If
    there is none, all free blocks are joined with their neighbours, and the first gap that is large enough is cut.

    Args:
        memory: The memory.
        begin: Where the part begins.
        end: Where it ends.
        segment: Bytes that all blocks are multiples of. None takes the sizes of `block_size`.
        keeps: Whether it never gives memory back to the system by itself.
    """

    def __init__(
        self, memory: AnonymousMemory, begin: int, end: int, segment: int | None = None, *, keeps: bool = False
    ) -> None:
        self._keeps = keeps
        self._memory = memory
        self._segment = segment
        self._begin = begin
        self._end = end
        # No block lies beyond, and memory was taken up to there.
        self._top = self._backed = begin
        # The sizes of the blocks in use.
        self._used: dict[int, int] = {}
        self._in_use = 0
        # The free blocks by size, how many bytes they have, and the gaps between blocks, in order.
        self._free: dict[int, list[int]] = {}
        self._free_bytes = 0
        self._gaps: list[tuple[int, int]] = []
        # The most that was in use lately, and the time before.
        self._peaks = [0, 0]
        self._until_look = _WINDOW

    def fits(self, size: int) -> bool:
        """Return whether a block of so many bytes fits at all."""
        return self._round(size) <= self._end - self._begin

    def allocate(self, size: int) -> int | None:
        """Return the beginning of a block of ``size`` bytes, or None if there is no room now.

        Raises:
            OSError: If the system does not have that much memory.
        """
        size = self._round(size)
        self._until_look -= 1
        if not self._until_look:
            self._look()
        free = self._free.get(size)
        if free:
            begin = free.pop()
            self._free_bytes -= size
        else:
            found = self._cut(size)
            if found is None:
                return None
            begin = found
        self._used[begin] = size
        self._in_use += size
        self._peaks[0] = max(self._peaks[0], self._in_use)
        return begin

    def free(self, blocks: Iterable[int]) -> None:
        """Free the blocks that begin there."""
        for begin in blocks:
            size = self._used.pop(begin, 0)
            if size:
                self._in_use -= size
                self._free.setdefault(size, []).append(begin)
                self._free_bytes += size

    def has_free(self, size: int) -> bool:
        """Return whether a block of so many bytes is ready, without any work."""
        return bool(self._free.get(self._round(size)))

    def trim(self, kept: int = _KEPT) -> None:
        """Give memory beyond the last block in use back to the system, except for ``kept`` bytes in all."""
        self._join()
        keep = max(self._top, self._begin + kept)
        if self._backed > keep:
            self._memory.give_up(keep, self._backed)
            self._backed = keep

    def _round(self, size: int) -> int:
        if self._segment is None:
            return block_size(size)
        return max(1, -(-size // self._segment)) * self._segment

    def _look(self) -> None:
        self._until_look = _WINDOW
        peak = max(self._peaks)
        self._peaks = [self._in_use, self._peaks[0]]
        if not self._keeps and self._backed - self._begin > 2 * peak + _KEPT:
            self.trim(2 * peak + _KEPT // 2)

    def _cut(self, size: int) -> int | None:
        begin = self._cut_gap(size)
        if begin is None and self._free_bytes:
            self._join()
            begin = self._cut_gap(size)
        if begin is not None:
            return begin
        begin = self._top
        end = begin + size
        if end > self._end:
            return None
        if end > self._backed:
            self._memory.back(self._backed, end)
            self._backed = end
        self._top = end
        return begin

    def _cut_gap(self, size: int) -> int | None:
        for index, (begin, end) in enumerate(self._gaps):
            if end - begin >= size:
                if end - begin == size:
                    del self._gaps[index]
                else:
                    self._gaps[index] = (begin + size, end)
                return begin
        return None

    def _join(self) -> None:
        gaps = self._gaps
        for size, blocks in self._free.items():
            gaps += [(begin, begin + size) for begin in blocks]
        gaps.sort()
        joined: list[tuple[int, int]] = []
        for begin, end in gaps:
            if joined and joined[-1][1] == begin:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((begin, end))
        if joined and joined[-1][1] == self._top:
            self._top = joined.pop()[0]
        self._gaps = joined
        self._free.clear()
        self._free_bytes = 0
