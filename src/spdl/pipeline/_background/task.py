"""What a background task is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

__all__ = ["BackgroundTask", "BackgroundTaskFactory"]


class BackgroundTask:
    """Something that runs as long as a pipeline does, beside its stages: a reporter, a monitor, a heartbeat.

    Override `run`. Give a pipeline the class, or anything else that returns a task when it is called without arguments:
    ``build_pipeline(..., background_tasks=[MyTask])``, or `spdl.pipeline.config.set_default_background_tasks` for all
    pipelines of the process. Each run of a pipeline makes a task of its own, on its event loop's thread.

    A task is cancelled when the stages have finished or the pipeline stops. What it raises before, or the factory, is
    logged and otherwise ignored: it is not part of the work. A task that returns is done. One that goes on when it is
    cancelled is left behind after a second, and a warning names it.

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
        """Do the work, until it is done or cancelled.

        It shares its thread with the pipeline's async stages: what blocks here blocks them. Leave blocking calls to
        `asyncio.to_thread`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `run`.")


BackgroundTaskFactory: TypeAlias = Callable[[], BackgroundTask]
"""What makes a background task for each run of a pipeline: a class derived from `BackgroundTask`, or a function.

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
