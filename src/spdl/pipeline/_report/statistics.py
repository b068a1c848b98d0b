"""The statistics of a pipeline, and what does not change of it: the process, the stages, the loader's arguments.

Statistics and verdicts read what does not change, a `PipelineHead`, next to a `Sample`. The page has it in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from spdl.pipeline._declare.records import SINK
from spdl.pipeline._report.counters import StoreCounts
from spdl.pipeline._report.page import LoaderArguments
from spdl.pipeline._report.perf_stats import cumulative
from spdl.pipeline._report.sample import Counts, Sample, SourceSample, StageSample, shown_fields

_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class StageHead:
    """The constant facts of a stage.

    Attributes:
        name: Its name. Others of the pipeline may have the same.
        kind: The class that runs it.
        op: The op's name.
        served_by: The part that runs the op: ``"threads"`` of the pipeline, the event ``"loop"``, the user's
            ``"executor"``, or the ``"engine"`` itself.
        ordered: Whether its results come in the order of its items.
        adjustable: Whether its concurrency can be changed.
        declared: Whether the user has declared it.
        feeders: The parts that it takes items from: indices into the pipeline's parts, sources first.
        processes: How many other processes it hands items over to, or its op runs in; 0 if none.
        copies: How many workers of a region run it, each with as many slots; 0 if it is in no region.

    Example:
        >>> from spdl.observe import StageHead
        >>> StageHead("str", "FunctionNode", "str", "threads", False, True, True, (0,)).served_by
        'threads'
    """

    name: str
    kind: str
    op: str
    served_by: str
    ordered: bool
    adjustable: bool
    declared: bool
    feeders: tuple[int, ...]
    processes: int = 0
    copies: int = 0


@dataclass(frozen=True, slots=True)
class PageHead:
    """The constant facts of a running pipeline.

    Attributes:
        pid: The process.
        started_ticks: When the process began, in clock ticks since boot; 0 if unknown.
        pid_namespace: The inode of the namespace that the process's number is valid in; 0 if unknown.
        pipeline: The pipeline's number in the process.
        command: The command line of the process, without the interpreter and its options, and shortened.
        ranks: The variables with its place in the job that its launcher has set, such as ``LOCAL_RANK``.
        cores: How many cores the process may use.
        gil: Whether its interpreter has a GIL.
        sources: The names of the sources.
        stages: The stages.
        loader: The arguments of the ready-made loader that runs it; None if the program declares the pipeline itself.

    Example:
        >>> import os, time
        >>> from spdl.observe import find_pipelines
        >>> from spdl.pipeline import PipelineBuilder
        >>> endless = iter(int, 1)
        >>> with PipelineBuilder().add_source(endless).pipe(str).add_sink(2).build(num_threads=1).auto_stop() as own:
        ...     first = own.get_item()
        ...     head = find_pipelines(os.getpid())[0].head
        >>> head.pid == os.getpid(), head.sources
        (True, ('src',))
        >>> [(stage.name, stage.served_by, stage.feeders) for stage in head.stages]
        [('str', 'threads', (0,))]
    """

    pid: int
    started_ticks: int
    pid_namespace: int
    pipeline: int
    command: tuple[str, ...]
    ranks: dict[str, str]
    cores: float
    gil: bool
    sources: tuple[str, ...]
    stages: tuple[StageHead, ...]
    loader: LoaderArguments | None = None

    @property
    def world_size(self) -> int:
        """How many ranks its job has; 1 if its launcher has not told."""
        return self._told("WORLD_SIZE")

    @property
    def local_world_size(self) -> int:
        """How many of these run on its machine; 1 if its launcher has not told."""
        return self._told("LOCAL_WORLD_SIZE")

    def _told(self, name: str) -> int:
        told = self.ranks.get(name, "")
        # No launcher writes digits of other scripts, or a number that is too long.
        return max(1, int(told)) if told.isascii() and told.isdecimal() and len(told) <= _MOST_DIGITS else 1


def declared_stages(head: PageHead) -> list[int]:
    return [index for index, stage in enumerate(head.stages) if stage.declared]


def edges_of(head: PageHead) -> tuple[tuple[int, int], ...]:
    """Return the graph: pairs of places among the sources, the declared stages and the sink."""
    first = len(head.sources)
    parts = [*range(first), *(first + index for index in declared_stages(head))]
    places = {part: place for place, part in enumerate(parts)}

    def givers(feeders: Iterable[int]) -> Iterator[int]:
        for feeder in feeders:
            # A stage that is not declared only carries the results of others.
            yield from (places[feeder],) if feeder in places else givers(head.stages[feeder - first].feeders)

    fed = {feeder for stage in head.stages for feeder in stage.feeders}
    ends = [part for part in range(first + len(head.stages)) if part not in fed]
    edges = [(giver, places[part]) for part in parts[first:] for giver in givers(head.stages[part - first].feeders)]
    return (*edges, *((giver, len(parts)) for giver in givers(ends)))


def unpack_head(about: Mapping[str, Any]) -> PageHead:
    """Return the head that `dataclasses.asdict` has packed.

    It raises AttributeError, KeyError, OverflowError, TypeError or ValueError for anything else.
    """
    sources, stages, loader = about["sources"], about["stages"], about.get("loader")
    parts = len(sources) + len(stages)
    return PageHead(
        **_plain(PageHead, about),
        command=tuple(map(str, about["command"])),
        ranks={str(name): str(rank) for name, rank in about["ranks"].items()},
        sources=tuple(map(str, sources)),
        stages=tuple(_stage_head(stage, parts) for stage in stages),
        loader=None if loader is None else LoaderArguments.unpack(loader),
    )


def _stage_head(about: Mapping[str, Any], parts: int) -> StageHead:
    feeders = tuple(map(int, about["feeders"]))
    if not all(0 <= feeder < parts for feeder in feeders):
        raise ValueError("a stage takes items from what is not there")
    return StageHead(**_plain(StageHead, about), feeders=feeders)


_TYPES: dict[Any, Callable[[Any], Any]] = {"int": int, "float": float, "bool": bool, "str": str}


def _plain(kind: type[Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a head that are numbers, flags and strings, of the type that they have there."""
    return {each.name: _TYPES[each.type](about[each.name]) for each in fields(kind) if each.type in _TYPES}


