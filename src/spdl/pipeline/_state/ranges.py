"""Sets of integers: mostly contiguous ones and their short form in a state, and ones that lie close together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

# A state that was damaged must not take all memory.
_MOST = 1 << 27


class Runs:
    """A set of integers that takes memory for each run of contiguous ones only.

    A Ctrl-C may come between any two steps that change it. Each change is a single step, and the steps after it only
    free memory.
    """

    __slots__ = ("_starts", "_stops")

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        # From the start of each run to its end. None: the run has become part of another one.
        self._stops: dict[int, int | None] = {}
        # From the end to the start. An entry counts only if the other dict agrees.
        self._starts: dict[int, int] = {}
        for number in numbers:
            self.add(number)

    def __bool__(self) -> bool:
        return any(stop is not None for stop in self._stops.values())

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers in order."""
        for start, stop in self.pairs():
            yield from range(start, stop)

    def pairs(self) -> list[tuple[int, int]]:
        """Return where each run begins and ends, in order."""
        return sorted((start, stop) for start, stop in self._stops.items() if stop is not None)

    def copy(self) -> Runs:
        """Return a set of the same numbers."""
        other = Runs()
        other._stops.update(self._stops)
        other._starts.update(self._starts)
        return other

    def add(self, number: int) -> None:
        """Add a number that is not in the set."""
        self._add(number, number + 1)

    def end_of_run(self, start: int) -> int:
        """Return the end of the run that begins at a number, or that number if no run does."""
        while (stop := self._stops.get(start)) is not None:
            start = stop
        return start

    def remove_run(self, start: int) -> None:
        """Take out the run that begins at a number, if there is one."""
        while (stop := self._stops.pop(start, None)) is not None:
            self._starts.pop(stop, None)
            start = stop

    def take_over(self, other: Runs) -> None:
        """Add all numbers of another set. The two must not overlap."""
        for start, stop in other.pairs():
            self._add(start, stop)

    def _add(self, start: int, stop: int) -> None:
        first = self._starts.get(start, start)
        if self._stops.get(first) != start:
            # No run ends there, or a Ctrl-C came before that was noted: then the two stand side by side.
            first = start
        following = self._stops.get(stop)
        if following is None:
            last = self._stops[first] = stop
        else:
            last = following
            self._stops.update({first: last, stop: None})
            del self._stops[stop]
        self._starts[last] = first
        if first != start:
            self._starts.pop(start, None)


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
