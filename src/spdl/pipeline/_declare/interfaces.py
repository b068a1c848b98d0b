"""The base classes of what users add to a pipeline: hooks, queues and background tasks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

from spdl.pipeline._declare.records import StageInfo


class TaskHook(ABC):
    """Async context managers around a stage and around each of its tasks.

    They run on the pipeline's event loop thread and must not block it. The op itself runs where it would without
    hooks, so a hook costs some 50 microseconds per task: the way to the event loop and back.

    Pass them to a pipeline with ``build(task_hook_factory=...)``. The factory is called for every stage except sources
    and sinks. For a fork or a merge only `stage_hook` is entered, since routing is not a task.

    Example:
        >>> from contextlib import asynccontextmanager
        >>> from spdl.pipeline import PipelineBuilder, TaskHook
        >>> class Count(TaskHook):
        ...     started = 0
        ...
        ...     @asynccontextmanager
        ...     async def task_hook(self, input_item=None):
        ...         self.started += 1
        ...         yield
        >>> count = Count()
        >>> builder = PipelineBuilder().add_source(range(3)).pipe(str).add_sink()
        >>> with builder.build(num_threads=1, task_hook_factory=lambda info: [count]).auto_stop() as pipeline:
        ...     print(list(pipeline), count.started)
        ['0', '1', '2'] 3
    """

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        """Wrap the lifespan of the stage: it is entered before the stage's first task and left after its last.

        Overriding methods must be decorated with `contextlib.asynccontextmanager`. An exception raised here fails the
        pipeline. It is left without an exception, however the stage ended.
        """
        yield

    @abstractmethod
    def task_hook(self, input_item: Any = None) -> AbstractAsyncContextManager[None]:
        """Wrap one task: a call of the op, one step of a generator, an aggregator's ``accumulate`` or ``flush``.

        Overriding methods must be decorated with `contextlib.asynccontextmanager`. Exceptions of the op pass through
        here, and the hook must not swallow them; at the end of a generator this is `StopAsyncIteration`. If the hook
        itself raises, the item is dropped, counted as failed and reported with the hook's name.

        Args:
            input_item: The item that the op gets. For an aggregator's ``flush``, an object for which `is_eof` or
                `is_epoch_end` is true.

        Returns:
            A context manager, entered before the task and left after it.
        """


class ProfileHook(ABC):
    """Context managers around a profile and each of its measurements: for a tracer, a progress display, a sampler.

    They are entered and left in the thread that calls `profile_pipeline`. An exception in one ends the profile.

    Example:
        >>> import time
        >>> from contextlib import contextmanager
        >>> from spdl.pipeline import PipelineBuilder, ProfileHook, profile_pipeline
        >>> class Narrator(ProfileHook):
        ...     @contextmanager
        ...     def pipeline_profile_hook(self):
        ...         yield
        ...         print("done")
        ...
        ...     @contextmanager
        ...     def stage_profile_hook(self, stage, concurrency):
        ...         print(stage, concurrency)
        ...         yield
        >>> builder = PipelineBuilder().add_source(range(9)).aggregate(3).add_sink()
        >>> results = profile_pipeline(builder.get_config(), hook=Narrator())
        aggregate(op=collate(3), drop_last=False) 1
        done
    """

    @abstractmethod
    def stage_profile_hook(self, stage: str, concurrency: int) -> AbstractContextManager[object]:
        """Wrap the measurement of one stage with one number of threads.

        Args:
            stage: The stage's name, as in `ProfileResult`.
            concurrency: How many items the stage works on at once.

        Returns:
            A context manager. An exception that it raises ends the profile, and `profile_pipeline` raises it.

        Raises:
            Exception: Any exception ends the profile, and `profile_pipeline` raises it.
        """

    @abstractmethod
    def pipeline_profile_hook(self) -> AbstractContextManager[object]:
        """Wrap the whole profile, including the reading of the source.

        Returns:
            A context manager. An exception that it raises ends the profile, and `profile_pipeline` raises it.
        """


T = TypeVar("T")


class AsyncQueue(asyncio.Queue[T]):
    """An `asyncio.Queue` between two stages.

    Pipelines do not need such queues, because their threads carry items from stage to stage. If you must see or delay
    each item, pass a derived class as ``queue_class`` to `PipelineBuilder.build`. One queue is then made for the output
    of each source and stage, and carries it on the event loop thread. That costs some 100 microseconds per item and
    edge.

    A queue must return every object that was put in, once. At the end of each epoch it gets an object for which
    `is_epoch_end` is true, and at the very end one for which `is_eof` is true; these must come out as well. Instead of
    an item it may return another object, such as one that wraps the item.

    A queue that loses an object, or returns one more than it got, fails the pipeline with an error that names the
    queue. This happens at the end of the epoch or of the input or, if the end itself is lost, 5 seconds after the last
    item. A loss goes unnoticed if the queue returns another object instead. Making a queue never raises.

    Args:
        info: The stage or source that fills the queue.
        buffer_size: How many items may wait in the queue.

    Attributes:
        info: The stage or source that fills the queue.

    Example:
        >>> from spdl.pipeline import AsyncQueue, PipelineBuilder, is_eof
        >>> class Ledger(AsyncQueue):
        ...     passed = {}
        ...
        ...     async def put(self, item):
        ...         if not is_eof(item):
        ...             self.passed.setdefault(self.info.stage_name, []).append(item)
        ...         await super().put(item)
        >>> builder = PipelineBuilder().add_source([1, 2]).pipe(lambda x: 10 * x, name="tens").add_sink()
        >>> with builder.build(num_threads=1, queue_class=Ledger).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [10, 20]
        >>> Ledger.passed
        {'src': [1, 2], 'tens': [10, 20], 'sink': [10, 20]}
    """

    def __init__(self, info: StageInfo, *, buffer_size: int = 1) -> None:
        super().__init__(buffer_size)
        self.info = info

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        """Wrap the lifespan of the queue: entered before the pipeline works, left when all items have passed."""
        yield


class BackgroundTask:
    """A task that runs beside the stages of a pipeline: a reporter, a monitor, a heartbeat.

    Override `run`. Pass the class, or any other callable without arguments that returns a task, to
    ``build_pipeline(..., background_tasks=[MyTask])``, or to `spdl.pipeline.config.set_default_background_tasks` for
    all pipelines of the process. Each run of a pipeline makes its own task, on its event loop thread.

    A task is cancelled when the stages have finished or the pipeline stops. An exception that the task or its factory
    raises before that is logged and otherwise ignored, since the task is not part of the work. A task may also return
    earlier. A task that ignores its cancellation is abandoned after a second, and a warning names it.

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
