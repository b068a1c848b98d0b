"""The base class of background tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

__all__ = ["BackgroundTask", "BackgroundTaskFactory"]


class BackgroundTask:
    """A task that runs beside the stages of a pipeline: a reporter, a monitor, a heartbeat.

    Override `run`. Pass the class, or any other callable without arguments that returns a task, to
    ``build_pipeline(..., background_tasks=[MyTask])``, or to `spdl.pipeline.config.set_default_background_tasks` for
    all pipelines of the process. Each run of a pipeline makes a task of its own, on its event loop thread.

    A task is cancelled when the stages have finished or the pipeline stops. An exception that the task or its factory
    raises before that is logged and otherwise ignored, since the task is not part of the work. A task may also return
    earlier. A task that ignores its cancellation is left behind after a second, and a warning names it.

    Example:
        >>> import asyncio
        >>> from spdl.pipeline import BackgroundTask, build_pipeline
        >>> from spdl.pipeline.defs import PipelineConfig, SinkConfig, SourceConfig
        >>> class Heartbeat(BackgroundTask):
        ...     async def run(self):
        ...         try:
        ...             while True:
        ...                 print("alive")
        ...                 await asyncio.sleep(60)
        ...         finally:
        ...             print("done")
        >>> config = PipelineConfig(SourceConfig([1, 2, 3]), [], SinkConfig(3))
        >>> pipeline = build_pipeline(config, num_threads=1, background_tasks=[Heartbeat])
        >>> with pipeline.auto_stop():
        ...     total = sum(pipeline)
        alive
        done
        >>> total
        6
    """

    async def run(self) -> None:
        """Do the work, until it is done or the task is cancelled.

        The task shares its thread with the pipeline's async stages, so a call that blocks here blocks them too. Leave
        blocking calls to `asyncio.to_thread`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `run`.")


BackgroundTaskFactory: TypeAlias = Callable[[], BackgroundTask]
"""Makes a background task for each run of a pipeline: a class derived from `BackgroundTask`, or a function.

Example:
    >>> from spdl.pipeline import BackgroundTask, BackgroundTaskFactory
    >>> class Heartbeat(BackgroundTask):
    ...     def __init__(self, text="alive"):
    ...         self.text = text
    ...
    ...     async def run(self):
    ...         print(self.text)
    >>> factories: list[BackgroundTaskFactory] = [Heartbeat, lambda: Heartbeat("still alive")]
"""
