"""A store's measurements of a server: how many requests it may have at once, and which of them are late."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from statistics import median
from typing import NamedTuple

_GAP_FIRST = 1 << 20
_GAP_LEAST = 1 << 14
_GAP_MOST = 1 << 23
_LONG_ENOUGH = 1 << 15
_WEIGHT = 0.05
_START = 8
"""Few, so that the first answers come from a server without a queue."""
_SURE = 64
_MOST = 512
_TOLERANCE = 1.5
_ROUNDS_BETWEEN_PROBES = 100
_CAUTIOUS_ROUNDS = 20
_FEW = 16
_REFUSALS = 3
_REFUSED_SHARE = 0.1
_PER_OCTAVE = 8
_SHORTEST = 1e-4
_BINS = 21 * _PER_OCTAVE
_REMEMBERED = 4096
_SHARE = 0.05
"""Of requests, and of bytes, that may be asked for twice."""
_QUANTILE = 0.95
_NEEDED = 1000
_SAVED_REQUESTS = 10.0
_RESERVE = 4
_SAVED_BYTES = 8.0 * (1 << 20)
_CLASSES = (1 << 14, 1 << 18, 1 << 21, 1 << 23)
_RENEWED = 64


class Gap:
    """Bandwidth times latency, as measured: what a connection could have read while it waits for another answer."""

    def __init__(self) -> None:
        self._latency = 0.0
        self._bandwidth = 0.0

    @property
    def bytes(self) -> int:
        """How many bytes between two ranges are rather read than skipped; 1 MiB until something was measured."""
        if not self._bandwidth:
            return _GAP_FIRST
        return int(min(_GAP_MOST, max(_GAP_LEAST, self._bandwidth * self._latency)))

    def learn(self, length: int, waited: float, received: float) -> None:
        if length < _LONG_ENOUGH or received <= 0:
            return
        bandwidth = length / received
        if not self._bandwidth:
            self._latency, self._bandwidth = waited, bandwidth
        self._latency += _WEIGHT * (waited - self._latency)
        self._bandwidth += _WEIGHT * (bandwidth - self._bandwidth)


class Gradient:
    """A limit that follows the time to the first byte.

    It is looked at once per round, that is, after as many answers as there may be requests. If the median of a round is
    more than 1.5 times the median of quiet times, the server has a queue, and the limit falls in proportion. Otherwise
    it rises by its square root, if it is used; at first it is doubled, up to 64. If a tenth of the answers say that
    there are too many requests, it is halved, and rises only by one per round for a while.

    The median of quiet times has to be measured again: every hundred rounds, half of the limit is used for two rounds,
    the first to empty the queue and the second to measure. The same is learnt when the limit has fallen by half.
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
        return int(max(1.0, self._limit / 2)) if self._until_probe <= 0 else int(self._limit)

    def answered(self, seconds: float, under_way: int) -> None:
        """Learn after how many seconds an answer began, and how many requests were under way."""
        self._round.append(seconds)
        self._busiest = max(self._busiest, under_way)
        if len(self._round) >= max(_FEW, self.limit):
            self._end_round(median(self._round))
            self._forget_round()

    def refused(self) -> None:
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


class Latencies:
    """Counts of durations in bins that grow by 9 %, from 0.1 ms to three minutes.

    Old durations count half after some thousand new ones.
    """

    def __init__(self) -> None:
        self._bins = [0.0] * _BINS
        self._weight = 0.0
        self.count = 0

    def add(self, seconds: float) -> None:
        position = int(_PER_OCTAVE * math.log2(seconds / _SHORTEST)) if seconds > _SHORTEST else 0
        self._bins[position if position < _BINS else -1] += 1
        self._weight += 1
        self.count += 1
        if self._weight >= 2 * _REMEMBERED:
            self._bins = [each / 2 for each in self._bins]
            self._weight /= 2

    def quantile(self, share: float) -> float:
        """Return seconds, up to 9 % too many, that this share of the durations does not exceed; 0 without any."""
        below, wanted = 0.0, share * self._weight
        for position, weight in enumerate(self._bins):
            below += weight
            if weight and below >= wanted:
                return float(_SHORTEST * 2 ** ((position + 1) / _PER_OCTAVE))
        return 0.0


