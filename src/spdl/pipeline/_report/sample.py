"""The one description of what is counted: where the engine has each number, and how it is reported.

A `Sample` is all of it at one moment. The engine's counters, the shared page, the messages of a region's workers,
statistics, exporters, reports and commands take the names, the order and the meaning of the numbers from the fields
here. So a new counter is a slot of `StageCounters`, which the code that counts it adds to, and one line among `Counts`:
then it is on the page, in ``statistics()``, in `spdl top`, in the exporters and in reports, for what runs in other
processes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast

from spdl.pipeline._report.counters import BLOCKED, HELD, STARVED, StageCounters
from spdl.pipeline._world import perf_counter

_T = TypeVar("_T", bound="Counts")


# The parts of a pipeline that have a shown value: sources, stages and the sink; these without the sink; those that take
# from a queue; the pipeline; the pipeline if its bytes are bounded; its consumer.
STAGES, OPS, QUEUES, PIPELINE, BUDGET, CONSUMER = "stages", "ops", "queues", "pipeline", "budget", "consumer"


class Shown(NamedTuple):
    """How programs that know nothing of a counter show it.

    Attributes:
        metric: Its name by OpenTelemetry's conventions: singular, without the unit. Fields may share one, each with
            a direction.
        unit: Its unit by UCUM; one in braces is what is counted.
        description: Its description.
        column: The heading of its total in a report; followed by "/s", the heading of its rate in `spdl top`. Empty if
            they show it otherwise.
        scalar: Its name in TensorBoard, if it is shown there. A counter shows the change since the last step:
            divided by the time for a rate ``..._per_second``, and by the time of all slots if it counts seconds.
        statistic: Its name in the statistics, if it has another one there.
        where: The parts that have it.
        direction: The label that tells apart the fields of a metric.
    """

    metric: str
    unit: str
    description: str
    column: str = ""
    scalar: str = ""
    statistic: str = ""
    where: str = OPS
    direction: str = ""


class _FieldRule(NamedTuple):
    """How a field of a sample is read, where it is found, and how it is shown.

    It is read by an expression of a stage, a source or the engine (``it``), of the counters of the first two
    (``counted``), and of the time (``now``); by its name in the counters if that is None.
    """

    read: str | None
    on_page: bool
    is_total: bool
    shown: Shown | None


def _total(read: str | None = None, *, on_page: bool = True, shown: Shown | None = None) -> Any:
    return field(default=0.0, metadata={"rule": _FieldRule(read, on_page, is_total=True, shown=shown)})


def _now(read: str, *, on_page: bool = True, default: Any = 0.0, shown: Shown | None = None) -> Any:
    return field(default=default, metadata={"rule": _FieldRule(read, on_page, is_total=False, shown=shown)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of a source or stage, under the names that samples, statistics, windows and exporters share.

    Attributes:
        bytes_read: Bytes that the ops, or the source's ``next()``, have read from stores of `spdl.store` on other
            machines. Reads in threads or event loops that an op started itself are not counted.
    """

    bytes_read: float = _total(
        shown=Shown(
            "spdl.stage.read",
            "By",
            "Bytes that its ops have read from stores on other machines.",
            "read",
            "bytes_read_per_second",
        )
    )


