"""A set of positions that takes little memory where they lie close together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PositionSet"]

# Positions of one block. A bitmap of so many is as short as what else is stored for it.
_BLOCK = 512
_COMPLETE = (1 << _BLOCK) - 1


class PositionSet:
    """Positions that are added once each and never removed.

    Contiguous ones cost nothing: blocks that are complete form ranges, and neighbouring ranges are one. A block that is
    not complete has a bitmap, so where every second position is missing each costs two bits.
    """

    __slots__ = ("_bitmaps", "_size", "_starts", "_stops")

    def __init__(self) -> None:
        self._size = 0
        # The positions in blocks that are not complete, by the number of the block.
        self._bitmaps: dict[int, int] = {}
        # The ranges of complete blocks: where the range ends that begins at a block, and the other way round.
        self._stops: dict[int, int] = {}
        self._starts: dict[int, int] = {}

    def __len__(self) -> int:
        return self._size

    def add(self, position: int) -> None:
        """Add a position that is not in the set."""
        block, bit = divmod(position, _BLOCK)
        self._size += 1
        self._add_bits(block, 1 << bit)

    def take_over(self, other: PositionSet) -> None:
        """Add all positions of another set, none of which is in this one."""
        self._size += len(other)
        for block, bits in other._bitmaps.items():
            self._add_bits(block, bits)
        for start, stop in other._stops.items():
            self._add_range(start, stop)

    def _add_bits(self, block: int, bits: int) -> None:
        bits |= self._bitmaps.get(block, 0)
        if bits != _COMPLETE:
            self._bitmaps[block] = bits
        else:
            self._bitmaps.pop(block, None)
            self._add_range(block, block + 1)

    def _add_range(self, start: int, stop: int) -> None:
        start = self._starts.pop(start, start)
        stop = self._stops.pop(stop, stop)
        self._stops[start] = stop
        self._starts[stop] = start

    def __iter__(self) -> Iterator[int]:
        """Yield the positions in order."""
        stops, bitmaps = self._stops.copy(), self._bitmaps.copy()
        for start in sorted([*stops, *bitmaps]):
            first = start * _BLOCK
            if start in stops:
                yield from range(first, stops[start] * _BLOCK)
            else:
                yield from (first + bit for bit in range(_BLOCK) if bitmaps[start] >> bit & 1)
