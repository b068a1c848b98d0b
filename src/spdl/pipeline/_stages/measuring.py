"""The hook that measures tasks and the queue that measures waiting times, with their reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from spdl._check import check_number
from spdl.pipeline._declare.interfaces import AsyncQueue, TaskHook
from spdl.pipeline._declare.records import StageInfo
from spdl.pipeline._engine.cancellation import await_end
from spdl.pipeline._engine.channel import is_eof, is_epoch_end
from spdl.pipeline._report.failures import log_error
from spdl.pipeline._report.perf_stats import (
    QUEUES,
    TASKS,
    Histogram,
    QueuePerfStats,
    QueueRecord,
    TaskPerfStats,
    TaskRecord,
    queue_line,
    task_line,
)
from spdl.pipeline._world import perf_counter


@asynccontextmanager
async def reporting(name: str, interval: float, report: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Call ``report`` at intervals of more than 0 seconds while the block runs. Its exceptions are logged."""
    reports = None
    if interval > 0:
        reports = asyncio.create_task(_repeat(name, interval, report), name=f"interval_stats_callback of {name}")
    try:
        yield
    finally:
        if reports is not None:
            reports.cancel()
            await await_end({reports})


async def _repeat(name: str, interval: float, report: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(interval)
        try:
            await report()
        except Exception as error:  # noqa: BLE001 - a failed report is no reason to stop.
            log_error(error, "The interval_stats_callback of %s raised, which is ignored", name)


class TaskStatsHook(TaskHook):
    """A hook that measures the tasks of a stage, and logs a line of level INFO at its end and at intervals.

    Stages have it by default. It costs nothing, because it reads counters that the engine keeps anyway. The same is
    true of derived classes that do not override ``task_hook``, if all hooks of the stage are of this kind. Otherwise
    the hook runs around each task, like any other hook. To send the statistics elsewhere, derive a class, or set the
    ``interval_stats_callback`` of an object before the pipeline gets it. An object measures one stage.

    Args:
        info: The stage.
        interval: Seconds between reports. With 0 or less, there is no report before the end.

    Attributes:
        info: The stage, as passed in.
        interval: Seconds between reports, as passed in.

    Raises:
        TypeError, ValueError: If the interval is not a number, or is NaN.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, TaskStatsHook
        >>> hooks = []
        >>> def measure(info):
        ...     hooks.append(TaskStatsHook(info))
        ...     return hooks[-1:]
        >>> builder = PipelineBuilder().add_source(range(3)).pipe(str, name="text").add_sink()
        >>> with builder.build(num_threads=1, task_hook_factory=measure).auto_stop() as pipeline:
        ...     items = list(pipeline)
        >>> print(hooks[0].info.stage_name, hooks[0].num_tasks, hooks[0].num_success)
        text 3 3
    """

    def __init__(self, info: StageInfo, interval: float = -1) -> None:
        self.info = info
        self.interval = check_number("interval", interval)
        self._successes = 0
        self._failures = 0
        self._seconds = 0.0
        self._times = Histogram()
        self._read: Callable[[], TaskRecord] = self._own_record
        self._last: TaskRecord | None = None

    def _own_record(self) -> TaskRecord:
        return TaskRecord(self._successes, self._failures, self._seconds, self._times.counts.copy())

    def measure(self, read: Callable[[], TaskRecord]) -> None:
        """Read the statistics from ``read`` from now on. Called by the pipeline; never raises.

        Args:
            read: Returns the counts since the stage began.
        """
        self._read = read

    @property
    def num_tasks(self) -> int:
        """The number of tasks that have ended."""
        record = self._read()
        return record.successes + record.failures

    @property
    def num_success(self) -> int:
        """The number of tasks that have ended without an exception."""
        return self._read().successes

    @property
    def ave_time(self) -> float:
        """The mean time of these successful tasks in seconds; 0 if there were none."""
        return self._read().total().ave_time

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        """Report at intervals, and at the end."""
        try:
            async with reporting(str(self.info), self.interval, self._report):
                yield
        finally:
            self._log(self._read().total())

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:  # noqa: ARG002 - for derived classes.
        """Measure a task. Its exceptions pass through; an `Exception` counts as a failure."""
        begin = perf_counter()
        try:
            yield
        except StopAsyncIteration:
            # The end of a generator is not a task: each of its results was one.
            raise
        except Exception:
            self._failures += 1
            raise
        seconds = perf_counter() - begin
        self._successes += 1
        self._seconds += seconds
        self._times.add(seconds)

    async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
        """Called at intervals, on the event loop. Logs a line unless it is overridden. Its exceptions are logged.

        Args:
            stats: The statistics since the last call.
        """
        self._log(stats)

    async def _report(self) -> None:
        record, last = self._read(), self._last
        self._last = record
        await self.interval_stats_callback(record.total() if last is None else record.since(last))

    def _log(self, stats: TaskPerfStats) -> None:
        if TASKS.isEnabledFor(logging.INFO):
            TASKS.info("%s", task_line(str(self.info), stats))


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
        >>> builder = PipelineBuilder().add_source(range(10)).pipe(lambda x: time.sleep(0.005) or x).add_sink()
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