NOTHING = Counts()
"""The counts of a part that has done nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSample(Counts):
    """The counts of a source since the start; see `Sample`.

    Example:
        >>> from spdl.observe import SourceObservation
        >>> SourceObservation(emitted=12, busy_seconds=0.3).emitted
        12
    """

    emitted: float = _total()
    """Items handed out."""
    busy_seconds: float = _total()
    """Time in its ``next()``, without the call that runs now."""
    pulling_since: float = _now("it.pulling_since if it.pulling else 0.0")
    """When that call began, as ``time.perf_counter()`` tells it; 0 if none runs."""
    blocked_seconds: float = _total("it.blocked_seconds(now)")
    """Time in which it was not asked for an item, since there was no place for one."""


_WAIT = "Time with a free slot that waited for an item (input), for a place (output) or for an earlier item (order)."


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSample(Counts):
    """The counts of a stage since the start, with the meanings of `spdl.pipeline.StageStatistics`; see `Sample`.

    Example:
        >>> from spdl.observe import StageObservation
        >>> StageObservation(completed=12, failed=1).completed
        12
    """

    completed: float = _total(
        shown=Shown(
            "spdl.stage.items",
            "{item}",
            "Items whose op ended without raising; at the sink, items that were read.",
            "completed",
            statistic="num_completed",
            where=STAGES,
        )
    )
    """Items whose op ended without raising."""
    emitted: float = _total(
        shown=Shown(
            "spdl.stage.results",
            "{item}",
            "Results passed on.",
            "passed on",
            "items_per_second",
            "num_emitted",
            STAGES,
        )
    )
    """Results passed on."""
    failed: float = _total(
        shown=Shown(
            "spdl.stage.failures",
            "{failure}",
            "Items given up because something raised or took too long.",
            "failed",
            "failures",
            "num_failed",
        )
    )
    """Items given up."""
    dropped: float = _total(
        shown=Shown(
            "spdl.stage.drops",
            "{item}",
            "Results dropped because they were None.",
            "dropped",
            statistic="num_dropped",
        )
    )
    """Results dropped because they were None."""
    retried: float = _total(
        shown=Shown(
            "spdl.stage.retries",
            "{attempt}",
            "Attempts that failed and were followed by another.",
            "retried",
            statistic="num_retried",
        )
    )
    """Attempts that failed and were followed by another."""
    overdue: float = _total(
        shown=Shown(
            "spdl.stage.timeouts",
            "{call}",
            "Ops that took longer than the stage's timeout.",
            "too late",
            statistic="num_overdue",
        )
    )
    """Ops that took longer than the stage's timeout."""
    busy_seconds: float = _total(
        shown=Shown(
            "spdl.stage.busy", "s", "Time in ops that have ended, summed over concurrent ones.", "in ops", "busy"
        )
    )
    """Time in ops that have ended."""
    cpu_seconds: float = _total(shown=Shown("spdl.stage.cpu", "s", "CPU time of threads in ops.", "of it CPU"))
    """CPU time of the threads in them."""
    other_seconds: float = _total()
    """The part of ``busy_seconds`` that is not time of tasks that succeeded."""
    starved_seconds: float = _total(
        "counted.waits[STARVED]", shown=Shown("spdl.stage.wait", "s", _WAIT, "waits for an item", direction="input")
    )
    """Time in which a slot was free and no item waited."""
    blocked_seconds: float = _total(
        "counted.waits[BLOCKED]", shown=Shown("spdl.stage.wait", "s", _WAIT, "waits for a place", direction="output")
    )
    """Time in which a slot was free and an item waited, but its result would have had no place."""
    held_seconds: float = _total(
        "counted.waits[HELD]", shown=Shown("spdl.stage.wait", "s", _WAIT, "held back", direction="order")
    )
    """Time in which a slot was free and an item waited, but too many results waited for an earlier one."""
    waiting_for: float = _now("counted.waiting_for")
    """Which of these three waits it is, counted from 0, if ``waiting_since`` is not 0."""
    waiting_since: float = _now("counted.waiting_since")
    """When it began, as ``time.perf_counter()`` tells it. Those three do not include it."""
    concurrency: float = _now(
        "it.concurrency",
        shown=Shown("spdl.stage.concurrency", "{item}", "Items that the stage may work on at once."),
    )
    """How many items it may work on at once."""
    running: float = _now(
        "it.slots_in_use()", shown=Shown("spdl.stage.running", "{item}", "Items that the stage works on now.")
    )
    """On how many it works."""
    queued: float = _now("it.queued()")
    """Items that wait in front of it. They may be more than the capacity by the slots of the stage before, since what
    it has finished and has no place for keeps its slot."""
    waiting: float = _now(
        "sum(channel.items() for channel in it.inputs())",
        on_page=False,
        shown=Shown(
            "spdl.queue.size",
            "{item}",
            "Items that wait in front of the stage now; at the sink, items that wait to be read.",
            scalar="queue",
            statistic="queue_size",
            where=QUEUES,
        ),
    )
    """As ``queued``, without the ends of epochs, which the page does not have."""
    capacity: float = _now(
        "it.capacity()",
        shown=Shown(
            "spdl.queue.limit",
            "{item}",
            "Items that may wait in front of the stage.",
            statistic="queue_capacity",
            where=QUEUES,
        ),
    )
    """How many may wait there in addition to those."""
    buffered: float = _now("0 if it.order is None else it.order.buffered")
    """Results that wait for an earlier one, where the stage keeps the order."""
    awaited_seconds: float = _total(on_page=False)
    """The part of ``busy_seconds`` in which the event loop ran what an op had returned to a worker. As all that
    follows, the page does not have it."""
    steps: float = _total(on_page=False)
    """Tasks in addition to one for each completed item."""
    thread_seconds: float = _total("seconds_on_threads(it)", on_page=False)
    """Time that the pipeline's threads have spent in its ops."""
    fill: float = _total("it.input.counters.fill", on_page=False)
    """How many items lay in front of it each time one was taken, added up."""
    times: tuple[int, ...] = _now("tuple(counted.times.counts) if it.has_tasks else ()", on_page=False, default=())
    """How many tasks took how long, as `Histogram` has it; empty if it has none."""


