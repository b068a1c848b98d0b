"""The engine: declare a graph of stages, run it on threads, observe it."""

from ._build import build_pipeline
from ._builder import PipelineBuilder
from ._cache_iterator import cache_iterator
from ._failure import PipelineFailure
from ._pipeline import Pipeline, PipelineIterator
from ._quarantine import FailedItem
from ._sentinel import is_eof, is_epoch_end
from ._stage_info import StageInfo
from ._statistics import PipelineStatistics, StageStatistics

__all__ = [
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
