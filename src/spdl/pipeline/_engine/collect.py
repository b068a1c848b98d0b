"""The statistics of a running engine, read without its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._metrics.sample import sample_of
from spdl.pipeline._metrics.statistics import statistics_of
from spdl.pipeline._world import perf_counter

from .describe import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._metrics.head import PageHead
    from spdl.pipeline._metrics.sample import Sample
    from spdl.pipeline._metrics.statistics import PipelineStatistics
    from spdl.pipeline._metrics.stores import StoreCounts

    from .engine import Engine

__all__ = ["collect"]


def collect(engine: Engine, verdict: Callable[[PageHead, Sample, tuple[StoreCounts, ...]], str]) -> PipelineStatistics:
    """Read an engine's counters, without its lock.

    Args:
        engine: The engine.
        verdict: Says what limits it.
    """
    head = engine.head or describe(engine)
    now = 0.0
    if engine.started_at:
        now = engine.stopped_at or perf_counter()
        if engine.head is None:
            # Nobody else watches it.
            engine.describe(head)
    sample, stores = sample_of(engine, now), engine.stores.counts()
    return statistics_of(head, sample, stores, verdict(head, sample, stores))
