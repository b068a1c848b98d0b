"""The engine: declare a graph of stages, run it on threads, observe it."""

from ._builder import PipelineBuilder
from ._failure import PipelineFailure
from ._pipeline import Pipeline, PipelineIterator
from ._statistics import PipelineStatistics, StageStatistics

__all__ = [
    "Pipeline",
    "PipelineBuilder",
    "PipelineFailure",
    "PipelineIterator",
    "PipelineStatistics",
    "StageStatistics",
]
