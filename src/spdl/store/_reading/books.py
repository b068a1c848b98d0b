"""What all requests to a server share: places under way, what was learnt of the server, and counters."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from spdl.store._protocol.errors import StoreError
from spdl.store._reading.counts import StoreStatistics
from spdl.store._reading.gap import Gap
from spdl.store._reading.gradient import Gradient
from spdl.store._reading.hedging import Hedging
from spdl.store._reading.latencies import Latencies

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Books"]

_COUNTED = (
    "requests", "answers", "bytes", "throttled", "broken", "cut", "wrong", "late", "changed", "retries", "hedges",
    "hedges_won", "hedged_bytes", "connections", "redirects",
)  # fmt: skip


class Books:
    """The books of one store. Threads share them, under one lock, which is taken twice for a usual request.

    Args:
        monotonic: The clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._free = threading.Condition(threading.Lock())
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._in_flight = 0
        self._waiting = 0
        self._waited = 0.0
        self._gradient = Gradient()
        self._hedging = Hedging()
        self._gap = Gap()
        self._latencies = Latencies()

    def try_begin(self) -> bool:
        """Take a place for a request, unless all are taken or somebody waits for one."""
        with self._free:
            if self._waiting or self._in_flight >= self._gradient.limit:
                return False
            self._take()
            return True

    def begin(self, seconds: float) -> None:
        """Take a place for a request; wait for one if need be.

        Raises:
            StoreError: If there is none after so many seconds.
        """
        with self._free:
            if not self._waiting and self._in_flight < self._gradient.limit:
                self._take()
                return
            start = self._monotonic()
            self._waiting += 1
            try:
                while self._in_flight >= self._gradient.limit:
                    left = start + seconds - self._monotonic()
                    if left <= 0:
                        raise StoreError(f"{self._in_flight} requests are under way; none ended in {seconds:g} s")
                    self._free.wait(left)
            finally:
                self._waiting -= 1
                self._waited += self._monotonic() - start
            self._take()

    def _take(self) -> None:
        self._in_flight += 1
        self._counts["requests"] += 1
        self._hedging.count()

    def end(self) -> None:
        """Give a place back, of a request that nothing is to be learnt from."""
        with self._free:
            self._give_back()

    def _give_back(self) -> None:
        self._in_flight -= 1
        if self._waiting:
            self._free.notify(max(1, self._gradient.limit - self._in_flight))

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
        with self._free:
            counts = self._counts
            counts["answers"] += 1
            counts["bytes"] += length
            counts["hedges_won"] += won
            self._latencies.add(seconds)
            self._hedging.learn(asked, length, seconds)
            if hedges:
                counts["hedged_bytes"] += hedges * length
                self._hedging.settle(hedged, hedges * length)
            if first_byte is not None:
                self._gradient.answered(first_byte, self._in_flight)
                self._gap.learn(length, first_byte, received)
            self._give_back()

    def failed(self, kind: str, *, ended: bool) -> None:
        """Count a failed attempt of a kind. If it ended the request for now, its place is given back."""
        with self._free:
            self._counts[kind] += 1
            if kind == "throttled":
                self._gradient.refused()
            if ended:
                self._give_back()

    def count(self, counter: str) -> None:
        """Count one more of something."""
        with self._free:
            self._counts[counter] += 1

    def hedge_delay(self, asked: int) -> float | None:
        """Return after how many seconds a request of so many bytes at most is late; None if that is not known."""
        return self._hedging.delay(asked)

    def take_hedge(self, asked: int, *, urgent: bool) -> float | None:
        """Return how many bytes are likely to come if a late request is sent again; None if it may not be."""
        with self._free:
            taken = self._hedging.take(asked, urgent=urgent)
            if taken is not None:
                self._counts["requests"] += 1
                self._counts["hedges"] += 1
            return taken

    @property
    def gap(self) -> int:
        """Bytes between ranges that are rather read than skipped."""
        return self._gap.bytes

    def statistics(self) -> StoreStatistics:
        """Return what was counted."""
        with self._free:
            return StoreStatistics(
                **self._counts,
                in_flight=self._in_flight,
                limit=self._gradient.limit,
                waited_seconds=self._waited,
                p50_seconds=self._latencies.quantile(0.5),
                p95_seconds=self._latencies.quantile(0.95),
                p99_seconds=self._latencies.quantile(0.99),
            )
