"""When to ask a second time, because an answer takes longer than nearly all others."""

from __future__ import annotations

from spdl.store._reading.latencies import Latencies

__all__ = ["Hedging"]

_SHARE = 0.05
"""Of requests, and of bytes, that may be asked for twice."""
_QUANTILE = 0.95
_NEEDED = 1000
_SAVED_REQUESTS = 10.0
_RESERVE = 4
_SAVED_BYTES = 8.0 * (1 << 20)
_CLASSES = (1 << 14, 1 << 18, 1 << 21, 1 << 23)
_RENEWED = 64


class Hedging:
    """Decides which requests are sent twice.

    A request is late if 95 % of those of about its size took less. Late requests are sent again while a budget lasts,
    which grows with each request by 5 % of it, in requests and in bytes. So if everything is slow, as in an outage,
    there are 5 % more requests and no more. It is no object to share: its owner has a lock.
    """

    def __init__(self) -> None:
        self._latencies = [Latencies() for _ in _CLASSES]
        self._delays: list[float | None] = [None] * len(_CLASSES)
        self._requests = 0.0
        self._bytes = 0.0
        self._seen = 0
        self._lengths = [0.0] * len(_CLASSES)

    def count(self) -> None:
        """Count a request that was sent for the first time."""
        self._requests = min(_SAVED_REQUESTS, self._requests + _SHARE)

    def learn(self, asked: int, length: int, seconds: float) -> None:
        """Learn from an answer.

        Args:
            asked: How many bytes were asked for at most.
            length: How many came.
            seconds: How long it took, from its first sending on, also if the second one was answered first.
        """
        self._bytes = min(_SAVED_BYTES, self._bytes + _SHARE * length)
        number = _class(asked)
        if number is None:
            return
        latencies = self._latencies[number]
        latencies.add(seconds)
        self._lengths[number] += (length - self._lengths[number]) / min(latencies.count, _RENEWED)
        self._seen += 1
        if latencies.count % _RENEWED == 0:
            self._delays[number] = latencies.quantile(_QUANTILE)

    def delay(self, asked: int) -> float | None:
        """Return after how many seconds a request is late; None if that is not known, or it is too large to repeat."""
        number = _class(asked)
        return None if number is None or self._seen < _NEEDED else self._delays[number]

    def take(self, asked: int, *, urgent: bool) -> float | None:
        """Return how many bytes are likely to come if a request is sent again; None if the budget does not allow it.

        They are taken from the budget, whose last part is for what is urgent. `settle` corrects that.
        """
        number = _class(asked)
        if number is None or self._requests < (1 if urgent else 1 + _RESERVE) or self._bytes < self._lengths[number]:
            return None
        self._requests -= 1
        self._bytes -= self._lengths[number]
        return self._lengths[number]

    def give_back(self, taken: float) -> None:
        """Give back what `take` has taken, since the request was not sent again."""
        self._requests += 1
        self._bytes += taken

    def settle(self, taken: float, length: int) -> None:
        """Put right what was taken from the budget, since so many bytes came."""
        self._bytes += taken - length


def _class(length: int) -> int | None:
    for number, most in enumerate(_CLASSES):
        if length <= most:
            return number
    return None
