"""The defaults of the whole process, and the settings in environment variables: see `spdl.pipeline.config`."""

from __future__ import annotations

import functools
import importlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spdl._check import check_flag, refuse
from spdl._processes import RenewedLock
from spdl.pipeline._declare.records import PipelineConfig

if TYPE_CHECKING:
    from spdl.pipeline._declare.interfaces import AsyncQueue, BackgroundTaskFactory, ProfileHook, TaskHook
    from spdl.pipeline._report.profile_result import ProfileResult
    from spdl.pipeline._report.recorder import Recorder

_LOG = logging.getLogger("spdl.pipeline")

_DIAGNOSTIC_MODE = "SPDL_PIPELINE_DIAGNOSTIC_MODE"
_NUM_ITEMS = "SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS"
_COMPACT_LOG = "SPDL_PIPELINE_COMPACT_LOG"

# The folder that `spdl record` has each process write its record to.
TRACE_FOLDER = "SPDL_TRACE_FOLDER"

_TRUE = ("1", "true", "on", "yes")
_FALSE = ("0", "false", "off", "no")


class _Ours:
    """A stand-in for a class of this library, so that the class is imported only when it is needed."""

    def __repr__(self) -> str:
        return "<the library's own>"


OURS: Any = _Ours()


class _Defaults:
    """The defaults of the process. A pipeline uses those that are set when it is built. `OURS` is not imported yet."""

    hook_class: Any = OURS
    queue_class: Any = OURS
    profile_hook: ProfileHook | None = None
    profile_callback: Callable[[ProfileResult], None] | None = None
    build_callback: Callable[[PipelineConfig[Any]], None] | None = None
    background_tasks: list[BackgroundTaskFactory] | None = None
    compact_log: bool | None = None
    recorder: Recorder | None = None


CHOSEN = _Defaults()
_CLAIMS = RenewedLock()


def _import(name: str) -> Any:
    return getattr(importlib.import_module("spdl.pipeline"), name)


def claim_recorder(recorder: Recorder) -> bool:
    with _CLAIMS:
        if CHOSEN.recorder is not None:
            return False
        CHOSEN.recorder = recorder
        return True


def release_recorder() -> None:
    CHOSEN.recorder = None


def get_default_hook_class() -> type[TaskHook] | None:
    """Return the class of the hook that stages get if no ``task_hook_factory`` is given. None means no hook.

    Example:
        >>> from spdl.pipeline.config import get_default_hook_class
        >>> get_default_hook_class().__name__
        'TaskStatsHook'
    """
    if CHOSEN.hook_class is OURS:
        ours: type[TaskHook] = _import("TaskStatsHook")
        return ours
    chosen: type[TaskHook] | None = CHOSEN.hook_class
    return chosen


def set_default_hook_class(hook_class: type[TaskHook] | None = OURS) -> None:
    """Set the hook that stages get if no ``task_hook_factory`` is given, for pipelines that are built from now on.

    Args:
        hook_class: Called with the stage's `StageInfo` and ``interval=`` (the ``report_stats_interval`` of the
            pipeline, seconds). With None, stages get no hook, so no line is logged when a stage ends. Without the
            argument, the default is the library's own `TaskStatsHook` again.

    Raises:
        TypeError: If it is neither callable nor None, or a class without ``task_hook``.

    Example:
        >>> from spdl.pipeline.config import set_default_hook_class
        >>> set_default_hook_class(None)  # No stage logs a line at its end.
        >>> set_default_hook_class()  # They do again.
    """
    if hook_class is not OURS and hook_class is not None:
        _check_class("hook_class", "a subclass of TaskHook or None", hook_class, "task_hook")
    CHOSEN.hook_class = hook_class


def get_default_queue_class() -> type[AsyncQueue[Any]]:
    """Return the class of the queues between stages if no ``queue_class`` is given.

    Example:
        >>> from spdl.pipeline.config import get_default_queue_class
        >>> get_default_queue_class().__name__
        'StatsQueue'
    """
    if CHOSEN.queue_class is OURS:
        ours: type[AsyncQueue[Any]] = _import("StatsQueue")
        return ours
    chosen: type[AsyncQueue[Any]] = CHOSEN.queue_class
    return chosen