# The waits of stages, by their reasons.
_WAITS = ("starved_seconds", "blocked_seconds", "held_seconds")


@dataclass(frozen=True, slots=True)
class StageStatistics(Counts):
    """The counts and times of one stage since the start.

    Besides those below, ``bytes_read``: the bytes that its ops, or the source's ``next()``, have read from stores of
    `spdl.store` on other machines.

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
            512 if they follow each other quickly, and stand for the others. 0 for async ops, and in executors that
            are neither a ThreadPoolExecutor nor a ProcessPoolExecutor.
        starved_seconds: Time in which a slot was free and no item waited. If one comes while all threads are busy, this
            ends when one of them takes it. For the sink, time that reads waited for an item, the one that waits now not
            included.
        blocked_seconds: Time in which a slot was free and an item waited, but a result would have had no place; for the
            source, time in which it was not asked for an item.
        held_seconds: Time in which a slot was free and an item waited, but too many results waited for an earlier one.
        queue_size: Items that wait in front of the stage now; for the sink, items to be read. It may exceed the
            capacity by the slots of the stage before. Here and elsewhere, the ends of epochs do not count.
        queue_capacity: How many may wait there apart from those that hold slots of the stage before; 0 for the source.
            For a stage that merges, both are sums over all branches.
        queue_fill: Average share of that capacity in use when an item was taken (for the sink: put), 0 to 1.
        elapsed: Seconds since the pipeline's start.
        task_seconds: The part of ``busy_seconds`` in tasks that did not raise.
        durations: Pairs of a number of seconds, from a microsecond to a minute and then 36 hours, and how many of these
            tasks took less; the last one is of all of them. If ops take less than 50 microseconds and follow each
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
    concurrency: int = 1
    num_completed: int = 0
    num_emitted: int = 0
    num_failed: int = 0
    num_dropped: int = 0
    num_retried: int = 0
    num_overdue: int = 0
    running: int = 0
    busy_seconds: float = 0.0
    cpu_seconds: float = 0.0
    starved_seconds: float = 0.0
    blocked_seconds: float = 0.0
    held_seconds: float = 0.0
    queue_size: int = 0
    queue_capacity: int = 0
    queue_fill: float = 0.0
    elapsed: float = 0.0
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
        in_flight: Source items handed out that are still under way or unread, also in part.
        bottleneck: One sentence: what limits the throughput, and how one can tell. It is made when it is first read. If
            counters alone do not tell what threads wait for, a running pipeline's threads are looked at then, for some
            milliseconds. If reading is a part of the limit, and a store repeats many of its requests or keeps little of
            what it reads, a second sentence says so.
        stores: The counts that each store of `spdl.store` in this process has counted in the meantime, no matter who
            read from it; those that did nothing, and those that count nothing, are left out.
        edges: The graph: pairs of places in ``stages``, of one that passes results on and one that takes them.
        max_bytes: The bytes that the items in the pipeline may keep, as ``max_bytes`` of `PipelineBuilder.build` says;
            0 if they are not bounded and not weighed.
        bytes_in_flight: The bytes that they keep now. Items that you have read do not count.
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


class _MadeWhenRead:
    """A slot that holds a str, or a function that returns one when it is first read."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def __get__(self, its: PipelineStatistics | None, kind: type[PipelineStatistics]) -> Any:
        said: str | Callable[[], str] = self._slot.__get__(its, kind)
        if its is not None and callable(said):
            said = said()
            self._slot.__set__(its, said)
        return said

    def __set__(self, its: PipelineStatistics, said: str | Callable[[], str]) -> None:
        self._slot.__set__(its, said)


