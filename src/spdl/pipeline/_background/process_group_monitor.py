"""Reports the resource usage of a pipeline's processes while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing.context
import os
import sys
import threading
from typing import TYPE_CHECKING

from spdl._check import check_seconds, refuse
from spdl.pipeline._declare.op import place_of
from spdl.pipeline._failures.error_text import log_error

from .process_group import ProcessGroupSampler
from .task import BackgroundTask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.context import BaseContext

    from .resource_usage import ProcessGroupResourceUsage

__all__ = ["ProcessGroupStatsMonitor"]

_LOG = logging.getLogger("spdl.pipeline")

# Seconds that a cancelled callback may take to end.
_GRACE = 0.5


class ProcessGroupStatsMonitor(BackgroundTask):
    """A background task that samples the resource usage of this process's group.

    The group contains this process, its workers and their children. Other processes with the same group ID count as
    well, such as a launcher and its other ranks. A child in a session of its own does not count.

    The monitor reads ``/proc``, so it works on Linux. On other systems a warning is logged and nothing is reported. The
    first sample is taken at once. The monitor has a thread and an event loop of its own, which take the samples and
    await the callback. So a callback that blocks, for example on a network, delays only the next sample.

    Args:
        callback: An async function that gets each `ProcessGroupResourceUsage`. It runs in this process, so it may use
            resources that are open here. An exception that it raises is logged, and sampling goes on.
        interval: Seconds from one sample to the next.
        mp_context: Accepted for compatibility, without effect: the monitor starts no process. So it works in daemonic
            processes too, and the figures contain no monitor process.

    Raises:
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from spdl.pipeline import ProcessGroupStatsMonitor, build_pipeline
        >>> from spdl.pipeline.defs import PipelineConfig, SinkConfig, SourceConfig
        >>> samples = []
        >>> async def report(usage):
        ...     samples.append(usage)
        >>> config = PipelineConfig(SourceConfig(range(3)), [], SinkConfig(3))
        >>> monitor = lambda: ProcessGroupStatsMonitor(report, interval=10)
        >>> with build_pipeline(config, num_threads=1, background_tasks=[monitor]).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [0, 1, 2]
    """

    def __init__(
        self,
        callback: Callable[[ProcessGroupResourceUsage], Awaitable[None]],
        interval: float = 60.0,
        mp_context: BaseContext | None = None,
    ) -> None:
        if not callable(callback):
            refuse(TypeError, "callback", "an async function", callback)
        if mp_context is not None and not isinstance(mp_context, multiprocessing.context.BaseContext):
            refuse(TypeError, "mp_context", "a context of multiprocessing or None", mp_context)
        self._callback = callback
        self._interval = check_seconds("interval", interval, above_zero=True)

    async def run(self) -> None:
        """Report until cancelled."""
        if not sys.platform.startswith("linux"):
            _LOG.warning("%s reads /proc, which this system does not have: nothing is reported.", type(self).__name__)
            return
        ended = asyncio.Event()
        ours = asyncio.new_event_loop()
        work = ours.create_task(self._report())
        pipelines_loop = asyncio.get_running_loop()

        def serve() -> None:
            try:
                ours.run_until_complete(work)
            except asyncio.CancelledError:
                pass
            except BaseException as error:  # noqa: BLE001 - even a SystemExit of the callback ends only this thread.
                log_error(error, "%s has ended", type(self).__name__)
                if work.done() and not work.cancelled():
                    # Otherwise asyncio would log it again when the task is collected.
                    work.exception()
            ours.close()
            # The pipeline's event loop may be closed by now.
            with contextlib.suppress(RuntimeError):
                pipelines_loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=serve, name="spdl_process_group_monitor", daemon=True).start()
        try:
            await ended.wait()
        finally:
            with contextlib.suppress(RuntimeError):
                ours.call_soon_threadsafe(work.cancel)
            try:
                await asyncio.wait_for(ended.wait(), _GRACE)
            except TimeoutError:
                _LOG.warning(
                    "The callback %s of %s has not returned within %g s, and is left behind.",
                    place_of(self._callback),
                    type(self).__name__,
                    _GRACE,
                )

    async def _report(self) -> None:
        sampler = ProcessGroupSampler(os.getpgrp())
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self._callback(sampler.sample())
            except Exception as error:  # noqa: BLE001 - it must not end the reports.
                log_error(error, "The callback %s of %s raised", place_of(self._callback), type(self).__name__)
            # After a late sample, the next one comes at its usual time. Missed samples are not made up for.
            due = max(due + self._interval, loop.time())
            await asyncio.sleep(due - loop.time())