class Hedging:
    """Decides which requests are sent twice.

    A request is late if 95 % of the requests of about its size took less. Late requests are sent again while a budget
    lasts, which grows with each request by 5 % of it, in requests and in bytes. So if everything is slow, as in an
    outage, there are 5 % more requests and no more. How many bytes come twice is known afterwards: the budget may have
    debts.
    """

    def __init__(self) -> None:
        self._latencies = [Latencies() for _ in _CLASSES]
        self._delays: list[float | None] = [None] * len(_CLASSES)
        self._requests = 0.0
        self._bytes = 0.0
        self._seen = 0

    def count(self) -> None:
        self._requests = min(_SAVED_REQUESTS, self._requests + _SHARE)

    def learn(self, asked: int, length: int, seconds: float, *, hedges: int = 0) -> None:
        """Learn from an answer, whose bytes come once more for each hedge."""
        self._bytes = min(_SAVED_BYTES, self._bytes + (_SHARE - hedges) * length)
        number = _class(asked)
        if number is None:
            return
        latencies = self._latencies[number]
        latencies.add(seconds)
        self._seen += 1
        if latencies.count % _RENEWED == 0:
            self._delays[number] = latencies.quantile(_QUANTILE)

    def delay(self, asked: int) -> float | None:
        """Return after how many seconds a request is late; None if that is not known, or it is too large to repeat."""
        number = _class(asked)
        return None if number is None or self._seen < _NEEDED else self._delays[number]

    def take(self, *, urgent: bool) -> bool:
        """Return whether a late request may be sent again. The last part of the budget is for what is urgent."""
        if self._bytes < 0 or self._requests < (1 if urgent else 1 + _RESERVE):
            return False
        self._requests -= 1
        return True


def _class(length: int) -> int | None:
    for number, most in enumerate(_CLASSES):
        if length <= most:
            return number
    return None


_HEARD = ("answers", "throttled", "cut", "wrong", "redirects")


class StoreStatistics(NamedTuple):
    """The counts of a store since it was made, in this process.

    All counts are of requests to the server; one call may send several. A request that is sent again at once counts
    once: if the server named another place, had closed a connection that was kept, wanted newer credentials, or did
    not say how large an object is.

    Example:
        >>> from spdl.store import HTTPStore
        >>> HTTPStore("https://example.com/data").statistics().requests
        0
    """

    requests: int
    """Requests that were sent, repeated ones included."""
    answers: int
    """Requests that were answered well."""
    bytes: int
    """Bytes of content in these answers."""
    throttled: int
    """Answers that the server is too busy (429, 503)."""
    broken: int
    """Requests that ended with an error of the server or of the network, such as 500 or a reset."""
    cut: int
    """Answers that ended before they were whole."""
    wrong: int
    """Answers that were not what was asked for, such as another range, or no HTTP at all."""
    late: int
    """Requests that were given up because nothing was heard for too long."""
    changed: int
    """Calls that began again because the object changed while it was read."""
    retries: int
    """Requests that were sent again because an attempt had failed."""
    hedges: int
    """Requests that were sent a second time because the first was late."""
    hedges_won: int
    """Of these, how many were answered before the first."""
    hedged_bytes: int
    """Bytes that were asked for a second time, at most 5 % of all."""
    connections: int
    """Connections that were opened."""
    redirects: int
    """Answers that named another place."""
    in_flight: int
    """Requests under way now."""
    limit: int
    """How many may be under way now; it follows the server's latency."""
    waited_seconds: float
    """Seconds that calls have waited for a place among these, in total."""
    p50_seconds: float
    """Half of the requests took no longer, lately. In seconds, from the first sending to the last byte; 0 at first."""
    p95_seconds: float
    """The same of 95 in 100 requests, in seconds."""
    p99_seconds: float
    """The same of 99 in 100 requests, in seconds."""


