"""Sets of positions that are kept as the ranges they form."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["EMPTY", "Runs"]


class Runs:
    """An immutable set of positions of at least 0. Its size is that of the ranges, however many positions they hold.

    Args:
        ranges: The first position of each range and the one after its last, in any order; they may overlap.
    """

    __slots__ = ("_before", "count", "ranges")

    ranges: tuple[tuple[int, int], ...]
    count: int
    _before: list[int]

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        joined: list[tuple[int, int]] = []
        for start, stop in sorted(ranges):
            if stop <= start:
                continue
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
            else:
                joined.append((start, stop))
        self.ranges = tuple(joined)
        # How many positions stand before each range, and in all.
        self._before = list(accumulate((stop - start for start, stop in joined), initial=0))
        self.count = self._before[-1]

    @property
    def watermark(self) -> int:
        """The first position that is not in the set."""
        return self.ranges[0][1] if self.ranges and not self.ranges[0][0] else 0

    @property
    def stop(self) -> int:
        """The position after the last one."""
        return self.ranges[-1][1] if self.ranges else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runs) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __contains__(self, position: int) -> bool:
        place = bisect_right(self.ranges, position, key=_first) - 1
        return place >= 0 and position < self.ranges[place][1]

    def __iter__(self) -> Iterator[int]:
        return (position for start, stop in self.ranges for position in range(start, stop))

    def __repr__(self) -> str:
        return f"Runs({list(self.ranges)})"

    def union(self, *others: Runs) -> Runs:
        """Return the positions that are in one of the sets."""
        return Runs(each for runs in (self, *others) for each in runs.ranges) if others else self

    def complement(self, size: int) -> Runs:
        """Return the positions of ``range(size)`` that are not in the set."""
        ends = [0, *(end for each in self.ranges for end in each), max(size, self.stop)]
        return Runs((start, min(stop, size)) for start, stop in zip(ends[::2], ends[1::2], strict=True))

    def part(self, start: int, stop: int) -> Runs:
        """Return the positions of the set that have from `start` to `stop` smaller ones in it, `stop` excluded."""
        return self.parts([(start, stop)])

    def parts(self, bounds: Iterable[tuple[int, int]]) -> Runs:
        """Return the positions of several parts, each given by its `start` and `stop`."""
        found = []
        for start, stop in bounds:
            at, end_of_part = start, min(stop, self.count)
            place = bisect_right(self._before, at) - 1
            while at < end_of_part:
                first = self.ranges[place][0] - self._before[place]
                end = min(end_of_part, self._before[place + 1])
                found.append((first + at, first + end))
                at = end
                place += 1
        return Runs(found)

    def count_below(self, position: int) -> int:
        """Return how many positions of the set are smaller."""
        place = bisect_right(self.ranges, position, key=_first) - 1
        if place < 0:
            return 0
        start, stop = self.ranges[place]
        return self._before[place] + min(position, stop) - start

    def select(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each number k the position that has k smaller ones in the set."""
        if len(self.ranges) == 1:
            return ranks + self.ranges[0][0]
        before = np.array(self._before[:-1], dtype=np.int64)
        starts = np.array([start for start, _ in self.ranges], dtype=np.int64)
        places = np.searchsorted(before, ranks, side="right") - 1
        return ranks + (starts - before)[places]

    def to_gaps(self) -> list[int]:
        """Return how many positions in turn are in the set and are not: of ``{0, 1, 5}`` it is ``[2, 3, 1]``."""
        ends = [0, *(end for each in self.ranges for end in each)]
        # The first number counts positions that are in the set: none, unless its first range begins at 0.
        if self.ranges:
            ends = [0, *ends] if self.ranges[0][0] else ends[1:]
        return [stop - start for start, stop in pairwise(ends)]

    @classmethod
    def from_gaps(cls, gaps: Iterable[int]) -> Runs:
        """Return the set that `to_gaps` wrote."""
        ends = list(accumulate(gaps, initial=0))
        return cls(zip(ends[::2], ends[1::2], strict=False))


def _first(each: tuple[int, int]) -> int:
    return each[0]


EMPTY = Runs()
