"""The statistics of a running engine, read without its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._metrics.sample import sample_of
from spdl.pipeline._metrics.statistics import statistics_of
from spdl.pipeline._world import perf_counter

from .describe import describe

if TYPE_CHECKING:
    from spdl.pipeline._metrics.statistics import PipelineStatistics

    from .engine import Engine

__all__ = ["collect"]


def collect(engine: Engine) -> PipelineStatistics:
    """Read an engine's counters, without its lock."""
    head = engine.head or describe(engine)
    now = 0.0
    if engine.started_at:
        now = engine.stopped_at or perf_counter()
        if engine.head is None:
            # Nobody else watches it.
            engine.describe(head)
    return statistics_of(head, sample_of(engine, now), engine.stores.counts())
