"""What all requests to a server share: places under way, what was learnt of the server, and counters."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import NamedTuple

from spdl.store._reading.learnt import Gap, Gradient, Hedging, Latencies

__all__ = ["Books", "StoreStatistics"]

_HEARD = ("answers", "throttled", "cut", "wrong", "redirects")


class StoreStatistics(NamedTuple):
    """What a store has counted since it was made, in this process.

    All counts are of requests to the server, of which one call may send several. One that is sent anew at once counts
    once: where the server named another place, had closed a connection that was kept, wanted newer credentials, or did
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
    """Calls that began anew because the object changed while it was read."""
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


class Books:
    """The books of one store. Threads share them.

    Attributes:
        gap: How many bytes between ranges are rather read than skipped.
        hedging: Tells which requests are late.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._in_flight = 0
        self._waiting: deque[threading.Lock] = deque()
        self._waited = 0.0
        self._gradient = Gradient()
        self.hedging = Hedging()
        self.gap = Gap()
        self._latencies = Latencies()

    @property
    def reached(self) -> bool:
        """Whether anything was ever heard of the server."""
        with self._lock:
            return any(self._counts[name] for name in _HEARD)

    @property
    def has_room(self) -> bool:
        """Whether a request would have to wait for nothing."""
        return not self._waiting and self._in_flight < self._gradient.limit

    def begin(self, seconds: float) -> bool:
        """Take a place for a request, and return whether there is one within so many seconds.

        Whoever came first gets one first.
        """
        with self._lock:
            if self.has_room:
                self._admit()
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        began = time.monotonic()
        try:
            turn.acquire(timeout=min(max(0.0, seconds), threading.TIMEOUT_MAX))
        except BaseException:  # It was interrupted.
            with self._lock:
                if self._has_place(turn):
                    self._leave()
            raise
        with self._lock:
            self._waited += time.monotonic() - began
            return self._has_place(turn)

    def _has_place(self, turn: threading.Lock) -> bool:
        """Return whether it was somebody's turn; if not, it is not waited for anymore."""
        if turn not in self._waiting:
            return True
        self._waiting.remove(turn)
        return False

    def _admit(self) -> None:
        self._in_flight += 1
        self._counts["requests"] += 1
        self.hedging.count()

    def _leave(self) -> None:
        self._in_flight -= 1
        while self._waiting and self._in_flight < self._gradient.limit:
            self._admit()
            self._waiting.popleft().release()

    def end(self) -> None:
        """Give a place back."""
        with self._lock:
            self._leave()

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
                self._gradient.answered(first_byte, self._in_flight)
                self.gap.learn(length, first_byte, received)

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

    def take_hedge(self, *, urgent: bool) -> bool:
        """Return whether a late request may be sent again, and count that it is."""
        with self._lock:
            taken = self.hedging.take(urgent=urgent)
            self._counts["requests"] += taken
            self._counts["hedges"] += taken
            return taken

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