_COUNTED = StoreStatistics._fields[: StoreStatistics._fields.index("in_flight")]


class RequestCounters:
    """Counts the requests to one server, and decides by it how many may run and which are late. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._under_way: set[threading.Lock] = set()
        self._waiting: deque[threading.Lock] = deque()
        self._waited = 0.0
        self._gradient = Gradient()
        self.hedging = Hedging()
        self.gap = Gap()
        self._latencies = Latencies()

    @property
    def reached(self) -> bool:
        with self._lock:
            return any(self._counts[name] for name in _HEARD)

    @property
    def has_room(self) -> bool:
        return not self._waiting and len(self._under_way) < self._gradient.limit

    def begin(self, turn: threading.Lock, seconds: float) -> bool:
        """Take a place for a request, and return whether there is one within `seconds`.

        A Ctrl-C may come between any two steps, so the caller has a lock of its own for each request, to `end` it
        whatever was done.
        """
        with self._lock:
            if self.has_room:
                self._admit(turn)
                return True
            turn.acquire()
            self._waiting.append(turn)
        began = time.monotonic()
        turn.acquire(timeout=min(max(0.0, seconds), threading.TIMEOUT_MAX))
        with self._lock:
            self._waited += time.monotonic() - began
            return turn in self._under_way

    def _admit(self, turn: threading.Lock) -> None:
        self._under_way.add(turn)
        self._counts["requests"] += 1
        self.hedging.count()

    def end(self, turn: threading.Lock) -> None:
        """Give away the place that a request has or waits for. If this is interrupted, it can be called again."""
        with self._lock:
            if turn in self._under_way:
                self._under_way.remove(turn)
            elif turn in self._waiting:
                self._waiting.remove(turn)
            while self._waiting and len(self._under_way) < self._gradient.limit:
                self._admit(self._waiting[0])
                self._waiting.popleft().release()

    def answered(
        self,
        asked: int,
        length: int,
        seconds: float,
        first_byte: float | None,
        received: float,
        *,
        hedges: int,
        won: bool,
    ) -> None:
        """Learn from a request that was answered.

        Args:
            asked: The bytes that it asked for at most.
            length: The bytes that came.
            seconds: How long it took from its first sending on.
            first_byte: After how many seconds the answer began, if that is known.
            received: Seconds from the first byte to the last.
            hedges: How often it was sent again because it was late.
            won: Whether a later one was answered first.
        """
        with self._lock:
            counts = self._counts
            counts["answers"] += 1
            counts["bytes"] += length
            counts["hedges_won"] += won
            counts["hedged_bytes"] += hedges * length
            self._latencies.add(seconds)
            self.hedging.learn(asked, length, seconds, hedges=hedges)
            if first_byte is not None:
                self._gradient.answered(first_byte, len(self._under_way))
                self.gap.learn(length, first_byte, received)

    def count(self, counter: str) -> None:
        with self._lock:
            self._counts[counter] += 1
            if counter == "throttled":
                self._gradient.refused()

    def take_hedge(self, *, urgent: bool) -> bool:
        """Return whether a late request may be sent again, and count that it is."""
        with self._lock:
            taken = self.hedging.take(urgent=urgent)
            self._counts["requests"] += taken
            self._counts["hedges"] += taken
            return taken

    def totals(self) -> dict[str, float]:
        """Return what was counted and only grows, without the lock."""
        return {**self._counts, "waited_seconds": self._waited}

    def statistics(self) -> StoreStatistics:
        with self._lock:
            return StoreStatistics(
                **self._counts,
                in_flight=len(self._under_way),
                limit=self._gradient.limit,
                waited_seconds=self._waited,
                p50_seconds=self._latencies.quantile(0.5),
                p95_seconds=self._latencies.quantile(0.95),
                p99_seconds=self._latencies.quantile(0.99),
            )