class Doing(Enum):
    """The activity of a thread at one moment."""

    RUNS = "runs"
    """It computes, or would if a core was free."""
    WAITS_FOR_THREAD = "waits for a thread"
    """It waits for a lock that another thread of the process holds, such as the GIL."""
    WAITS = "waits"
    """It waits for something else: a disk, the network, a timer."""
    STOPPED = "is stopped"
    """A signal has stopped it, or a debugger."""
    GONE = "gone"
    """It has ended, or the system does not say."""


class ThreadSample(NamedTuple):
    """The activity of a thread that runs ops; see `Sample`.

    Example:
        >>> from spdl.observe import ThreadObservation
        >>> ThreadObservation(4095, part=None, since=1.5, identity=7, position=None, source=None, is_whole=True).thread
        4095
    """

    thread: int
    """Its number in the system, which is also a folder's name in ``/proc/PID/task``."""
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


def _given(engine: Any) -> int:
    """Return how many results were put into the sink."""
    last = engine.nodes[-1:] or engine.sources
    return sum(part.counters.emitted for part in last)


def _seconds_on_threads(node: Any) -> float:
    served = node.for_workers()
    if served is None or not served.on_workers:
        # The event loop's thread or the user's executor runs them.
        return 0.0
    return float(served.counters.busy_seconds - served.counters.awaited_seconds)


