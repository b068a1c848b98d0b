"""What a user writes to have something happen around each task of a stage."""

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

    They run on the pipeline's event-loop thread and must not block it. The op itself runs where it would without
    hooks, so a hook costs some 50 microseconds per task: the way to the event loop and back.

    Give them to a pipeline by ``build(task_hook_factory=...)``, which is called for every stage but sources and sinks.
    Of a fork or a merge, whose routing is no task, only `stage_hook` is entered.

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
        """Wrap the life of the stage: it is entered before the stage's first task and left after its last.

        Overriding methods must be decorated with `contextlib.asynccontextmanager`. What is raised here fails the
        pipeline. It is left without an exception however the stage ended.
        """
        yield

    @abstractmethod
    def task_hook(self, input_item: Any = None) -> AbstractAsyncContextManager[None]:
        """Wrap one task: a call of the op, one step of a generator, an aggregator's ``accumulate`` or ``flush``.

        Overriding methods must be decorated with `contextlib.asynccontextmanager`. What the op raises passes through
        here and must be let through; at the end of a generator that is `StopAsyncIteration`. What the hook itself
        raises drops the item, which is counted as failed and reported with the hook's name.

        Args:
            input_item: What the op was given. For an aggregator's ``flush``, something for which `is_eof` or
                `is_epoch_end` is true.

        Returns:
            A context manager, entered before the task and left after it.
        """