# Most of those who read counts read no sentence, which takes twice as long to make as all the rest.
_SENTENCE = "bottleneck"
setattr(PipelineStatistics, _SENTENCE, _MadeWhenRead(getattr(PipelineStatistics, _SENTENCE)))


def statistics_of(
    head: PageHead, its: Sample, stores: tuple[StoreCounts, ...], bottleneck: Callable[[], str]
) -> PipelineStatistics:
    """Return the statistics of a pipeline. ``bottleneck`` is called when that is read."""
    elapsed = its.now - its.started_at if its.started_at else 0.0
    sources = [_source(name, each, elapsed, its.now) for name, each in zip(head.sources, its.sources, strict=True)]
    stages = [_stage(head.stages[index].name, its.stages[index], elapsed, its.now) for index in declared_stages(head)]
    sink = _sink(its, elapsed)
    return PipelineStatistics(
        elapsed,
        (*sources, *stages, sink),
        int(its.in_flight),
        cast("str", bottleneck),
        stores,
        edges_of(head),
        int(its.max_bytes),
        int(its.bytes_in_flight),
        int(its.peak_bytes),
        its.seconds_short_of_bytes,
    )


# The counters that statistics repeat unchanged: the name and type there, and its name in samples.
_AS_COUNTED: list[tuple[str, type[Any], str]] = [
    (field.statistic, type(default.default), field.name)
    for field in shown_fields(StageSample)
    for default in fields(StageStatistics)
    if default.name == field.statistic
]
_OF_SOURCES = [each for each in _AS_COUNTED if each[0] in {field.name for field in fields(Counts)}]


def _source(name: str, its: SourceSample, elapsed: float, now: float) -> StageStatistics:
    return StageStatistics(
        name=name,
        elapsed=elapsed,
        num_completed=int(its.emitted),
        num_emitted=int(its.emitted),
        running=int(its.pulling_since > 0),
        busy_seconds=its.busy_seconds + (max(0.0, now - its.pulling_since) if its.pulling_since else 0.0),
        blocked_seconds=its.blocked_seconds,
        **{name: kind(getattr(its, field)) for name, kind, field in _OF_SOURCES},
    )


def _stage(name: str, its: StageSample, elapsed: float, now: float) -> StageStatistics:
    counted = {name: kind(getattr(its, field)) for name, kind, field in _AS_COUNTED}
    if its.waiting_since:
        counted[_WAITS[int(its.waiting_for)]] += max(0.0, now - its.waiting_since)
    places = (its.completed + its.failed + its.running) * its.capacity
    return StageStatistics(
        name=name,
        elapsed=elapsed,
        queue_fill=min(1.0, its.fill / places) if places else 0.0,
        task_seconds=max(0.0, its.busy_seconds - its.other_seconds) if its.times else 0.0,
        durations=cumulative(its.times) if its.times else (),
        **counted,
    )


def _sink(its: Sample, elapsed: float) -> StageStatistics:
    places = its.given * its.sink_capacity
    return StageStatistics(
        name=SINK,
        elapsed=elapsed,
        num_completed=int(its.delivered),
        num_emitted=int(its.delivered),
        starved_seconds=its.consumer_waited,
        queue_size=int(its.given - its.delivered),
        queue_capacity=int(its.sink_capacity),
        queue_fill=min(1.0, its.sink_fill / places) if places else 0.0,
    )