def _of_budget(read: str, declare: Callable[..., Any] = _now, shown: Shown | None = None) -> Any:
    return declare(f"0 if it.budget is None else {read}", shown=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A pipeline's counters at one moment, and what its threads do. Times are of ``time.perf_counter()``.

    The counts and durations are those at ``now``: if nothing happens, nothing is written on the page.

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
        >>> (source,), (stage,), threads = seen.sources, seen.stages, seen.threads
        >>> source.emitted >= 3, stage.completed >= 3, stage.failed, [thread.part for thread in threads]
        (True, True, 0.0, [None, None])
    """

    now: float = _now(
        "now",
        shown=Shown(
            "spdl.pipeline.elapsed",
            "s",
            "Time since the pipeline's start, or from its start to its end.",
            statistic="elapsed",
            where=PIPELINE,
        ),
    )
    """When the counters were read or written."""
    started_at: float = _now("it.started_at")
    """When the pipeline was started."""
    stopped_at: float = _now("it.stopped_at")
    """When it was asked to stop; 0 if it was not."""
    num_threads: float = _now("it.workers.num_threads")
    """How many synchronous ops may run at once."""
    idle: float = _now("len(it.workers.idle)")
    """How many threads wait for work."""
    abandoned: float = _now("it.workers.abandoned")
    """How many threads are in ops whose items were given up."""
    in_flight: float = _now(
        "it.lineage.num_out()",
        shown=Shown(
            "spdl.pipeline.in_flight",
            "{item}",
            "Source items of which something is under way or unread.",
            where=PIPELINE,
        ),
    )
    """Source items handed out that are still under way or unread, also in part."""
    failures: float = _now("sum(node.counters.failed for node in it.nodes)")
    """Items given up in all stages."""
    epochs_read: float = _now("it.epochs_read")
    """How many epochs the consumer has seen the end of."""
    sink_size: float = _now("len(it.sink.entries)")
    """Results that wait to be read; those included that hold slots of the last stage."""
    sink_capacity: float = _now("it.sink.capacity")
    """How many may in addition to those."""
    given: float = _now("given(it)", on_page=False)
    """Results that were put there. The page does not have it."""
    # Read without a lock: more may have come since the first number was read.
    delivered: float = _now("max(0, given(it) - it.sink.items())")
    """Of these, those that the consumer has taken."""
    consumer_waited: float = _total(
        "it.sink.counters.get_seconds",
        shown=Shown(
            "spdl.pipeline.consumer.wait",
            "s",
            "Time in which reads of the consumer waited for an item.",
            scalar="consumer_wait",
            statistic="starved_seconds",
            where=CONSUMER,
        ),
    )
    """Seconds that it has waited for them, without the current wait."""
    max_bytes: float = _of_budget(
        "it.budget.limit", shown=Shown("spdl.pipeline.memory.limit", "By", "Memory that they may keep.", where=BUDGET)
    )
    """The bytes that the items in the pipeline may keep; 0 if they are not bounded and not weighed."""
    bytes_in_flight: float = _of_budget(
        "it.budget.bytes_now()",
        shown=Shown(
            "spdl.pipeline.memory.usage",
            "By",
            "Memory that the items in the pipeline keep, where max_bytes bounds it.",
            where=BUDGET,
        ),
    )
    """The bytes that they keep."""
    peak_bytes: float = _of_budget("it.budget.peak")
    """The most bytes that they have kept."""
    seconds_short_of_bytes: float = _of_budget(
        "it.budget.seconds_waited(now)",
        _total,
        Shown(
            "spdl.pipeline.memory.wait",
            "s",
            "Time in which something was not made since it might not have fitted.",
            where=BUDGET,
        ),
    )
    """Seconds, not bytes, in which something was not made since it might not have fitted, until ``now``."""
    sink_fill: float = _now("it.sink.counters.fill", on_page=False)
    """How many results lay in the sink each time one was put there, added up. The page does not have it."""
    consumer_waiting_since: float = 0.0
    """When the consumer's wait began; 0 without a wait."""
    sources: tuple[SourceSample, ...] = ()
    """The sources, in the order of declaration."""
    stages: tuple[StageSample, ...] = ()
    """The stages, each after all that feed it."""
    threads: tuple[ThreadSample, ...] = ()
    """The threads that run ops, as the page shows them."""
    seen_at: float = _now("now", on_page=False)
    """When it was looked at; the page may have been written earlier."""
    doing: Mapping[int, Doing] = field(default_factory=dict)
    """What the threads do at that moment that run ops, by their numbers."""
    is_stopped: bool = False
    """Whether a signal or a debugger has stopped the process."""
    cpu_seconds: float = 0.0
    """CPU time of the process, and of others that run its stages; the tuner knows it, and what follows."""
    core_seconds: float = 0.0
    """Time in which its threads waited for a core, summed over them."""
    lags: bool = False
    """Whether workers of a region have yet to begin, or to learn the limits in force."""


# ---- what the fields say ----


def _rules(kind: type[Any], *, on_page: bool) -> dict[str, _FieldRule]:
    found = {each.name: each.metadata["rule"] for each in fields(kind) if "rule" in each.metadata}
    return {name: rule for name, rule in found.items() if rule.on_page or not on_page}


def _reader(kind: type[Any], *, on_page: bool) -> Callable[..., Any]:
    """Return what reads the values for the page as a tuple, or else as an object of the kind.

    It is compiled from the fields, as a named tuple's constructor is: a call for each of them would double its time,
    and the page is written under the engine's lock.
    """
    reads = {name: rule.read or f"counted.{name}" for name, rule in _rules(kind, on_page=on_page).items()}
    code = f"lambda it, counted, now: ({', '.join(reads.values())},)"
    if not on_page:
        code = f"lambda it, counted, now, **parts: kind({', '.join(map('='.join, reads.items()))}, **parts)"
    names = {"kind": kind, "given": _given, "seconds_on_threads": _seconds_on_threads}
    names |= {"STARVED": STARVED, "BLOCKED": BLOCKED, "HELD": HELD}
    return cast("Callable[..., Any]", eval(code, names))  # noqa: S307


_PIPELINE, _SOURCE, _STAGE = (_reader(kind, on_page=True) for kind in (Sample, SourceSample, StageSample))
_WHOLE_PIPELINE, _WHOLE_SOURCE, _WHOLE_STAGE = (
    _reader(kind, on_page=False) for kind in (Sample, SourceSample, StageSample)
)

PIPELINE_VALUES, SOURCE_VALUES, STAGE_VALUES = (
    tuple(_rules(kind, on_page=True)) for kind in (Sample, SourceSample, StageSample)
)
"""What the page has of a pipeline, of each source and of each stage, in this order."""


class ShownField(NamedTuple):
    """A field that is shown, by its names in samples and in statistics, and whether it only grows."""

    name: str
    statistic: str
    shown: Shown
    is_total: bool


def shown_fields(kind: type[Any]) -> tuple[ShownField, ...]:
    """Return the fields of a kind of samples that are shown, in the order of the description."""
    rules = _rules(kind, on_page=False)
    return tuple(
        ShownField(name, rule.shown.statistic or name, rule.shown, rule.is_total)
        for name, rule in rules.items()
        if rule.shown
    )


SHOWN = {field.name: field.shown for field in shown_fields(Counts)}
"""The counters that everything shows without knowing them, by their names."""

# Workers report failed items one by one, and the parent counts them as they arrive.
TOLD = tuple(
    name
    for name, rule in _rules(StageSample, on_page=False).items()
    if rule.is_total and rule.read is None and name != "failed"
)
"""The workers' reports about a stage of a region, apart from its waits: attributes of its `StageCounters`, which are
added up."""


# ---- samples ----


def _sources(engine: Any) -> list[Any]:
    # Their list is turned round as they take turns.
    return sorted(engine.sources, key=attrgetter("column"))


def page_values(engine: Any, now: float) -> list[float]:
    values: list[float] = [*_PIPELINE(engine, None, now)]
    for source in _sources(engine):
        values += _SOURCE(source, source.counters, now)
    for node in engine.nodes:
        values += _STAGE(node, node.counters, now)
    return values


def sample_of(engine: Any, now: float) -> Sample:
    """Return all that an engine has counted, read without its lock; what its threads do is left out."""
    sample: Sample = _WHOLE_PIPELINE(
        engine,
        None,
        now,
        sources=tuple([_WHOLE_SOURCE(source, source.counters, now) for source in _sources(engine)]),
        stages=tuple([_WHOLE_STAGE(node, node.counters, now) for node in engine.nodes]),
    )
    return sample


def sample_of_page(values: Sequence[float], sources: int, **threads: Any) -> Sample:
    """Return what a page says with the values of `page_values`; ``threads`` are fields of `Sample`."""
    first = len(PIPELINE_VALUES)
    behind = first + sources * len(SOURCE_VALUES)
    of_pipeline: dict[str, Any] = dict(zip(PIPELINE_VALUES, values[:first], strict=True))
    return Sample(
        **of_pipeline,
        sources=tuple(_each(SourceSample, SOURCE_VALUES, values[first:behind])),
        stages=tuple(_each(StageSample, STAGE_VALUES, values[behind:])),
        **threads,
    )


def _each(kind: type[_T], names: Sequence[str], values: Sequence[float]) -> Iterator[_T]:
    for at in range(0, len(values), len(names)):
        yield kind(**dict(zip(names, values[at : at + len(names)], strict=True)))


def per_second(before: Counts, after: Counts, seconds: float) -> Counts:
    """Return what a part has counted between two samples, per second."""
    names = (each.name for each in fields(Counts))
    return Counts(**{name: (getattr(after, name) - getattr(before, name)) / seconds for name in names})


class Extract(NamedTuple):
    """A stage's record as a worker tells it: the counts and waits, the bins of the durations, and its slots."""

    numbers: list[float]
    bins: list[int]
    running: int
    slots: int


def extract(counters: StageCounters, running: int, slots: int) -> Extract:
    waits = counters.waited(perf_counter())
    numbers = [*(getattr(counters, name) for name in TOLD), *waits]
    return Extract(numbers, counters.times.counts.copy(), running, slots)


class MirroredCounters(StageCounters):
    """The record of a stage that runs in several workers: the sum of what these have told."""

    __slots__ = ()

    def add(self, told: Extract, before: Extract | None) -> None:
        """Add what a worker tells, apart from what it has told before. Called with the engine's lock held."""
        numbers, bins = told.numbers, told.bins
        if before is not None:
            numbers = [new - old for new, old in zip(numbers, before.numbers, strict=True)]
            bins = [new - old for new, old in zip(bins, before.bins, strict=True)]
        for name, number in zip(TOLD, numbers, strict=False):
            setattr(self, name, getattr(self, name) + number)
        self.waits = [old + new for old, new in zip(self.waits, numbers[len(TOLD) :], strict=True)]
        self.times.add_all(bins)

    def begin(self, now: float) -> None:
        """Start no clock: the workers have theirs."""
