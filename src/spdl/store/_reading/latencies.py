"""How long requests take: a histogram that forgets."""

from __future__ import annotations

import math

__all__ = ["Latencies"]

_PER_OCTAVE = 8
_SHORTEST = 1e-4
_BINS = 21 * _PER_OCTAVE
_REMEMBERED = 4096


class Latencies:
    """Counts of durations in bins that grow by 9 %, from 0.1 ms to three minutes.

    Old durations count half after some thousand new ones. It is no object to share: its owner has a lock.
    """

    def __init__(self) -> None:
        self._bins = [0.0] * _BINS
        self._weight = 0.0
        self.count = 0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        position = int(_PER_OCTAVE * math.log2(seconds / _SHORTEST)) if seconds > _SHORTEST else 0
        self._bins[min(position, _BINS - 1)] += 1
        self._weight += 1
        self.count += 1
        if self._weight >= 2 * _REMEMBERED:
            self._bins = [each / 2 for each in self._bins]
            self._weight /= 2

    def quantile(self, share: float) -> float:
        """Return seconds, up to 9 % too many, that this share of the durations does not exceed; 0 if there are none."""
        below, wanted = 0.0, share * self._weight
        for position, weight in enumerate(self._bins):
            below += weight
            if weight and below >= wanted:
                return float(_SHORTEST * 2 ** ((position + 1) / _PER_OCTAVE))
        return 0.0
