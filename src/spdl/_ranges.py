"""Sets of ints that are mostly contiguous, and the form in which states hold them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

Range: TypeAlias = tuple[int, int]
"""The first number, and the one after the last."""


class Ranges:
    """A set of ints of at least 0 that takes memory for each run of contiguous ones only.

    Ctrl-C interrupts Python only at calls. The statements that change a set call nothing, so it is unchanged or changed
    as a whole.

    Args:
        ranges: In any order; they may overlap, and empty ones do not count.
    """

    __slots__ = ("_before", "_starts", "_stops")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        # The edges of the runs, in order. No run is empty or touches the next one.
        starts: list[int] = []
        stops: list[int] = []
        for start, stop in sorted(ranges):
            if stop <= start:
                continue
            if stops and start <= stops[-1]:
                stops[-1] = max(stop, stops[-1])
            else:
                starts.append(start)
                stops.append(stop)
        self._starts, self._stops = starts, stops
        # How many numbers stand before each run, and in all. None until it is asked for.
        self._before: list[int] | None = None

    @property
    def runs(self) -> list[Range]:
        """The runs, in order."""
        return list(zip(self._starts, self._stops, strict=True))

    @property
    def first(self) -> int | None:
        """The lowest number; None if the set is empty."""
        return self._starts[0] if self._starts else None

    @property
    def watermark(self) -> int:
        """The lowest number of at least 0 that is not in the set."""
        return self._stops[0] if self._starts and not self._starts[0] else 0

    @property
    def stop(self) -> int:
        """The number after the last one; 0 if the set is empty."""
        return self._stops[-1] if self._stops else 0

    def __len__(self) -> int:
        return self._counts()[-1]

    def __iter__(self) -> Iterator[int]:
        return (number for start, stop in self.runs for number in range(start, stop))

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._stops[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self.runs == other.runs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ranges({self.runs})"

    def _counts(self) -> list[int]:
        before = self._before
        if before is None:
            before = list(accumulate((stop - start for start, stop in self.runs), initial=0))
            self._before = before
        return before

    def add(self, start: int, stop: int) -> None:
        """Add all numbers from one to before another."""
        if start >= stop:
            return
        # The runs that it touches become one with it.
        low, high = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        if low < high:
            start, stop = min(start, self._starts[low]), max(stop, self._stops[high - 1])
        self._starts[low:high], self._stops[low:high], self._before = [start], [stop], None

    def remove(self, start: int, stop: int) -> list[Range]:
        """Remove all numbers from one to before another. Return the runs that were there."""
        taken = self.within(start, stop)
        if not taken:
            return taken
        low, high = self._touched(start, stop)
        left = [(self._starts[low], start), (stop, self._stops[high - 1])]
        left = [(first, last) for first, last in left if first < last]
        firsts, lasts = [first for first, _ in left], [last for _, last in left]
        self._starts[low:high], self._stops[low:high], self._before = firsts, lasts, None
        return taken

    def within(self, start: int, stop: int) -> list[Range]:
        """Return the runs between two numbers, the second excluded."""
        if start >= stop:
            return []
        low, high = self._touched(start, stop)
        return [
            (max(start, first), min(stop, last))
            for first, last in zip(self._starts[low:high], self._stops[low:high], strict=True)
        ]

    def _touched(self, start: int, stop: int) -> Range:
        return bisect_right(self._stops, start), bisect_left(self._starts, stop)

    def first_run(self, most: int, *, align: int | None = None) -> Range | None:
        """Return the first run, or its beginning; None if the set is empty.

        Args:
            most: How many numbers to return, at most.
            align: End before the next multiple of this number.
        """
        if not self._starts:
            return None
        start, stop = self._starts[0], self._stops[0]
        return start, min(stop, start + most if align is None else start - start % align + align)

    def union(self, *others: Ranges) -> Ranges:
        """Return the numbers that are in one of the sets."""
        return Ranges(run for each in (self, *others) for run in each.runs)

    def complement(self, size: int) -> Ranges:
        """Return the numbers of ``range(size)`` that are not in the set."""
        starts, stops = [0, *self._stops], [*self._starts, max(size, self.stop)]
        return Ranges((start, min(stop, size)) for start, stop in zip(starts, stops, strict=True))

    def parts(self, bounds: Iterable[Range]) -> Ranges:
        """Return the numbers whose place in the order is from `start` to before `stop`, for any of the bounds."""
        before = self._counts()
        found = []
        for start, stop in bounds:
            at, end_of_part = start, min(stop, before[-1])
            place = bisect_right(before, at) - 1
            while at < end_of_part:
                offset = self._starts[place] - before[place]
                end = min(end_of_part, before[place + 1])
                found.append((offset + at, offset + end))
                at = end
                place += 1
        return Ranges(found)

    def count_below(self, number: int) -> int:
        """Return how many numbers of the set are smaller."""
        place = bisect_right(self._starts, number) - 1
        if place < 0:
            return 0
        return self._counts()[place] + min(number, self._stops[place]) - self._starts[place]

    def select(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each rank k the number that has k smaller ones in the set."""
        import numpy as np  # noqa: PLC0415 - most users of the module do not need it.

        if len(self._starts) == 1:
            return ranks + self._starts[0]
        before = np.array(self._counts()[:-1], dtype=np.int64)
        starts = np.array(self._starts, dtype=np.int64)
        places = np.searchsorted(before, ranks, side="right") - 1
        return ranks + (starts - before)[places]

    def to_state(self) -> list[int]:
        """Return how many numbers in turn are in the set and are not: for ``{0, 1, 5}`` it is ``[2, 3, 1]``."""
        ends = [0, *(end for run in self.runs for end in run)]
        # The first number counts what is in the set, which is nothing unless its first run begins at 0.
        if self._starts:
            ends = [0, *ends] if self._starts[0] else ends[1:]
        return [stop - start for start, stop in pairwise(ends)]

    @classmethod
    def from_state(cls, state: object) -> Ranges:
        """Return the set that `to_state` wrote.

        Raises:
            ValueError: If the state is not a list of ints of at least 0.
        """
        if not isinstance(state, list) or not all(type(each) is int and each >= 0 for each in state):
            raise ValueError("a set of ranges must be a list of ints of at least 0")
        ends = list(accumulate(state, initial=0))
        return cls(zip(ends[::2], ends[1::2], strict=False))
