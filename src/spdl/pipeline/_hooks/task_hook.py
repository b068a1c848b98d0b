"""The base class for users' hooks around the tasks of a stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

__all__ = ["TaskHook"]


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
