"""The engine: declare a graph of stages, run it on threads, observe it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spdl._not_here import missing

from ._declare.failed_item import FailedItem
from ._declare.item_context import ItemContext
from ._declare.stage_info import StageInfo
from ._engine.sentinel import is_eof, is_epoch_end
from ._failures.pipeline_failure import PipelineFailure
from ._pipeline.build import build_pipeline
from ._pipeline.builder import PipelineBuilder
from ._pipeline.cache_iterator import cache_iterator
from ._pipeline.iterator import PipelineIterator
from ._pipeline.pipeline import Pipeline

if TYPE_CHECKING:
    from ._background.create_task import create_task
    from ._background.process_group_monitor import ProcessGroupStatsMonitor
    from ._background.resource_usage import ProcessGroupResourceUsage
    from ._background.task import BackgroundTask, BackgroundTaskFactory
    from ._hooks.task_hook import TaskHook
    from ._hooks.task_stats_hook import TaskStatsHook
    from ._metrics.records import QueuePerfStats, TaskPerfStats
    from ._metrics.statistics import PipelineStatistics, StageStatistics
    from ._metrics.stores import StoreCounts
    from ._profiling.profile_failure import ProfileFailure
    from ._profiling.profile_hook import ProfileHook
    from ._profiling.profile_pipeline import profile_pipeline
    from ._profiling.profile_result import ProfileResult, ProfileStats
    from ._queues.async_queue import AsyncQueue
    from ._queues.stats_queue import StatsQueue
    from ._shared_executors.entrypoint import PriorityExecutorEntrypoint
    from ._shared_executors.interpreter_pool import PriorityInterpreterPoolExecutor
    from ._shared_executors.process_pool import PriorityProcessPoolExecutor
    from ._shared_executors.thread_pool import PriorityThreadPoolExecutor
    from ._subprocess.iterate import iterate_in_subprocess
    from ._subprocess.iterate_interpreter import iterate_in_subinterpreter, run_pipeline_in_subinterpreter
    from ._subprocess.run_pipeline import run_pipeline_in_subprocess
    from ._transport.arena import SharedMemoryRingBuffer, SharedMemorySegmentPool
    from ._transport.storage import shared_storage

__all__ = [
    "AsyncQueue",
    "BackgroundTask",
    "BackgroundTaskFactory",
    "FailedItem",
    "ItemContext",
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
    "ProfileFailure",
    "ProfileHook",
    "ProfileResult",
    "ProfileStats",
    "QueuePerfStats",
    "SharedMemoryRingBuffer",
    "SharedMemorySegmentPool",
    "StageInfo",
    "StageStatistics",
    "StatsQueue",
    "StoreCounts",
    "TaskHook",
    "TaskPerfStats",
    "TaskStatsHook",
    "build_pipeline",
    "cache_iterator",
    "create_task",
    "is_eof",
    "is_epoch_end",
    "iterate_in_subinterpreter",
    "iterate_in_subprocess",
    "profile_pipeline",
    "run_pipeline_in_subinterpreter",
    "run_pipeline_in_subprocess",
    "shared_storage",
]

# These are imported when they are first used: most pipelines use none of them.
_LATER = {
    "AsyncQueue": "_queues.async_queue",
    "BackgroundTask": "_background.task",
    "BackgroundTaskFactory": "_background.task",
    "create_task": "_background.create_task",
    "iterate_in_subinterpreter": "_subprocess.iterate_interpreter",
    "iterate_in_subprocess": "_subprocess.iterate",
    "PipelineStatistics": "_metrics.statistics",
    "PriorityExecutorEntrypoint": "_shared_executors.entrypoint",
    "PriorityInterpreterPoolExecutor": "_shared_executors.interpreter_pool",
    "PriorityProcessPoolExecutor": "_shared_executors.process_pool",
    "PriorityThreadPoolExecutor": "_shared_executors.thread_pool",
    "ProcessGroupResourceUsage": "_background.resource_usage",
    "ProcessGroupStatsMonitor": "_background.process_group_monitor",
    "profile_pipeline": "_profiling.profile_pipeline",
    "ProfileHook": "_profiling.profile_hook",
    "ProfileFailure": "_profiling.profile_failure",
    "ProfileResult": "_profiling.profile_result",
    "ProfileStats": "_profiling.profile_result",
    "QueuePerfStats": "_metrics.records",
    "run_pipeline_in_subinterpreter": "_subprocess.iterate_interpreter",
    "run_pipeline_in_subprocess": "_subprocess.run_pipeline",
    "shared_storage": "_transport.storage",
    "SharedMemoryRingBuffer": "_transport.arena",
    "SharedMemorySegmentPool": "_transport.arena",
    "StageStatistics": "_metrics.statistics",
    "StatsQueue": "_queues.stats_queue",
    "StoreCounts": "_metrics.stores",
    "TaskHook": "_hooks.task_hook",
    "TaskPerfStats": "_metrics.records",
    "TaskStatsHook": "_hooks.task_stats_hook",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise missing(__name__, name)
    value = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
