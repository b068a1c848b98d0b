"""The statistics of a pipeline: counts and times of each stage, and the stage that limits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .bottleneck import bottleneck
from .counters import BLOCKED, HELD, STARVED
from .durations import cumulative
from .stores import trouble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .counters import StageCounters
    from .stores import StoreCounts

__all__ = ["PipelineStatistics", "StageStatistics", "pipeline_statistics", "stage_statistics"]


@dataclass(frozen=True, slots=True)
class StageStatistics:
    """The counts and times of one stage since the start.

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
        starved_seconds: Time in which a slot was free and no item waited. If one comes while all threads are busy, this
            ends when one of them takes it. For the sink, time that reads waited for an item, the one that waits now not
            included.
        blocked_seconds: Time in which a slot was free and an item waited, but a result would have had no place; for the
            source, time in which it was not asked for an item.
        held_seconds: Time in which a slot was free and an item waited, but too many results waited for an earlier one.
        queue_size: Items that wait in front of the stage now; for the sink, items to be read. It may exceed the
            capacity by the slots of the stage before. Here and elsewhere, the ends of epochs do not count.
        queue_capacity: How many may wait there besides those that hold slots of the stage before; 0 for the source. Of
            a stage that merges, both are those of all branches.
        queue_fill: Average share of that capacity in use when an item was taken (for the sink: put), 0 to 1.
        elapsed: Seconds since the pipeline's start.
        task_seconds: The part of ``busy_seconds`` in tasks that did not raise.
        durations: Pairs of a number of seconds, from a microsecond to a minute and then 36 hours, and how many of these
            tasks took less; the last one is of all of them. Where ops take less than 50 microseconds and follow each
            other as fast, some are measured and stand for the others. Empty for sources and the sink.

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
    task_seconds: float = 0.0
    durations: tuple[tuple[float, int], ...] = ()

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
    """The counts and times of a pipeline since its start.

    Attributes:
        elapsed: Seconds from the start until now, or until the end.
        stages: The sources in the order of declaration, the stages from the sources to the sink, and the sink.
        in_flight: Source items handed out of which something is still under way or unread.
        bottleneck: One sentence: what limits the throughput, and how one can tell. If reading is a part of that, and a
            store repeats many of its requests or keeps little of what it reads, a second sentence says so.
        stores: What each store of `spdl.store` in this process has counted meanwhile, whoever read from it; those that
            did nothing, and those that count nothing, are left out.
        edges: The graph: pairs of places in ``stages``, of one that passes results on and one that takes them.
        max_bytes: The bytes that the items in the pipeline may keep, as ``max_bytes`` of `PipelineBuilder.build` says;
            0 if they are not bounded and not weighed.
        bytes_in_flight: The bytes that they keep now. What you have read does not count.
        peak_bytes: The most bytes that they have kept.
        seconds_short_of_bytes: Seconds, not bytes, in which something was not made since it might not have fitted.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> builder = PipelineBuilder().add_source(range(4)).pipe(str).add_sink()
        >>> with builder.build(num_threads=1).auto_stop() as pipeline:
        ...     statistics = list(pipeline) and pipeline.statistics()
        >>> [stage.name for stage in statistics.stages], statistics.in_flight
        (['src', 'str', 'sink'], 0)
        >>> statistics.edges
        ((0, 1), (1, 2))
    """

    elapsed: float
    stages: tuple[StageStatistics, ...]
    in_flight: int
    bottleneck: str
    stores: tuple[StoreCounts, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    max_bytes: int = 0
    bytes_in_flight: int = 0
    peak_bytes: int = 0
    seconds_short_of_bytes: float = 0.0


def pipeline_statistics(
    sources: Sequence[StageStatistics],
    stages: Sequence[StageStatistics],
    sink: StageStatistics,
    *,
    elapsed: float,
    in_flight: int,
    num_threads: int,
    thread_seconds: float,
    stores: tuple[StoreCounts, ...],
    edges: Sequence[tuple[int, int]],
    memory: tuple[int, int, int, float] | tuple[()] = (),
    slots: Sequence[str] = (),
) -> PipelineStatistics:
    """Return the statistics of a pipeline, made of those of its parts.

    Args:
        sources: The sources in the order of declaration.
        stages: The stages from the sources to the sink.
        sink: The sink.
        elapsed: Seconds from the start until now, or until the end.
        in_flight: Source items handed out of which something is still under way or unread.
        num_threads: How many synchronous ops may run at once.
        thread_seconds: Time that these threads spent in ops.
        stores: What stores have counted since the start.
        edges: Pairs of places among all of these, of one that passes results on and one that takes them.
        memory: The last four fields, if the bytes in flight are bounded.
        slots: What the user of a ready-made loader calls the slots of each stage.
    """
    verdict = bottleneck(
        sources,
        stages,
        sink,
        elapsed=elapsed,
        num_threads=num_threads,
        thread_seconds=thread_seconds,
        reading=trouble(stores),
        max_bytes=memory[0] if memory else 0,
        seconds_short_of_bytes=memory[3] if memory else 0.0,
        slots=slots,
    )
    return PipelineStatistics(elapsed, (*sources, *stages, sink), in_flight, verdict, stores, tuple(edges), *memory)


def stage_statistics(
    name: str,
    counters: StageCounters,
    waits: Sequence[float],
    *,
    concurrency: int,
    running: int,
    busy_seconds: float,
    queue_size: int,
    queue_capacity: int,
    queue_fill: float,
    elapsed: float,
    completed: int | None = None,
    emitted: int | None = None,
    has_tasks: bool = False,
) -> StageStatistics:
    """Return the statistics of a source, a stage or the sink: this is the one place that makes them.

    Args:
        name: Its name.
        counters: Its record.
        waits: Seconds in which a free slot was not used, by reason, as `StageCounters.waited` returns them.
        concurrency: How many items it may work on at once now.
        running: On how many it works now.
        busy_seconds: Time in ops, or in the source's ``next()``.
        queue_size: How many items wait in front of it now.
        queue_capacity: How many may.
        queue_fill: The sum of how many waited each time one was taken, divided by the capacity and how often one was.
        elapsed: Seconds since the start.
        completed: How many items it has completed, where its record does not count that.
        emitted: How many it has passed on, likewise.
        has_tasks: Whether its record counts tasks.
    """
    return StageStatistics(
        name=name,
        concurrency=concurrency,
        num_completed=counters.completed if completed is None else completed,
        num_emitted=counters.emitted if emitted is None else emitted,
        num_failed=counters.failed,
        num_dropped=counters.dropped,
        num_retried=counters.retried,
        num_overdue=counters.overdue,
        running=running,
        busy_seconds=busy_seconds,
        cpu_seconds=counters.cpu_seconds,
        starved_seconds=waits[STARVED],
        blocked_seconds=waits[BLOCKED],
        held_seconds=waits[HELD],
        queue_size=queue_size,
        queue_capacity=queue_capacity,
        queue_fill=min(1.0, queue_fill),
        elapsed=elapsed,
        task_seconds=max(0.0, counters.busy_seconds - counters.other_seconds) if has_tasks else 0.0,
        durations=cumulative(counters.times.counts) if has_tasks else (),
    )
