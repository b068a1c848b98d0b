"""A set of positions that is kept as ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Range", "Ranges", "ranges_from_state"]

# The first position, and the one after the last.
Range: TypeAlias = tuple[int, int]


class Ranges:
    """A set of ints that takes memory for each run of contiguous ones only. Runs are added and taken out anywhere.

    Ctrl-C interrupts Python where it calls something. The statements that change a set call nothing, so it is as before
    or as after.
    """

    __slots__ = ("_size", "_starts", "_stops")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        # Of each run, in order; neither empty nor touching the next one.
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._size = 0
        for start, stop in ranges:
            self.add(start, stop)

    def __len__(self) -> int:
        """Return how many positions there are."""
        return self._size

    def __iter__(self) -> Iterator[Range]:
        """Yield the runs in order."""
        return iter(list(zip(self._starts, self._stops, strict=True)))

    @property
    def first(self) -> int | None:
        """The lowest position; None if there is none."""
        return self._starts[0] if self._starts else None

    def add(self, start: int, stop: int) -> None:
        """Add all positions from one to before another."""
        if start >= stop:
            return
        # The runs that it touches become one with it.
        low, high = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        size = self._size
        if low < high:
            start, stop = min(start, self._starts[low]), max(stop, self._stops[high - 1])
            size -= sum(self._stops[low:high]) - sum(self._starts[low:high])
        self._starts[low:high], self._stops[low:high], self._size = [start], [stop], size + stop - start

    def remove(self, start: int, stop: int) -> list[Range]:
        """Take out what there is from one position to before another. Return the runs that were there."""
        taken = self.within(start, stop)
        if not taken:
            return taken
        low, high = self._touched(start, stop)
        left = [(self._starts[low], start), (stop, self._stops[high - 1])]
        left = [(first, last) for first, last in left if first < last]
        firsts, lasts = [first for first, _ in left], [last for _, last in left]
        size = self._size - sum(last - first for first, last in taken)
        self._starts[low:high], self._stops[low:high], self._size = firsts, lasts, size
        return taken

    def within(self, start: int, stop: int) -> list[Range]:
        """Return the runs that there are from one position to before another."""
        if start >= stop:
            return []
        low, high = self._touched(start, stop)
        return [
            (max(start, first), min(stop, last))
            for first, last in zip(self._starts[low:high], self._stops[low:high], strict=True)
        ]

    def _touched(self, start: int, stop: int) -> Range:
        """Return which runs have something of a range: the number of the first, and the one after the last."""
        return bisect_right(self._stops, start), bisect_left(self._starts, stop)

    def first_run(self, most: int, *, align: int | None = None) -> Range | None:
        """Return the first run, or its beginning.

        Args:
            most: How many positions to return, at most.
            align: End before the next multiple of this number.

        Returns:
            The run; None if there is none.
        """
        if not self._starts:
            return None
        start, stop = self._starts[0], self._stops[0]
        return start, min(stop, start + most if align is None else start - start % align + align)


def ranges_from_state(state: object) -> list[Range]:
    """Return ranges that came through JSON.

    Raises:
        ValueError: If they are no ranges in ascending order.
    """
    ranges: list[Range] = []
    at = 0
    for entry in state if isinstance(state, list) else [state]:
        match entry:
            case [int() as start, int() as stop] if at <= start < stop and type(start) is type(stop) is int:
                ranges.append((start, stop))
                at = stop
            case _:
                raise ValueError("ranges of positions are not in order")
    return ranges
