"""The hooks and queues of the user's around the stages of one pipeline, if there are any."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl._check import refuse, show
from spdl._locate import callers_line
from spdl.pipeline._declare import defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from spdl.pipeline._declare.stage_info import StageInfo
    from spdl.pipeline._hooks.task_hook import TaskHook
    from spdl.pipeline._hooks.task_stats_hook import TaskStatsHook
    from spdl.pipeline._queues.async_queue import AsyncQueue

    TaskHookFactory: TypeAlias = Callable[[StageInfo], Sequence[TaskHook]]
    QueueClass: TypeAlias = Callable[..., AsyncQueue[Any]]

__all__ = ["NOTHING", "Instrumentation", "QueueClass", "StageHooks", "TaskHookFactory", "enter_later"]


class StageHooks(NamedTuple):
    """The hooks of a stage.

    Attributes:
        running: Those that run around its tasks.
        lifespan: Those that run around its lifespan.
        measuring: Those that read what the engine counts.
        intervals: For each line that is to be logged at the stage's end, the seconds from one to the next meanwhile.
    """

    running: Sequence[TaskHook] = ()
    lifespan: Sequence[TaskHook] = ()
    measuring: Sequence[TaskStatsHook] = ()
    intervals: Sequence[float] = ()


class EdgeQueue(NamedTuple):
    """The queue between two stages.

    Attributes:
        carrier: What carries the items; None if they need nothing of the user's.
        interval: If the engine is to log what it counts, the seconds from one line to the next.
    """

    carrier: AsyncQueue[Any] | None = None
    interval: float | None = None


class Instrumentation:
    """Makes the hooks and queues that a pipeline was given, or that the process has as defaults.

    The library's own hook and queue only measure, which the engine does by itself: they do not lie on the items' way.
    """

    def __init__(self, hook_factory: TaskHookFactory | None, queue_class: QueueClass | None, interval: float) -> None:
        self._interval = interval
        self._given = (hook_factory, queue_class, interval)
        self._hook_factory = hook_factory or self._default_hooks()
        # Only the process's default takes the interval, as a class given to `build` can bring its own.
        self._queue_class, self._queue_options = queue_class, {}
        if queue_class is None and defaults.chosen_queue_class() is not defaults.OURS:
            self._queue_class, self._queue_options = defaults.chosen_queue_class(), {"interval": interval}

    def _default_hooks(self) -> TaskHookFactory | None:
        chosen = defaults.chosen_hook_class()
        if chosen is None:
            return lambda _info: ()
        if chosen is defaults.OURS:
            return None
        return lambda info: [chosen(info, interval=self._interval)]

    def elsewhere(self) -> tuple[tuple[Any, Any, float], tuple[list[Any], list[Any]]]:
        """Return what makes the same in a worker: the arguments, and the process's defaults, if any were chosen."""
        chosen = defaults.chosen_hook_class(), defaults.chosen_queue_class()
        hooks, queues = ([] if each is defaults.OURS else [each] for each in chosen)
        return self._given, (hooks, queues)

    def counted(self) -> StageHooks:
        """Return the hooks of a stage in workers that run here: its counters are read, if nothing else measures."""
        return StageHooks(intervals=[self._interval] if self._hook_factory is None else [])

    def hooks(self, info: StageInfo) -> StageHooks:
        """The hooks of a stage.

        Raises:
            TypeError: If the factory returned something else.
        """
        if self._hook_factory is None:
            return StageHooks(intervals=[self._interval])
        hooks: Any = self._hook_factory(info)
        from spdl.pipeline._hooks.task_hook import TaskHook  # noqa: PLC0415 - most pipelines have none.

        if not isinstance(hooks, list | tuple) or not all(isinstance(hook, TaskHook) for hook in hooks):
            refuse(TypeError, "task_hook_factory", f"a function that returns a list of TaskHook (for {info})", hooks)
        stats = _own_class("_hooks.task_stats_hook", "TaskStatsHook")
        if any(stats is None or getattr(hook.task_hook, "__func__", None) is not stats.task_hook for hook in hooks):
            # Beside others that run, it measures what these cost as well, or do not, depending on which comes first.
            return StageHooks(running=hooks, lifespan=hooks)
        lifespan = [hook for hook in hooks if not _is_plain(hook, stats)]
        intervals = [hook.interval for hook in hooks if _is_plain(hook, stats)]
        return StageHooks(lifespan=lifespan, measuring=hooks, intervals=intervals)

    def queue(self, info: StageInfo, size: int) -> EdgeQueue:
        """Return the queue downstream of a source or stage, or that of the sink.

        Raises:
            TypeError: If the class makes something else.
        """
        if self._queue_class is None:
            return EdgeQueue(interval=self._interval)
        made: Any = self._queue_class(info, buffer_size=size, **self._queue_options)
        if _is_plain(made, _own_class("_queues.stats_queue", "StatsQueue")):
            return EdgeQueue(interval=made.interval)
        from spdl.pipeline._queues.async_queue import AsyncQueue  # noqa: PLC0415 - it imports asyncio.

        if not isinstance(made, AsyncQueue):
            refuse(TypeError, "queue_class", "a subclass of AsyncQueue", made)
        if _is_plain(made, AsyncQueue):
            return EdgeQueue()
        return EdgeQueue(carrier=made)


class _Nothing(Instrumentation):
    """No hooks and no queues, and nothing that is logged."""

    def __init__(self) -> None:
        super().__init__(_no_hooks, None, -1)

    def queue(self, info: StageInfo, size: int) -> EdgeQueue:  # noqa: ARG002 - as in general.
        return EdgeQueue()


def _no_hooks(_info: StageInfo) -> Sequence[TaskHook]:
    return []


NOTHING = _Nothing()


def enter_later(owner: object, method: str) -> AbstractAsyncContextManager[None]:
    """The context manager that a hook's or queue's ``stage_hook`` returns, not yet entered.

    Raises:
        ValueError: If it is none, as where the decorator was forgotten.
    """
    context: Any = getattr(owner, method)()
    if hasattr(context, "__aenter__") and hasattr(context, "__aexit__"):
        manager: AbstractAsyncContextManager[None] = context
        return manager
    if hasattr(context, "close"):
        # A coroutine that never ran would complain of it.
        context.close()
    raise ValueError(
        f"`{type(owner).__qualname__}.{method}` must return an async context manager, got {show(context)} "
        f"({callers_line()}). Decorate it with `contextlib.asynccontextmanager`."
    )


def _own_class(module: str, name: str) -> Any:
    """One of the library's own classes, or None if nobody has imported it: then nobody has an object of it."""
    loaded = sys.modules.get(f"spdl.pipeline.{module}")
    return None if loaded is None else getattr(loaded, name)


def _is_plain(candidate: object, own: type | None) -> bool:
    """Return whether an object is of exactly this class, with none of its methods replaced."""
    return type(candidate) is own and not any(callable(getattr(own, name, None)) for name in vars(candidate))
