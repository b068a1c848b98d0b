"""What a store counts."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["StoreStatistics"]


class StoreStatistics(NamedTuple):
    """What a store has counted since it was made, in this process.

    All counts are of requests to the server, of which one call may send several. One that is sent anew at once counts
    once: where the server named another place, had closed a connection that was kept, or did not say how large an
    object is.

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
