"""The statistics of a running engine, read without its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._declare.stage_info import SINK
from spdl.pipeline._metrics.counters import BLOCKED, STARVED, StageCounters
from spdl.pipeline._metrics.statistics import pipeline_statistics, stage_statistics
from spdl.pipeline._world import perf_counter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._metrics.statistics import PipelineStatistics, StageStatistics

    from .engine import Engine
    from .node import Node
    from .source import Source

__all__ = ["collect"]


def collect(engine: Engine) -> PipelineStatistics:
    """Read an engine's counters, without its lock."""
    now = elapsed = 0.0
    if engine.started_at:
        now = engine.stopped_at or perf_counter()
        elapsed = now - engine.started_at
    return pipeline_statistics(
        [_source(source, elapsed, now) for source in sorted(engine.sources, key=lambda source: source.index)],
        [_stage(node, elapsed, now) for node in engine.nodes if node.is_stage],
        _sink(engine, elapsed),
        elapsed=elapsed,
        thread_seconds=sum(map(_thread_seconds, engine.nodes)),
        in_flight=engine.lineage.num_out(),
        num_threads=engine.workers.num_threads,
        stores=engine.stores.counts(),
        edges=_edges(engine),
        memory=_memory(engine, now),
        slots=() if engine.loader is None else [stage.slot for stage in engine.loader.stages],
    )


def _memory(engine: Engine, now: float) -> tuple[int, int, int, float] | tuple[()]:
    budget = engine.budget
    return () if budget is None else (budget.limit, budget.bytes_now(), budget.peak, budget.seconds_waited(now))


def _edges(engine: Engine) -> list[tuple[int, int]]:
    """Return which part gives to which, as places among the sources, the declared stages and the sink."""
    parts: list[Source | Node] = [
        *sorted(engine.sources, key=lambda source: source.index),
        *(node for node in engine.nodes if node.is_stage),
    ]
    places = {part: place for place, part in enumerate(parts)}
    edges = [(giver, places[part]) for part in parts for giver in _givers(part.feeders, places)]
    every: list[Source | Node] = [*engine.sources, *engine.nodes]
    ends = [part for part in every if part.output is engine.sink]
    return [*edges, *((giver, len(parts)) for giver in _givers(ends, places))]


def _givers(feeders: Sequence[Source | Node], places: dict[Source | Node, int]) -> list[int]:
    found = []
    for feeder in feeders:
        # What is not declared only carries the results of others.
        found += [places[feeder]] if feeder in places else _givers(feeder.feeders, places)
    return found


def _source(source: Source, elapsed: float, now: float) -> StageStatistics:
    waits = [0.0, 0.0, 0.0]
    waits[BLOCKED] = source.blocked_seconds(now)
    return stage_statistics(
        source.name,
        source.counters,
        waits,
        concurrency=1,
        running=int(source.pulling),
        busy_seconds=source.busy_seconds(now),
        queue_size=0,
        queue_capacity=0,
        queue_fill=0.0,
        elapsed=elapsed,
        completed=source.counters.emitted,
    )


def _stage(node: Node, elapsed: float, now: float) -> StageStatistics:
    counters, running = node.counters, node.slots_in_use()
    taken = counters.completed + counters.failed + running
    capacity = node.capacity()
    return stage_statistics(
        node.name,
        counters,
        counters.waited(now),
        concurrency=node.concurrency,
        running=running,
        busy_seconds=counters.busy_seconds,
        queue_size=sum(channel.items() for channel in node.inputs()),
        queue_capacity=capacity,
        queue_fill=node.input.counters.fill / (taken * capacity) if taken else 0.0,
        elapsed=elapsed,
        has_tasks=node.has_tasks,
    )


def _thread_seconds(node: Node) -> float:
    """Return how long workers have run a stage's ops."""
    served = node.for_workers()
    if served is None or not served.on_workers:
        # The event loop's thread or the user's executor runs them.
        return 0.0
    return served.counters.busy_seconds - served.counters.awaited_seconds


def _sink(engine: Engine, elapsed: float) -> StageStatistics:
    sink = engine.sink
    waiting = sink.items()
    given = (
        engine.nodes[-1].counters.emitted if engine.nodes else sum(source.counters.emitted for source in engine.sources)
    )
    read = given - waiting
    waits = [0.0, 0.0, 0.0]
    waits[STARVED] = sink.counters.get_seconds
    return stage_statistics(
        SINK,
        StageCounters(),
        waits,
        concurrency=1,
        running=0,
        busy_seconds=0.0,
        queue_size=waiting,
        queue_capacity=sink.capacity,
        queue_fill=sink.counters.fill / (given * sink.capacity) if given else 0.0,
        elapsed=elapsed,
        completed=read,
        emitted=read,
    )
