"""The work of a pipeline between two samples, for verdicts, tables and the tuner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdl.pipeline._report.sample import NOTHING, Counts

if TYPE_CHECKING:
    from spdl.pipeline._report.page import LoaderArguments, StageArguments


@dataclass(frozen=True, slots=True)
class Ending:
    """The last known state of a pipeline that no longer runs.

    Attributes:
        state: ``"killed"``, where its process is gone, or ``"ended"``.
        seconds: How long after its start its counters were written last.
        delivered: How many items the consumer had taken by then.
        at_work: The names of the sources and stages that were in use, and how many calls of each ran.
        oldest: How long the oldest call had run of each of these that is known, in seconds, if nothing else had moved
            for long while the consumer waited; otherwise empty.
    """

    state: str
    seconds: float
    delivered: int
    at_work: tuple[tuple[str, int], ...]
    oldest: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SourceWindow:
    """A source over a short time.

    Attributes:
        name: Its name.
        busy: The share of the time that its ``next()`` took, 0 to 1.
        rate: Items per second.
        oldest: How long the call that runs now has taken, in seconds; 0 if none runs.
        per_second: Its other counters, per second.

    Example:
        >>> import os
        >>> from spdl.observe import find_pipelines, watch
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(1000)).pipe(str).add_sink(2).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     item = pipeline.get_item()
        ...     window = watch(find_pipelines(os.getpid())[0], seconds=0.2)
        >>> window.sources[0].name, window.sources[0].oldest
        ('src', 0.0)
    """

    name: str
    busy: float
    rate: float
    oldest: float
    per_second: Counts = NOTHING


@dataclass(frozen=True, slots=True)
class StageWindow:
    """A stage over a short time.

    Attributes:
        name: Its name.
        op: Its op's name.
        gathers: Whether it makes one item of several.
        served_by: The op runs in ``"threads"`` of the pipeline, the event ``"loop"``, or an ``"executor"``.
        adjustable: Whether its concurrency can be changed.
        concurrency: How many slots it has.
        pool: How many workers its executor has for them, where these are the limit and not the slots; otherwise 0.
        occupancy: The share of its slots that was in use, in the mean, 0 to 1.
        rate: Items completed or given up per second.
        seconds: How many seconds an op takes that succeeds.
        cpu: The share of the ops' time in which they computed, 0 to 1.
        failing: The share of the ops that failed and were tried again, 0 to 1.
        lost: The share of the items that were given up because the op failed, 0 to 1.
        held: The share of the time in which it did not start because of an earlier item, 0 to 1.
        buffered: How many results wait for an earlier one now.
        oldest: How long the oldest op has run, in seconds; 0 if none runs.
        runs: The share of the looks at threads in its ops that saw them compute, or wait for a core. These three are 0
            together without a look.
        waits_for_thread: The share that saw them wait for another thread of the process.
        waits: The share that saw them wait for anything else.
        alone: The share of the looks at several threads in its ops that saw one go on and all others wait for a thread.
        sleeps: How often each of these threads went to sleep per second; None if unknown.
        processes: How many other processes its ops run in; 0 if they run in this one.
        copies: How many workers of a region run it, each with as many slots; 0 if it is in no region.
        arguments: The arguments of a ready-made loader that change it; None if the user declares it himself.
        per_second: Its other counters, per second.
        blocked: The share of the time in which it did not start since a result would have had no place, 0 to 1.
        glimpsed: The waits of its threads that a few looks saw, if all the rest is known from counters: ``"lock"``,
            if all but one waited for another thread, ``"threads"``, if all did, ``"I/O"``, if none did, or empty.

    Example:
        >>> import os
        >>> from spdl.observe import find_pipelines, watch
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(1000)).pipe(str).add_sink(2).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     item = pipeline.get_item()
        ...     window = watch(find_pipelines(os.getpid())[0], seconds=0.2)
        >>> window.stages[0].name, window.stages[0].concurrency, window.stages[0].failing
        ('str', 1, 0.0)
    """

    name: str
    op: str
    gathers: bool
    served_by: str
    adjustable: bool
    concurrency: int
    pool: int = 0
    occupancy: float = 0.0
    rate: float = 0.0
    seconds: float = 0.0
    cpu: float = 0.0
    failing: float = 0.0
    lost: float = 0.0
    held: float = 0.0
    buffered: int = 0
    oldest: float = 0.0
    runs: float = 0.0
    waits_for_thread: float = 0.0
    waits: float = 0.0
    alone: float = 0.0
    sleeps: float | None = None
    processes: int = 0
    copies: int = 0
    arguments: StageArguments | None = None
    per_second: Counts = NOTHING
    blocked: float = 0.0
    glimpsed: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """A pipeline over a short time.

    Attributes:
        seconds: How many seconds that was.
        num_threads: How many synchronous ops may run at once.
        busy_threads: How many threads of this pipeline were in ops, in the mean.
        cores: How many cores the process may use.
        gil: Whether its interpreter has a GIL.
        cores_used: How many cores the process used, in the mean.
        cores_used_by_others: How many of these were used by threads that are neither the main one nor belong to this
            pipeline or another one of the process.
        cores_waited_for: How many threads of the process waited for a core, in the mean.
        consumer_waits: The share of the time in which the consumer waited for an item, 0 to 1.
        consumer_waits_for: How many seconds the wait has lasted that goes on; 0 if none does.
        delivered: Items that it took per second.
        sink_size: How many items wait for it now.
        sink_capacity: How many may.
        sink_fill: How many of these places were taken in the mean, 0 to 1.
        sources: The sources.
        stages: The declared stages, in order.
        max_bytes: The bytes that the items in the pipeline may keep; 0 if they are not bounded.
        peak_bytes: The most bytes that they have kept since the start.
        short_of_bytes: The share of the time, not bytes, in which something was not made since it might not have
            fitted, 0 to 1.
        is_stopped: Whether a signal or a debugger had stopped the process all the time.
        region: The region of processes whose results take this process most time; empty without regions.
        region_cores: How much of a core the thread that takes them out used or waited for.
        loader: The arguments of the ready-made loader that runs it; None if the user declares it himself.
        cores_idle: How many of the cores that the process may use were unused, in the mean; infinite if unknown.
        ending: Its last known state, if it no longer runs and all of this covers the time since its start.
        world_size: How many ranks the job has.
        looked: Whether its threads were looked at. Counters alone do not tell what ops wait for.
        in_turns: Whether the consumer makes the items itself, or takes them out of processes, so that it does nothing
            else meanwhile.
        starting: The share of the time that went to the beginnings and the ends of iterations, 0 to 1, as of worker
            processes that start; the rest of this is of the time between them.
        profiled: Whether each stage was measured alone, as by ``spdl profile``, and all of this follows from that.

    Example:
        >>> import os
        >>> from spdl.observe import find_pipelines, watch
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(1000)).pipe(str).add_sink(2).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     item = pipeline.get_item()
        ...     window = watch(find_pipelines(os.getpid())[0], seconds=0.2)
        >>> window.sink_capacity, window.num_threads, window.looked
        (2, 1, True)
    """

    seconds: float
    num_threads: int
    busy_threads: float
    cores: float
    gil: bool
    cores_used: float
    cores_used_by_others: float = 0.0
    cores_waited_for: float = 0.0
    consumer_waits: float = 0.0
    consumer_waits_for: float = 0.0
    delivered: float = 0.0
    sink_size: int = 0
    sink_capacity: int = 1
    sink_fill: float = 0.0
    sources: tuple[SourceWindow, ...] = ()
    stages: tuple[StageWindow, ...] = ()
    max_bytes: int = 0
    peak_bytes: int = 0
    short_of_bytes: float = 0.0
    is_stopped: bool = False
    region: str = ""
    region_cores: float = 0.0
    loader: LoaderArguments | None = None
    cores_idle: float = math.inf
    ending: Ending | None = None
    world_size: int = 1
    looked: bool = True
    in_turns: bool = False
    starting: float = 0.0
    profiled: bool = False
