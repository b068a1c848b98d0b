"""What a pipeline says of itself: counts and times per stage, and the stage that limits it."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from spdl.pipeline._engine.node import BLOCKED, EDGE_CAPACITY, HELD, STARVED

from .bottleneck import bottleneck

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._engine.source import Source

__all__ = ["SINK", "PipelineStatistics", "StageStatistics", "collect"]

SINK = "sink"


@dataclass(frozen=True, slots=True)
class StageStatistics:
    """What one stage has done since the start.

    Attributes:
        name: The stage's name. The ends are ``src`` (``src[0]`` and so on if there are several) and ``sink``; the
            stage that merges pipelines is ``merge``, and the one that merges the paths of a fork ``path_variants``
            is ``path_variants_merge``.
        concurrency: How many items it may work on at once now: as declared, or as `Pipeline.set_concurrency` said last.
        num_completed: Items whose op ended without raising.
        num_emitted: Results passed on.
        num_failed: Items given up: the op or a hook raised, took too long with ``on_timeout="drop"``, or the item could
            not be sent to a process.
        num_dropped: Results dropped because they were None.
        num_retried: Attempts that failed and were followed by another.
        num_overdue: Ops that took longer than the stage's timeout.
        running: Slots in use now: by ops that run, or wait in an executor other than a ThreadPoolExecutor, generators
            between two results, and items that wait for a retry.
        busy_seconds: Time spent in ops that have ended, summed over concurrent ones; for the source, in its ``next()``,
            the call that runs now included. In executors that are neither a ThreadPoolExecutor nor a
            ProcessPoolExecutor and run their calls in other processes, what an op waits there and its way there and
            back count as well.
        cpu_seconds: CPU time of the threads in ops. Of ops under 50 microseconds only some are measured, up to one in
            512 where they follow each other quickly, and stand for the others. 0 for async ops, and in executors that
            are neither a ThreadPoolExecutor nor a ProcessPoolExecutor.
        starved_seconds: Time in which a slot was free and no item waited.
        blocked_seconds: Time in which a slot was free and an item waited, but a result would have had no place; for the
            source, time in which it was not asked for an item.
        held_seconds: Time in which a slot was free and an item waited, but too many results waited for an earlier one.
        queue_size: Items that wait in front of the stage now; for the sink, items to be read.
        queue_capacity: How many may wait there besides those that hold slots of the stage before; 0 for the source.
        queue_fill: Average share of that capacity in use when an item was taken (for the sink: put), 0 to 1.
        elapsed: Seconds since the pipeline's start.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> builder = PipelineBuilder().add_source(range(4)).pipe(lambda x: x or None, name="keep").add_sink()
        >>> with builder.build(num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [1, 2, 3]
        >>> source, keep, sink = pipeline.statistics().stages
        >>> keep.num_completed, keep.num_emitted, keep.num_dropped, keep.num_failed
        (4, 3, 1, 0)
    """

    name: str
    concurrency: int
    num_completed: int
    num_emitted: int
    num_failed: int
    num_dropped: int
    num_retried: int
    num_overdue: int
    running: int
    busy_seconds: float
    cpu_seconds: float
    starved_seconds: float
    blocked_seconds: float
    held_seconds: float
    queue_size: int
    queue_capacity: int
    queue_fill: float
    elapsed: float

    @property
    def items_per_second(self) -> float:
        """Results passed on per second since the start."""
        return self.num_emitted / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def busy_share(self) -> float:
        """The share of its slots' time that the stage spent in ops, 0 to 1, had it had all of them from the start."""
        offered = self.elapsed * self.concurrency
        return min(1.0, self.busy_seconds / offered) if offered > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PipelineStatistics:
    """What a pipeline has done since its start.

    Attributes:
        elapsed: Seconds from the start until now, or until the end.
        stages: The sources in the order of declaration, the stages from the sources to the sink, and the sink.
        in_flight: Source items handed out of which something is still under way or unread.
        bottleneck: One sentence: what limits the throughput, and how one can tell.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> builder = PipelineBuilder().add_source(range(4)).pipe(str).add_sink()
        >>> with builder.build(num_threads=1).auto_stop() as pipeline:
        ...     statistics = list(pipeline) and pipeline.statistics()
        >>> [stage.name for stage in statistics.stages], statistics.in_flight
        (['src', 'str', 'sink'], 0)
    """

    elapsed: float
    stages: tuple[StageStatistics, ...]
    in_flight: int
    bottleneck: str


def collect(engine: Engine) -> PipelineStatistics:
    """Read an engine's counters, without its lock."""
    if not engine.started_at:
        elapsed = now = 0.0
    else:
        now = engine.stopped_at or perf_counter()
        elapsed = now - engine.started_at
    inner = [_stage(node, elapsed, now) for node in engine.nodes if node.is_stage]
    sources = [_source(source, elapsed, now) for source in sorted(engine.sources, key=lambda source: source.index)]
    sink = _sink(engine, elapsed)
    verdict = bottleneck(sources, inner, sink, elapsed=elapsed, num_threads=engine.num_threads)
    return PipelineStatistics(elapsed, (*sources, *inner, sink), len(engine.lineage.open), verdict)


def _source(source: Source, elapsed: float, now: float) -> StageStatistics:
    pulled = source.position
    pulling = source.pulling
    busy = source.busy_seconds + (max(0.0, now - source.pulling_since) if pulling else 0.0)
    # It is pulled whenever there is a place for its item, so the rest of the time it was held back.
    idle = max(0.0, min(now, source.ended_at or now) - source.engine.started_at - busy)
    return StageStatistics(
        source.name, 1, pulled, pulled, 0, 0, 0, 0, int(pulling), busy, 0.0, 0.0, idle, 0.0, 0, 0, 0.0, elapsed
    )


def _stage(node: Node, elapsed: float, now: float) -> StageStatistics:
    waits = list(node.waits)
    since = node.waiting_since
    if since and now > since:
        waits[node.waiting_for] += now - since
    taken = node.completed + node.failed + node.running
    capacity = EDGE_CAPACITY
    return StageStatistics(
        name=node.name,
        concurrency=node.slots,
        num_completed=node.completed,
        num_emitted=node.emitted,
        num_failed=node.failed,
        num_dropped=node.dropped,
        num_retried=node.retried,
        num_overdue=node.overdue,
        running=node.running,
        busy_seconds=node.busy_seconds,
        cpu_seconds=node.cpu_seconds,
        starved_seconds=waits[STARVED],
        blocked_seconds=waits[BLOCKED],
        held_seconds=waits[HELD],
        queue_size=node.queued(),
        queue_capacity=capacity,
        queue_fill=min(1.0, node.fill / (taken * capacity)) if taken else 0.0,
        elapsed=elapsed,
    )


def _sink(engine: Engine, elapsed: float) -> StageStatistics:
    waiting = len(engine.sink.entries)
    last = engine.nodes[-1].emitted if engine.nodes else sum(source.position for source in engine.sources)
    read = last - waiting
    fill = min(1.0, engine.sink.fill / (last * engine.sink.size)) if last else 0.0
    return StageStatistics(
        SINK, 1, read, read, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, waiting, engine.sink.size, fill, elapsed
    )
