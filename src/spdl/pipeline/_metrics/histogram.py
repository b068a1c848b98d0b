"""The distribution of durations, in a few hundred integers."""

from __future__ import annotations

from itertools import accumulate
from math import frexp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BINS", "BOUNDS", "LONGEST", "Histogram", "bin_of", "cumulative", "percentile"]

# A bin is an eighth of an octave: its ends are at most 12.5 % apart.
_BINS_PER_OCTAVE = 8
# From a nanosecond to 36 hours. What is shorter counts as 0, what is longer as that long.
_FIRST_OCTAVE, _LAST_OCTAVE = -30, 17
BINS = (_LAST_OCTAVE - _FIRST_OCTAVE) * _BINS_PER_OCTAVE + 1
_OFFSET = (-_FIRST_OCTAVE - 1) * _BINS_PER_OCTAVE - 7
LONGEST = 2.0**_LAST_OCTAVE
_LEAST, _MOST = 2.0**_FIRST_OCTAVE, LONGEST * 0.999

# Items of a bin are taken to lie evenly in the middle half of it. So none is estimated more than 9.4 % wrong, wherever
# in the bin they are; spread over all of it, items at one end would be by 12.5 %.
_MARGIN = 0.25


def bin_of(seconds: float) -> int:
    """The bin that a duration belongs to."""
    if seconds < _LEAST:
        return 0
    mantissa, exponent = frexp(min(seconds, _MOST))
    # The mantissa is at least a half, so the eighths of the octave are its sixteenths from 8 on.
    return _BINS_PER_OCTAVE * exponent + int(mantissa * 16) + _OFFSET


class Histogram:
    """Counts durations in bins that are an eighth of an octave wide.

    Attributes:
        counts: How many durations were in each bin; bin 0 is for those of no length.
    """

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = [0] * BINS

    def add(self, seconds: float, weight: int = 1) -> None:
        """Count a duration, standing for ``weight`` of them."""
        if seconds < _LEAST:
            self.counts[0] += weight
            return
        # As `bin_of` does, but in half of the time.
        mantissa, exponent = frexp(seconds)
        try:
            self.counts[8 * exponent + int(mantissa * 16) + _OFFSET] += weight
        except IndexError:
            self.counts[-1] += weight

    def add_all(self, counts: Sequence[int]) -> None:
        """Count what another histogram has counted."""
        self.counts = [mine + others for mine, others in zip(self.counts, counts, strict=True)]


def percentile(counts: Sequence[float], share: float) -> float:
    """The duration that ``share`` of them do not exceed, with an error of at most 9.4 %; 0 if there are none.

    As `numpy.percentile` by default, it interpolates between the two durations that lie around that place.

    Args:
        counts: As in `Histogram.counts`, or the difference of two of these. Counts may be estimates and no integers.
        share: 0 to 1.
    """
    ends = list(accumulate(counts))
    if not ends or ends[-1] <= 0:
        return 0.0
    place = share * max(0.0, ends[-1] - 1)
    below = int(place)
    first = _at(counts, ends, below)
    if place == below:
        return first
    return first + (place - below) * (_at(counts, ends, below + 1) - first)


def _at(counts: Sequence[float], ends: Sequence[float], rank: int) -> float:
    """The duration that is larger than ``rank`` others."""
    index = next((index for index, end in enumerate(ends) if end > rank), len(ends) - 1)
    if index == 0:
        return 0.0
    octave, eighth = divmod(index - 1, _BINS_PER_OCTAVE)
    width = 2.0 ** (octave + _FIRST_OCTAVE) / _BINS_PER_OCTAVE
    inside = (rank - ends[index - 1] + 0.5) / counts[index] if counts[index] else 0.5
    return width * (_BINS_PER_OCTAVE + eighth + _MARGIN + (1 - 2 * _MARGIN) * min(1.0, inside))


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
