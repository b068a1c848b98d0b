"""Sets of integers: mostly contiguous ones and their short form in a state, and ones that lie close together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# A state that was damaged must not take all memory.
_MOST = 1 << 27


def runs_to_state(numbers: Sequence[int]) -> list[int]:
    """Return ascending numbers as a flat list: where the first run begins, its length, the gap to the next, and so on.

    Example:
        >>> runs_to_state([10, 11, 12, 15])
        [10, 3, 2, 1]
    """
    state: list[int] = []
    before = following = 0
    for number in numbers:
        if state and number == following:
            state[-1] += 1
        else:
            state += (number - before, 1)
        before = following = number + 1
    return state


def runs_from_state(state: object) -> list[int]:
    """Return the ascending numbers from a list that `runs_to_state` made.

    Raises:
        ValueError: If it is not such a list.
    """
    if not isinstance(state, list) or len(state) % 2 or not all(type(number) is int for number in state):
        raise ValueError("numbers are given by a list of an even number of ints")
    if sum(state[1::2]) > _MOST:
        raise ValueError("there are more numbers than a pipeline can have in flight")
    numbers: list[int] = []
    at = 0
    for index in range(0, len(state), 2):
        gap, length = state[index], state[index + 1]
        if gap < (1 if index else 0) or length < 1:
            raise ValueError("the gap between two runs, and the length of a run, is at least 1")
        numbers += range(at + gap, at + gap + length)
        at += gap + length
    return numbers


# Positions of one block. A bitmap of that many is as short as what else is stored for it.
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
        block, bit = divmod(position, _BLOCK)
        self._size += 1
        self._add_bits(block, 1 << bit)

    def take_over(self, other: PositionSet) -> None:
        """Add all positions of another set. The two must not overlap."""
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
        stops, bitmaps = self._stops.copy(), self._bitmaps.copy()
        for start in sorted([*stops, *bitmaps]):
            first = start * _BLOCK
            if start in stops:
                yield from range(first, stops[start] * _BLOCK)
            else:
                yield from (first + bit for bit in range(_BLOCK) if bitmaps[start] >> bit & 1)