def set_default_queue_class(queue_class: type[AsyncQueue[Any]] | None = OURS) -> None:
    """Set the queues between stages if no ``queue_class`` is given, for pipelines that are built from now on.

    Args:
        queue_class: Called with a `StageInfo`, ``buffer_size=`` and ``interval=`` (the ``report_stats_interval`` of
            the pipeline, seconds). With None, or without the argument, the default is the library's own `StatsQueue`
            again.

    Raises:
        TypeError: If it is neither callable nor None, or a class without ``get`` and ``put``.

    Example:
        >>> from spdl.pipeline import AsyncQueue
        >>> from spdl.pipeline.config import get_default_queue_class, set_default_queue_class
        >>> class Watched(AsyncQueue):
        ...     def __init__(self, info, *, buffer_size=1, interval=-1):
        ...         super().__init__(info, buffer_size=buffer_size)
        >>> set_default_queue_class(Watched)
        >>> get_default_queue_class().__name__
        'Watched'
        >>> set_default_queue_class()
    """
    if queue_class is None:
        queue_class = OURS
    elif queue_class is not OURS:
        _check_class("queue_class", "a subclass of AsyncQueue or None", queue_class, "get", "put")
    CHOSEN.queue_class = queue_class


def _check_class(argument: str, accepted: str, value: object, *methods: str) -> None:
    # Any callable that makes an object will do, such as a functools.partial of a class.
    if not callable(value) or (isinstance(value, type) and not all(hasattr(value, method) for method in methods)):
        refuse(TypeError, argument, accepted, value)


def _check_callable(argument: str, value: object) -> None:
    if value is not None and not callable(value):
        refuse(TypeError, argument, "a callable or None", value)


def get_default_profile_hook() -> ProfileHook | None:
    """Return the hook that `profile_pipeline` uses if it gets none, or None if there is no default.

    Example:
        >>> from spdl.pipeline.config import get_default_profile_hook
        >>> print(get_default_profile_hook())
        None
    """
    return CHOSEN.profile_hook


def set_default_profile_hook(hook: ProfileHook | None = None) -> None:
    """Set the hook that `profile_pipeline` uses if it gets none.

    Args:
        hook: A `ProfileHook`, or None for no hook.

    Raises:
        TypeError: If it is neither.

    Example:
        >>> from contextlib import nullcontext
        >>> from spdl.pipeline import ProfileHook
        >>> from spdl.pipeline.config import set_default_profile_hook
        >>> class Quiet(ProfileHook):
        ...     def stage_profile_hook(self, stage, concurrency):
        ...         return nullcontext()
        ...
        ...     def pipeline_profile_hook(self):
        ...         return nullcontext()
        >>> set_default_profile_hook(Quiet())
        >>> set_default_profile_hook(None)
    """
    check_profile_hook(hook)
    CHOSEN.profile_hook = hook


def check_profile_hook(hook: Any) -> None:
    """Raise a TypeError unless it is None, or an instance of a subclass of `ProfileHook`."""
    methods = ("stage_profile_hook", "pipeline_profile_hook")
    if hook is not None and (isinstance(hook, type) or not all(hasattr(hook, method) for method in methods)):
        refuse(TypeError, "hook", "an instance of a subclass of ProfileHook, or None", hook)


def get_default_profile_callback() -> Callable[[ProfileResult], None] | None:
    """Return the callback that `profile_pipeline` uses if it gets none, or None if there is no default.

    Example:
        >>> from spdl.pipeline.config import get_default_profile_callback
        >>> print(get_default_profile_callback())
        None
    """
    return CHOSEN.profile_callback


def set_default_profile_callback(callback: Callable[[ProfileResult], None] | None = None) -> None:
    """Set the callback that `profile_pipeline` uses if it gets none.

    Args:
        callback: Called with each stage's `ProfileResult`, as soon as it is there. None for no callback.

    Raises:
        TypeError: If it is neither callable nor None.

    Example:
        >>> from spdl.pipeline.config import set_default_profile_callback
        >>> set_default_profile_callback(print)
        >>> set_default_profile_callback(None)
    """
    _check_callable("callback", callback)
    CHOSEN.profile_callback = callback


def get_default_build_callback() -> Callable[[PipelineConfig[Any]], None] | None:
    """Return the callback that is called for each pipeline that is built, or None if there is none.

    Example:
        >>> from spdl.pipeline.config import get_default_build_callback
        >>> print(get_default_build_callback())
        None
    """
    return CHOSEN.build_callback


def set_default_build_callback(callback: Callable[[PipelineConfig[Any]], None] | None) -> None:
    """Set a callback that is called for each pipeline that is built, before anything else happens.

    Args:
        callback: Called with the `spdl.pipeline.defs.PipelineConfig`, in the thread that builds the pipeline. An
            exception that it raises is logged and otherwise ignored. None for no callback.

    Raises:
        TypeError: If it is neither callable nor None.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> from spdl.pipeline.config import set_default_build_callback
        >>> set_default_build_callback(lambda config: print(config.sink))
        >>> pipeline = PipelineBuilder().add_source([1]).add_sink(2).build(num_threads=1)
        sink(buffer_size=2)
        >>> set_default_build_callback(None)
    """
    _check_callable("callback", callback)
    CHOSEN.build_callback = callback


