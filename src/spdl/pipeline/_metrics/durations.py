"""How many tasks took how long, at a few bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .histogram import LONGEST, bin_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BOUNDS", "cumulative"]

# From a microsecond to a minute. Powers of two are ends of the histogram's bins, so these counts are exact.
BOUNDS = tuple(4.0**exponent for exponent in range(-10, 4))
_FIRST_BINS_ABOVE = [bin_of(bound) for bound in BOUNDS]


def cumulative(counts: Sequence[int]) -> tuple[tuple[float, int], ...]:
    """Return pairs of a number of seconds and how many tasks took less; the last one is of all of them.

    Args:
        counts: As in `Histogram.counts`.
    """
    found = []
    total = before = 0
    for bound, above in zip(BOUNDS, _FIRST_BINS_ABOVE, strict=True):
        total += sum(counts[before:above])
        before = above
        found.append((bound, total))
    return (*found, (LONGEST, total + sum(counts[before:])))
