"""The queue that measures waiting times."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from spdl._check import check_number
from spdl.pipeline._engine.sentinel import is_eof, is_epoch_end
from spdl.pipeline._hooks.interval_reports import reporting
from spdl.pipeline._metrics.histogram import Histogram
from spdl.pipeline._metrics.records import QueueRecord, queue_line
from spdl.pipeline._metrics.reporter import QUEUES
from spdl.pipeline._world import perf_counter

from .async_queue import AsyncQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from spdl.pipeline._declare.stage_info import StageInfo
    from spdl.pipeline._metrics.records import QueuePerfStats

__all__ = ["StatsQueue"]

T = TypeVar("T")


class StatsQueue(AsyncQueue[T]):
    """A queue that measures how long stages wait for it, and logs a line of level INFO at its end and at intervals.

    The class itself is the default and costs nothing, because the engine counts without it. A derived class carries the
    items, as described for `AsyncQueue`, and so does an object with a replaced method. Derive a class to send the
    statistics elsewhere.

    Args:
        info: The stage or source that fills the queue.
        buffer_size: How many items may wait in the queue.
        interval: Seconds between reports. With 0 or less, there is no report before the end.

    Attributes:
        info: The stage or source that fills the queue.
        interval: Seconds between reports, as passed in.

    Raises:
        TypeError, ValueError: If the interval is not a number, or is NaN.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, StatsQueue
        >>> seen = []
        >>> class Export(StatsQueue):
        ...     def __init__(self, info, *, buffer_size=1):
        ...         super().__init__(info, buffer_size=buffer_size, interval=0.01)
        ...     async def interval_stats_callback(self, stats):
        ...         seen.append((self.info.stage_name, stats.num_items))
        >>> import time
        >>> builder = PipelineBuilder().add_source(range(10)).pipe(lambda x: time.sleep(0.005)).add_sink()
        >>> with builder.build(num_threads=1, queue_class=Export).auto_stop() as pipeline:
        ...     items = list(pipeline)
        >>> sum(count for name, count in seen if name == "src") <= 10
        True
    """

    def __init__(self, info: StageInfo, *, buffer_size: int = 1, interval: float = -1) -> None:
        super().__init__(info, buffer_size=buffer_size)
        self.interval = check_number("interval", interval)
        self._items = 0
        self._put_seconds = self._get_seconds = self._occupied_seconds = 0.0
        self._put_times, self._get_times = Histogram(), Histogram()
        # When an item came into the empty queue; 0 while the queue is empty.
        self._occupied_since = 0.0
        self._began_at = perf_counter()
        self._last: QueueRecord | None = None

    async def put(self, item: T) -> None:
        """Put an item in, and measure how long it waited for room. Never raises: it waits while the queue is full."""
        begin = perf_counter()
        await super().put(item)
        now = perf_counter()
        if not self._occupied_since:
            self._occupied_since = now
        if not (is_eof(item) or is_epoch_end(item)):
            self._put_seconds += now - begin
            self._put_times.add(now - begin)

    async def get(self) -> T:
        """Take an item out and return it, and measure how long that took."""
        begin = perf_counter()
        item = await super().get()
        now = perf_counter()
        if self.empty() and self._occupied_since:
            self._occupied_seconds += now - self._occupied_since
            self._occupied_since = 0.0
        if not (is_eof(item) or is_epoch_end(item)):
            self._items += 1
            self._get_seconds += now - begin
            self._get_times.add(now - begin)
        return item

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        """Report at intervals, and at the end."""
        self._began_at = perf_counter()
        try:
            async with reporting(f"{self.info}_queue", self.interval, self._report):
                yield
        finally:
            self._log(self._record().total(self._began_at))

    async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
        """Called at intervals, on the event loop. Logs a line unless it is overridden. Its exceptions are logged.

        Args:
            stats: The statistics since the last call.
        """
        self._log(stats)

    def _record(self) -> QueueRecord:
        now = perf_counter()
        occupied = self._occupied_seconds + (now - self._occupied_since if self._occupied_since else 0.0)
        puts, gets = self._put_times.counts.copy(), self._get_times.counts.copy()
        return QueueRecord(now, self._items, self._put_seconds, puts, self._get_seconds, gets, occupied)

    async def _report(self) -> None:
        record, last = self._record(), self._last
        self._last = record
        await self.interval_stats_callback(record.total(self._began_at) if last is None else record.since(last))

    def _log(self, stats: QueuePerfStats) -> None:
        if QUEUES.isEnabledFor(logging.INFO):
            QUEUES.info("%s", queue_line(str(self.info), stats))
