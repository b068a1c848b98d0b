"""The counters of a queue at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .histogram import percentile
from .queue_perf_stats import QueuePerfStats

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["QueueRecord"]


class QueueRecord(NamedTuple):
    """The counts until now.

    Attributes:
        at: When that is, on the clock of `time.perf_counter`.
        items: How many were taken out.
        put_seconds: How long results waited for a place, all together.
        put_counts: The histogram of these waits.
        get_seconds: How long items were waited for, all together.
        get_counts: The histogram of these waits, or of some of them.
        occupied_seconds: How long something lay in the queue.
    """

    at: float
    items: int
    put_seconds: float
    put_counts: Sequence[int]
    get_seconds: float
    get_counts: Sequence[int]
    occupied_seconds: float

    def since(self, earlier: QueueRecord) -> QueuePerfStats:
        """Return the statistics of the time since an earlier record."""
        elapsed = max(0.0, self.at - earlier.at)
        items = self.items - earlier.items
        puts = [now - then for now, then in zip(self.put_counts, earlier.put_counts, strict=True)]
        gets = [now - then for now, then in zip(self.get_counts, earlier.get_counts, strict=True)]
        occupied = self.occupied_seconds - earlier.occupied_seconds
        return QueuePerfStats(
            elapsed=elapsed,
            num_items=items,
            ave_put_time=(self.put_seconds - earlier.put_seconds) / items if items else 0.0,
            ave_get_time=(self.get_seconds - earlier.get_seconds) / items if items else 0.0,
            p90_put_time=percentile(puts, 0.9),
            p99_put_time=percentile(puts, 0.99),
            p90_get_time=percentile(gets, 0.9),
            p99_get_time=percentile(gets, 0.99),
            occupancy_rate=min(1.0, max(0.0, occupied / elapsed)) if elapsed else 0.0,
        )

    def total(self, began_at: float) -> QueuePerfStats:
        """Return the statistics of the time since the start."""
        return self.since(QueueRecord(began_at, 0, 0.0, [0] * len(self.put_counts), 0.0, [0] * len(self.get_counts), 0))
