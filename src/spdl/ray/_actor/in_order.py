"""Tells of positions in their order, however they come."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spdl.ray._leases.ranges import Range

__all__ = ["InOrder"]


class InOrder:
    """Holds positions back until all before them in their range have come. One thread expects, another passes on."""

    def __init__(self) -> None:
        self._expected: deque[Range] = deque()
        self._ranges: deque[Range] = deque()
        self._early: set[int] = set()

    def expect(self, start: int, stop: int) -> None:
        """Note a range of which all positions will come, behind those that were noted before."""
        self._expected.append((start, stop))

    def pass_on(self, positions: list[int], end: int | None) -> list[Range]:
        """Return the ranges that are complete up to some position, with these positions.

        Args:
            positions: What has come.
            end: The position from which on nothing will come, if there is one.
        """
        self._early.update(positions)
        while self._expected:
            self._ranges.append(self._expected.popleft())
        if end is not None:
            self._ranges = deque((start, min(stop, end)) for start, stop in self._ranges if start < end)
        found: list[Range] = []
        while self._ranges:
            start, stop = self._ranges[0]
            at = start
            while at < stop and at in self._early:
                self._early.remove(at)
                at += 1
            if at > start:
                found.append((start, at))
            if at < stop:
                self._ranges[0] = at, stop
                break
            self._ranges.popleft()
        return found
