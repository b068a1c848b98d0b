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
from ._statistics import PipelineStatistics, StageStatistics

if TYPE_CHECKING:
    from ._background._task import BackgroundTask, BackgroundTaskFactory

__all__ = [
    "BackgroundTask",
    "BackgroundTaskFactory",
    "FailedItem",
    "Pipeline",
    "PipelineBuilder",
    "PipelineFailure",
    "PipelineIterator",
    "PipelineStatistics",
    "StageInfo",
    "StageStatistics",
    "build_pipeline",
    "cache_iterator",
    "is_eof",
    "is_epoch_end",
]

# What surrounds the engine is imported when it is first asked for: most pipelines use none of it.
_LATER = {
    "BackgroundTask": "_background._task",
    "BackgroundTaskFactory": "_background._task",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