def get_default_background_tasks() -> list[BackgroundTaskFactory] | None:
    """Return a copy of the list set by `set_default_background_tasks`, or None if there is none.

    Example:
        >>> from spdl.pipeline.config import get_default_background_tasks
        >>> print(get_default_background_tasks())
        None
    """
    tasks = CHOSEN.background_tasks
    return None if tasks is None else list(tasks)


def set_default_background_tasks(tasks: Sequence[BackgroundTaskFactory] | None) -> None:
    """Set the background tasks of pipelines that are built from now on. They precede a pipeline's own tasks.

    Args:
        tasks: Callables without arguments that return a `BackgroundTask`, such as subclasses of it. The list is
            copied. None for no tasks.

    Raises:
        TypeError: If it is not a list or tuple of callables.

    Example:
        >>> from spdl.pipeline import BackgroundTask
        >>> from spdl.pipeline.config import get_default_background_tasks, set_default_background_tasks
        >>> class Heartbeat(BackgroundTask):
        ...     async def run(self):
        ...         print("alive")
        >>> set_default_background_tasks([Heartbeat])
        >>> len(get_default_background_tasks())
        1
        >>> set_default_background_tasks(None)
    """
    CHOSEN.background_tasks = None if tasks is None else check_background_tasks("tasks", tasks)


def check_background_tasks(argument: str, tasks: object) -> list[BackgroundTaskFactory]:
    """Return a copy of a list of factories, or raise a TypeError."""
    if not isinstance(tasks, list | tuple) or not all(map(callable, tasks)):
        remedy = "Pass the class of the task, or a function that makes one, not the task itself."
        refuse(TypeError, argument, "a list of callables without arguments, or None", tasks, remedy)
    return list(tasks)


def is_diagnostic_mode_enabled() -> bool:
    """Return whether the environment asks for pipelines to be profiled instead of run.

    It does so if ``SPDL_PIPELINE_DIAGNOSTIC_MODE`` is 1, true, on or yes, in upper or lower case. The variable is read
    at each call. Words other than these and their opposites (0, false, off, no) cause a warning and count as unset.

    Example:
        >>> import os
        >>> from spdl.pipeline.config import is_diagnostic_mode_enabled
        >>> os.environ["SPDL_PIPELINE_DIAGNOSTIC_MODE"] = "1"
        >>> is_diagnostic_mode_enabled()
        True
        >>> del os.environ["SPDL_PIPELINE_DIAGNOSTIC_MODE"]
    """
    value = os.environ.get(_DIAGNOSTIC_MODE)
    return value is not None and _is_true(_DIAGNOSTIC_MODE, value)


def diagnostic_mode_num_sources() -> int:
    """Return how many items of the source diagnostic mode uses.

    This is the value of ``SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS``, by default 1000.

    Raises:
        ValueError: If the variable is not an integer of at least 1.

    Example:
        >>> import os
        >>> from spdl.pipeline.config import diagnostic_mode_num_sources
        >>> os.environ["SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS"] = "50"
        >>> diagnostic_mode_num_sources()
        50
        >>> del os.environ["SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS"]
    """
    value = os.environ.get(_NUM_ITEMS, "1000")
    if not value.strip().isdecimal() or int(value) < 1:
        raise ValueError(f"The environment variable {_NUM_ITEMS} must be an integer of at least 1, got {value!r}.")
    return int(value)


def set_compact_log(value: bool | None) -> None:  # noqa: FBT001 - the reference's signature.
    """Choose whether each failure is logged in one line, without a traceback, or in full.

    Args:
        value: True for one line, False for the full traceback. None leaves it to the environment variable
            ``SPDL_PIPELINE_COMPACT_LOG``: 1, true, on or yes, in upper or lower case, mean one line. Their opposites
            and any other word mean in full, and so does an unset variable.

    Raises:
        TypeError: If it is anything else.

    Example:
        >>> from spdl.pipeline.config import set_compact_log
        >>> set_compact_log(True)  # One line for each failure.
        >>> set_compact_log(None)
    """
    CHOSEN.compact_log = None if value is None else check_flag("value", value)


def is_compact_log_enabled() -> bool:
    chosen = CHOSEN.compact_log
    if chosen is not None:
        return chosen
    value = os.environ.get(_COMPACT_LOG)
    return value is not None and _is_true_warning_once(_COMPACT_LOG, value)


def _is_true(name: str, value: str) -> bool:
    if value.lower() not in _TRUE + _FALSE:
        words = ", ".join(_TRUE + _FALSE)
        _LOG.warning(
            "The environment variable %s is %r, which counts as unset. It may be one of %s, in upper or lower case.",
            name,
            value,
            words,
        )
    return value.lower() in _TRUE


# Called at every failure: a wrong word must not add a warning to each of them.
_is_true_warning_once = functools.cache(_is_true)
