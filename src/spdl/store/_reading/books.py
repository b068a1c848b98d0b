"""What all requests to a server share: places under way, what was learnt of the server, and counters."""

from __future__ import annotations

import threading

from spdl.store._reading.counts import StoreStatistics
from spdl.store._reading.gap import Gap
from spdl.store._reading.gradient import Gradient
from spdl.store._reading.hedging import Hedging
from spdl.store._reading.latencies import Latencies

__all__ = ["Books"]

_COUNTED = (
    "requests", "answers", "bytes", "throttled", "broken", "cut", "wrong", "late", "changed", "retries", "hedges",
    "hedges_won", "hedged_bytes", "connections", "redirects",
)  # fmt: skip

_HEARD = ("answers", "throttled", "cut", "wrong", "redirects")
_RENEWED = 64


class Books:
    """The books of one store. One thread writes nearly all of it, and any may read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._in_flight = 0
        self._waited = 0.0
        self._typical = 0.0
        self._gradient = Gradient()
        self._hedging = Hedging()
        self._gap = Gap()
        self._latencies = Latencies()

    @property
    def reached(self) -> bool:
        """Whether anything was ever heard of the server."""
        with self._lock:
            return any(self._counts[name] for name in _HEARD)

    def try_begin(self) -> bool:
        """Take a place for a request, unless all are taken."""
        with self._lock:
            if self._in_flight >= self._gradient.limit:
                return False
            self._in_flight += 1
            self._counts["requests"] += 1
            self._hedging.count()
            return True

    def waited(self, seconds: float) -> None:
        """Count how long a call has waited for its first place."""
        with self._lock:
            self._waited += seconds

    def end(self) -> None:
        """Give a place back, of a request that nothing is to be learnt from."""
        with self._lock:
            self._in_flight -= 1

    def answered(
        self,
        asked: int,
        length: int,
        seconds: float,
        first_byte: float | None,
        received: float,
        *,
        hedged: float,
        hedges: int,
        won: bool,
    ) -> None:
        """Give the place of a request back that was answered.

        Args:
            asked: The bytes that it asked for at most.
            length: The bytes that came.
            seconds: How long it took from its first sending on.
            first_byte: After how many seconds the answer began, if that is known.
            received: Seconds from the first byte to the last.
            hedged: The bytes that `take_hedge` expected of these.
            hedges: How often it was sent again because it was late.
            won: Whether the second one was answered first.
        """
        with self._lock:
            counts = self._counts
            counts["answers"] += 1
            counts["bytes"] += length
            counts["hedges_won"] += won
            self._latencies.add(seconds)
            if counts["answers"] % _RENEWED == 0:
                self._typical = self._latencies.quantile(0.5)
            self._hedging.learn(asked, length, seconds)
            if hedges:
                counts["hedged_bytes"] += hedges * length
                self._hedging.settle(hedged, hedges * length)
            if first_byte is not None:
                self._gradient.answered(first_byte, self._in_flight)
                self._gap.learn(length, first_byte, received)
            self._in_flight -= 1

    def failed(self, kind: str) -> None:
        """Count a failed attempt of a kind."""
        with self._lock:
            self._counts[kind] += 1
            if kind == "throttled":
                self._gradient.refused()

    def count(self, counter: str) -> None:
        """Count one more of something."""
        with self._lock:
            self._counts[counter] += 1

    def hedge_delay(self, asked: int) -> float | None:
        """Return after how many seconds a request of so many bytes at most is late; None if that is not known."""
        return self._hedging.delay(asked)

    def take_hedge(self, asked: int, *, urgent: bool) -> float | None:
        """Return how many bytes are likely to come if a late request is sent again; None if it may not be."""
        with self._lock:
            taken = self._hedging.take(asked, urgent=urgent)
            if taken is not None:
                self._counts["requests"] += 1
                self._counts["hedges"] += 1
            return taken

    @property
    def typical_seconds(self) -> float:
        """Half of the requests take no longer; 0 until that is known."""
        return self._typical

    @property
    def gap(self) -> int:
        """Bytes between ranges that are rather read than skipped."""
        return self._gap.bytes

    def counters(self) -> dict[str, float]:
        """Return what was counted and only grows, without the lock."""
        return {**self._counts, "waited_seconds": self._waited}

    def statistics(self) -> StoreStatistics:
        """Return what was counted."""
        with self._lock:
            return StoreStatistics(
                **self._counts,
                in_flight=self._in_flight,
                limit=self._gradient.limit,
                waited_seconds=self._waited,
                p50_seconds=self._latencies.quantile(0.5),
                p95_seconds=self._latencies.quantile(0.95),
                p99_seconds=self._latencies.quantile(0.99),
            )
