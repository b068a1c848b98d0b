"""What a pipeline's page says at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Observation", "SourceObservation", "StageObservation", "ThreadObservation"]


class SourceObservation(NamedTuple):
    """What a source has done since the start.

    Example:
        >>> import os, time
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> endless = iter(int, 1)
        >>> with PipelineBuilder().add_source(endless).pipe(str).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     time.sleep(0.2)
        ...     (pipeline,) = find_pipelines(os.getpid())
        ...     (source,) = pipeline.observe().sources
        >>> source.emitted >= 3, source.pulling_since
        (True, 0.0)
    """

    emitted: float
    """Items handed out."""
    busy_seconds: float
    """Time in its ``next()``, without the call that runs now."""
    pulling_since: float
    """When that call began, as ``time.perf_counter()`` tells it; 0 if none runs."""
    blocked_seconds: float
    """Time in which it was not asked for an item, since there was no place for one."""


class StageObservation(NamedTuple):
    """What a stage has done since the start. The counts are those of `spdl.pipeline.StageStatistics`.

    Example:
        >>> import os, time
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> endless = iter(int, 1)
        >>> with PipelineBuilder().add_source(endless).pipe(str).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     time.sleep(0.2)
        ...     (pipeline,) = find_pipelines(os.getpid())
        ...     (stage,) = pipeline.observe().stages
        >>> stage.concurrency, stage.failed, stage.completed >= 3
        (1.0, 0.0, True)
    """

    concurrency: float
    """How many items it may work on at once."""
    running: float
    """On how many it works."""
    queued: float
    """Items that wait in front of it. They may be more than the capacity by the slots of the stage before, since what
    it has finished and has no place for keeps its slot."""
    capacity: float
    """How many may wait there besides those."""
    completed: float
    """Items whose op ended without raising."""
    emitted: float
    """Results passed on."""
    failed: float
    """Items given up."""
    dropped: float
    """Results dropped because they were None."""
    retried: float
    """Attempts that failed and were followed by another."""
    overdue: float
    """Ops that took longer than the stage's timeout."""
    buffered: float
    """Results that wait for an earlier one, where the stage keeps the order."""
    busy_seconds: float
    """Time in ops that have ended."""
    cpu_seconds: float
    """CPU time of the threads in them."""
    other_seconds: float
    """The part of ``busy_seconds`` that is not time of tasks that succeeded."""
    starved_seconds: float
    """Time in which a slot was free and no item waited."""
    blocked_seconds: float
    """Time in which a slot was free and an item waited, but its result would have had no place."""
    held_seconds: float
    """Time in which a slot was free and an item waited, but too many results waited for an earlier one."""
    waiting_for: float
    """Which of these three waits goes on, counted from 0, if ``waiting_since`` is not 0."""
    waiting_since: float
    """When it began, as ``time.perf_counter()`` tells it. Those three do not include it."""


class ThreadObservation(NamedTuple):
    """What a thread that runs ops does.

    Example:
        >>> import os, time
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> endless = iter(int, 1)
        >>> with PipelineBuilder().add_source(endless).pipe(str).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     time.sleep(0.2)
        ...     (pipeline,) = find_pipelines(os.getpid())
        ...     threads = pipeline.observe().threads
        >>> [thread.part for thread in threads]
        [None, None]
    """

    thread: int
    """Its number in the system, which is that of a folder in ``/proc/PID/task``."""
    part: int | None
    """An index into the pipeline's parts, sources first, of the one that has the code that it runs. None if it is idle.
    Ops that take less than 50 microseconds are not all noted, so it may be one that it ran before."""
    since: float
    """When that began, as ``time.perf_counter()`` tells it."""
    identity: int
    """What ``threading.get_ident()`` returns in it."""
    position: int | None
    """The position, in its source, of the item that the op got, or of the first that this one was made of. None if it
    runs no op."""
    source: int | None
    """The index of that source."""
    is_whole: bool
    """Whether the op got an item of the source, and not a batch or one of several results of an item."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a pipeline's page says at one moment. All times are those of ``time.perf_counter()``.

    The counts and durations are those at ``now``: where nothing happens, nothing is written.

    Attributes:
        now: When the counters were written.
        started_at: When the pipeline was started.
        stopped_at: When it was asked to stop; 0 if it was not.
        num_threads: How many synchronous ops may run at once.
        idle: How many threads wait for work.
        abandoned: How many threads are in ops whose items were given up.
        in_flight: Source items handed out of which something is still under way or unread.
        failures: Items given up in all stages.
        epochs_read: How many epochs the consumer has seen the end of.
        sink_size: Results that wait to be read; those included that hold slots of the last stage.
        sink_capacity: How many may besides those.
        delivered: Results that the consumer has taken.
        consumer_waited: Seconds that it has waited for them, without the wait that goes on.
        max_bytes: The bytes that the items in the pipeline may keep; 0 if they are not bounded and not weighed.
        bytes_in_flight: The bytes that they keep.
        peak_bytes: The most bytes that they have kept.
        seconds_short_of_bytes: Seconds, not bytes, in which something was not made since it might not have fitted,
            until ``now``.
        consumer_waiting_since: When the consumer's wait began; 0 if none goes on.
        sources: The sources, in the order of declaration.
        stages: The stages, each behind all that feed it.
        threads: The threads that run ops.

    Example:
        >>> import os, time
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> endless = iter(int, 1)
        >>> with PipelineBuilder().add_source(endless).pipe(str).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     time.sleep(0.2)
        ...     (pipeline,) = find_pipelines(os.getpid())
        ...     seen = pipeline.observe()
        >>> seen.sink_capacity, seen.delivered, seen.num_threads
        (2.0, 1.0, 1.0)
    """

    now: float
    started_at: float
    stopped_at: float
    num_threads: float
    idle: float
    abandoned: float
    in_flight: float
    failures: float
    epochs_read: float
    sink_size: float
    sink_capacity: float
    delivered: float
    consumer_waited: float
    max_bytes: float
    bytes_in_flight: float
    peak_bytes: float
    seconds_short_of_bytes: float
    consumer_waiting_since: float
    sources: tuple[SourceObservation, ...]
    stages: tuple[StageObservation, ...]
    threads: tuple[ThreadObservation, ...]
