"""The records that a pipeline is built from, and the functions that make them."""

from spdl._not_here import missing
from spdl.pipeline._declare.placement import (
    MAIN_PROCESS,
    ExecutorConfig,
    InterpreterPoolExecutorConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    ThreadPoolExecutorConfig,
)
from spdl.pipeline._declare.records import (
    AggregateConfig,
    Aggregator,
    Collate,
    DisaggregateConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)

from ._declare.stages import Aggregate, Disaggregate, Merge, PathVariants, Pipe

__all__ = [
    "MAIN_PROCESS",
    "Aggregate",
    "AggregateConfig",
    "Aggregator",
    "Collate",
    "Disaggregate",
    "DisaggregateConfig",
    "ExecutorConfig",
    "InterpreterPoolExecutorConfig",
    "Merge",
    "MergeConfig",
    "PathVariants",
    "PathVariantsConfig",
    "Pipe",
    "PipeConfig",
    "PipelineConfig",
    "PlacementConfig",
    "ProcessPoolExecutorConfig",
    "SinkConfig",
    "SourceConfig",
    "ThreadPoolExecutorConfig",
]


def __getattr__(name: str) -> object:
    raise missing(__name__, name)
