"""The engine: declare a graph of stages, run it on threads, observe it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spdl._not_here import missing
from spdl.pipeline._build import build_pipeline
from spdl.pipeline._builder import PipelineBuilder
from spdl.pipeline._declare.op import FailedItem, ItemContext
from spdl.pipeline._declare.records import StageInfo
from spdl.pipeline._engine.channel import is_eof, is_epoch_end
from spdl.pipeline._iterators import PipelineIterator, cache_iterator
from spdl.pipeline._pipeline import Pipeline
from spdl.pipeline._report.failures import PipelineFailure

if TYPE_CHECKING:
    from spdl.pipeline._declare.interfaces import (
        AsyncQueue,
        BackgroundTask,
        BackgroundTaskFactory,
        ProfileHook,
        TaskHook,
    )
    from spdl.pipeline._elsewhere.arena import SharedMemoryRingBuffer, SharedMemorySegmentPool
    from spdl.pipeline._elsewhere.iterate import (
        iterate_in_subinterpreter,
        iterate_in_subprocess,
        run_pipeline_in_subinterpreter,
        run_pipeline_in_subprocess,
    )
    from spdl.pipeline._elsewhere.lane_writer import shared_storage
    from spdl.pipeline._profile import profile_pipeline
    from spdl.pipeline._report.counters import StoreCounts
    from spdl.pipeline._report.perf_stats import QueuePerfStats, TaskPerfStats
    from spdl.pipeline._report.profile_result import ProfileFailure, ProfileResult, ProfileStats
    from spdl.pipeline._report.statistics import PipelineStatistics, StageStatistics
    from spdl.pipeline._stages.background import ProcessGroupResourceUsage, ProcessGroupStatsMonitor, create_task
    from spdl.pipeline._stages.measuring import StatsQueue, TaskStatsHook
    from spdl.pipeline._stages.pools import (
        PriorityExecutorEntrypoint,
        PriorityInterpreterPoolExecutor,
        PriorityProcessPoolExecutor,
        PriorityThreadPoolExecutor,
    )

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
    "AsyncQueue": "_declare.interfaces",
    "BackgroundTask": "_declare.interfaces",
    "BackgroundTaskFactory": "_declare.interfaces",
    "create_task": "_stages.background",
    "iterate_in_subinterpreter": "_elsewhere.iterate",
    "iterate_in_subprocess": "_elsewhere.iterate",
    "PipelineStatistics": "_report.statistics",
    "PriorityExecutorEntrypoint": "_stages.pools",
    "PriorityInterpreterPoolExecutor": "_stages.pools",
    "PriorityProcessPoolExecutor": "_stages.pools",
    "PriorityThreadPoolExecutor": "_stages.pools",
    "ProcessGroupResourceUsage": "_stages.background",
    "ProcessGroupStatsMonitor": "_stages.background",
    "profile_pipeline": "_profile",
    "ProfileHook": "_declare.interfaces",
    "ProfileFailure": "_report.profile_result",
    "ProfileResult": "_report.profile_result",
    "ProfileStats": "_report.profile_result",
    "QueuePerfStats": "_report.perf_stats",
    "run_pipeline_in_subinterpreter": "_elsewhere.iterate",
    "run_pipeline_in_subprocess": "_elsewhere.iterate",
    "shared_storage": "_elsewhere.lane_writer",
    "SharedMemoryRingBuffer": "_elsewhere.arena",
    "SharedMemorySegmentPool": "_elsewhere.arena",
    "StageStatistics": "_report.statistics",
    "StatsQueue": "_stages.measuring",
    "StoreCounts": "_report.counters",
    "TaskHook": "_declare.interfaces",
    "TaskPerfStats": "_report.perf_stats",
    "TaskStatsHook": "_stages.measuring",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise missing(__name__, name)
    value = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
