"""How many requests to have under way: as many as the server answers without delay."""

from __future__ import annotations

from statistics import median

__all__ = ["Gradient"]

_START = 8
"""Few, so that the first answers are those of a server that has no queue."""
_SURE = 64
_MOST = 512
_TOLERANCE = 1.5
_ROUNDS_BETWEEN_PROBES = 100
_CAUTIOUS_ROUNDS = 20
_FEW = 16
_REFUSALS = 3
_REFUSED_SHARE = 0.1


class Gradient:
    """A limit that follows the time to the first byte.

    It is looked at once per round, that is, after as many answers as there may be requests. If the median of a round is
    more than 1.5 times that of quiet times, the server has a queue, and the limit falls in proportion. Otherwise it
    rises by its square root, if it is used; at first it is doubled, up to 64. If a tenth of the answers say that there
    are too many requests, it is halved, and rises only by one per round for a while. Medians, since a few late answers
    say nothing about a queue.

    What a quiet time is has to be looked at again: every hundred rounds, half of the limit is used for two rounds, the
    first to empty the queue and the second to measure. The same is learnt when the limit has fallen by half.

    It is no object to share: its owner has a lock.
    """

    def __init__(self) -> None:
        self._limit = float(_START)
        self._quiet = 0.0
        self._measured_at = self._limit
        self._until_probe = _ROUNDS_BETWEEN_PROBES
        self._round: list[float] = []
        self._refusals = 0
        self._busiest = 0
        self._cautious = 0
        self._starting = True

    @property
    def limit(self) -> int:
        """How many requests may be under way."""
        return int(max(1.0, self._limit / 2)) if self._until_probe <= 0 else int(self._limit)

    def answered(self, seconds: float, under_way: int) -> None:
        """Learn after how many seconds an answer began, and how many requests were under way."""
        self._round.append(seconds)
        self._busiest = max(self._busiest, under_way)
        if len(self._round) >= max(_FEW, self.limit):
            self._end_round(median(self._round))
            self._forget_round()

    def refused(self) -> None:
        """Learn that the server had too many requests."""
        self._refusals += 1
        if self._refusals >= _REFUSALS and self._refusals >= _REFUSED_SHARE * len(self._round):
            self._limit = max(1.0, self._limit / 2)
            self._cautious = _CAUTIOUS_ROUNDS
            self._forget_round()

    def _end_round(self, middle: float) -> None:
        self._until_probe -= 1
        if self._until_probe in (0, -1):  # This round went on before the limit was halved; the next empties the queue.
            return
        if self._until_probe < 0 or self._limit <= self._measured_at / 2:
            self._quiet = middle
            self._measured_at = self._limit
            self._until_probe = _ROUNDS_BETWEEN_PROBES
            return
        if not self._quiet or middle < self._quiet:
            self._quiet = middle
            self._measured_at = self._limit
        gradient = min(1.0, max(0.5, _TOLERANCE * self._quiet / max(middle, 1e-9)))
        self._starting = self._starting and gradient == 1 and not self._cautious and self._limit < _SURE
        if gradient < 1:
            self._limit = max(1.0, self._limit * (1 + gradient) / 2)
        elif self._busiest * 2 >= self._limit:
            self._limit = min(float(_MOST), self._limit + self._step())
        self._cautious = max(0, self._cautious - 1)

    def _step(self) -> float:
        if self._cautious:
            return 1.0
        return self._limit if self._starting else self._limit**0.5

    def _forget_round(self) -> None:
        self._round = []
        self._refusals = 0
        self._busiest = 0
