"""The engine: declare a graph of stages, run it on threads, observe it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._build import build_pipeline
from ._builder import PipelineBuilder
from ._cache_iterator import cache_iterator
from ._failure import PipelineFailure
from ._pipeline import Pipeline, PipelineIterator
from ._quarantine import FailedItem
from ._sentinel import is_eof, is_epoch_end
from ._stage_info import StageInfo

if TYPE_CHECKING:
    from ._background._create_task import create_task
    from ._background._process_group_monitor import ProcessGroupStatsMonitor
    from ._background._resource_usage import ProcessGroupResourceUsage
    from ._background._task import BackgroundTask, BackgroundTaskFactory
    from ._hooks._task_hook import TaskHook
    from ._hooks._task_perf_stats import TaskPerfStats
    from ._hooks._task_stats_hook import TaskStatsHook
    from ._priority._entrypoint import PriorityExecutorEntrypoint
    from ._priority._interpreter_pool import PriorityInterpreterPoolExecutor
    from ._priority._process_pool import PriorityProcessPoolExecutor
    from ._priority._thread_pool import PriorityThreadPoolExecutor
    from ._profiling._profile_hook import ProfileHook
    from ._profiling._profile_pipeline import profile_pipeline
    from ._profiling._profile_result import ProfileResult, ProfileStats
    from ._queues._async_queue import AsyncQueue
    from ._queues._queue_perf_stats import QueuePerfStats
    from ._queues._stats_queue import StatsQueue
    from ._statistics import PipelineStatistics, StageStatistics
    from ._subprocess._iterate import iterate_in_subprocess
    from ._subprocess._run_pipeline import run_pipeline_in_subprocess

__all__ = [
    "AsyncQueue",
    "BackgroundTask",
    "BackgroundTaskFactory",
    "FailedItem",
    "Pipeline",
    "PipelineBuilder",
    "PipelineFailure",
    "PipelineIterator",
    "PipelineStatistics",
    "PriorityExecutorEntrypoint",
    "PriorityInterpreterPoolExecutor",
    "PriorityProcessPoolExecutor",
    "PriorityThreadPoolExecutor",
    "ProcessGroupResourceUsage",
    "ProcessGroupStatsMonitor",
    "ProfileHook",
    "ProfileResult",
    "ProfileStats",
    "QueuePerfStats",
    "StageInfo",
    "StageStatistics",
    "StatsQueue",
    "TaskHook",
    "TaskPerfStats",
    "TaskStatsHook",
    "build_pipeline",
    "cache_iterator",
    "create_task",
    "is_eof",
    "is_epoch_end",
    "iterate_in_subprocess",
    "profile_pipeline",
    "run_pipeline_in_subprocess",
]

# What surrounds the engine is imported when it is first asked for: most pipelines use none of it.
_LATER = {
    "AsyncQueue": "_queues._async_queue",
    "BackgroundTask": "_background._task",
    "BackgroundTaskFactory": "_background._task",
    "create_task": "_background._create_task",
    "iterate_in_subprocess": "_subprocess._iterate",
    "PipelineStatistics": "_statistics",
    "PriorityExecutorEntrypoint": "_priority._entrypoint",
    "PriorityInterpreterPoolExecutor": "_priority._interpreter_pool",
    "PriorityProcessPoolExecutor": "_priority._process_pool",
    "PriorityThreadPoolExecutor": "_priority._thread_pool",
    "ProcessGroupResourceUsage": "_background._resource_usage",
    "ProcessGroupStatsMonitor": "_background._process_group_monitor",
    "profile_pipeline": "_profiling._profile_pipeline",
    "ProfileHook": "_profiling._profile_hook",
    "ProfileResult": "_profiling._profile_result",
    "ProfileStats": "_profiling._profile_result",
    "QueuePerfStats": "_queues._queue_perf_stats",
    "run_pipeline_in_subprocess": "_subprocess._run_pipeline",
    "StageStatistics": "_statistics",
    "StatsQueue": "_queues._stats_queue",
    "TaskHook": "_hooks._task_hook",
    "TaskPerfStats": "_hooks._task_perf_stats",
    "TaskStatsHook": "_hooks._task_stats_hook",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
