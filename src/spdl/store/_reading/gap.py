"""How many bytes between two ranges are rather read than skipped."""

from __future__ import annotations

__all__ = ["Gap"]

_FIRST = 1 << 20
_LEAST = 1 << 14
_MOST = 1 << 23
_LONG_ENOUGH = 1 << 15
_WEIGHT = 0.05


class Gap:
    """Bandwidth times latency, as measured: what a connection could have read while it waits for another answer.

    It is no object to share: its owner has a lock.
    """

    def __init__(self) -> None:
        self._latency = 0.0
        self._bandwidth = 0.0

    @property
    def bytes(self) -> int:
        """The gap; 1 MiB until something was measured."""
        if not self._bandwidth:
            return _FIRST
        return int(min(_MOST, max(_LEAST, self._bandwidth * self._latency)))

    def learn(self, length: int, waited: float, received: float) -> None:
        """Learn from an answer.

        Args:
            length: Its bytes. A short answer says nothing of the bandwidth.
            waited: Seconds until its first byte.
            received: Seconds from the first byte to the last.
        """
        if length < _LONG_ENOUGH or received <= 0:
            return
        bandwidth = length / received
        if not self._bandwidth:
            self._latency, self._bandwidth = waited, bandwidth
        self._latency += _WEIGHT * (waited - self._latency)
        self._bandwidth += _WEIGHT * (bandwidth - self._bandwidth)
