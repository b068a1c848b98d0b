"""The hook that measures tasks."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from spdl._check import check_number
from spdl.pipeline._hooks.interval_reports import reporting
from spdl.pipeline._metrics.histogram import Histogram
from spdl.pipeline._metrics.records import TaskRecord, task_line
from spdl.pipeline._metrics.reporter import TASKS
from spdl.pipeline._world import perf_counter

from .task_hook import TaskHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from spdl.pipeline._declare.stage_info import StageInfo
    from spdl.pipeline._metrics.records import TaskPerfStats

__all__ = ["TaskStatsHook"]


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
