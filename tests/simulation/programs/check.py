"""Compares what was seen while a program ran with what it may do."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spdl.pipeline import FailedItem, PipelineStatistics, StageStatistics

from .expected import Expected, FailureKey, Flow
from .item import Key
from .lab import Lab
from .program import Aggregate, Fork, Pipe, Program, Stage, all_pipes, all_stages

# So many failed items are listed at most.
REMEMBERED = 100
# A source that nobody wants is not waited for: half as long as one blocks, and longer than ops take.
_BLOCKED = 0.15
# Consumers that may end before the items do.
EARLY = ("break", "interrupt", "interrupt_readers", "forget", "exit", "fork")


@dataclass(frozen=True)
class Value:
    """What was delivered: an item or a batch, and the epochs that it comes from."""

    keys: tuple[Key, ...]
    is_batch: bool
    epochs: frozenset[int]


@dataclass
class Seen:
    """What was seen from outside the pipeline while a program ran.

    Attributes:
        doing: What the consumer does at the moment.
        epochs: What was delivered, epoch by epoch.
        complete: How many epochs were read to their end.
        failure: What the pipeline failed with, in words.
        interrupted: Whether a KeyboardInterrupt reached the end of the program.
        stopped_early: Whether something called ``stop()``.
        statistics: The statistics at the end.
        looks: Those seen meanwhile.
        failures: The records of failed items at the end.
        threads: The names of threads that were left.
        ended_at: When the consumer saw the end.
        still_open: Stages whose generators were not closed when ``stop()`` returned.
        forked: Whether the process has forked, and this is the child.
        crash: What went wrong with the runner itself.
    """

    doing: str = "building"
    epochs: list[list[Value]] = field(default_factory=list)
    complete: int = 0
    failure: list[str] = field(default_factory=list)
    interrupted: bool = False
    stopped_early: bool = False
    statistics: PipelineStatistics | None = None
    looks: list[PipelineStatistics] = field(default_factory=list)
    failures: list[FailedItem] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)
    ended_at: float = 0.0
    forked: bool = False
    still_open: set[str] = field(default_factory=set)
    crash: str | None = None


def check(program: Program, lab: Lab, seen: Seen, expected: Expected) -> list[str]:
    """Return what is wrong."""
    if program.consumer.reading in ("readers", "interrupt_readers") or lab.rest.sink.lost:
        # Between an item's delivery and its record, another reader may get the next one, or an interrupt comes.
        expected = replace(expected, flow=replace(expected.flow, order=""))
    seen = replace(seen, epochs=_split_at_lost_end(program, lab, seen.epochs))
    epochs = program.consumer.epochs if program.continuous else 1
    whole = seen.complete == epochs and not seen.failure and not seen.stopped_early
    certain = not (expected.must_fail or expected.may_fail or expected.uncertain)
    findings = [
        *_check_end(program, seen, expected, whole=whole),
        *_check_delivered(program, seen, expected, whole=whole, certain=certain),
        *_check_ends(program, lab, seen, expected),
        *_check_sources(program, lab, seen),
        *_check_limits(program, lab),
        *_check_looks(program, seen),
    ]
    if len(seen.failures) > REMEMBERED:
        findings.append(f"failures() lists {len(seen.failures)} items")
    if whole:
        findings += _check_ways(program, lab, seen)
    if lab.background:
        findings.append(f"{lab.background} tasks that ops have started run after stop()")
    if seen.threads:
        findings.append(f"threads are left after stop(): {seen.threads}")
    findings += _check_open(program, seen)
    if running := {name: count for name, count in lab.running.items() if count}:
        findings.append(f"ops still run, or generators are open, after stop(): {running}")
    if any(lab.hook_balance.values()):
        findings.append(f"stage hooks are not left after stop(): {dict(lab.hook_balance)}")
    if whole and not expected.uncertain:
        findings += (
            _check_counts(program, lab, seen, expected)
            if not program.continuous
            else _check_epochs(program, seen, expected)
        )
    if not seen.stopped_early and _finishes(program, seen, expected):
        findings += [
            f"after the source's failure: {text}"
            for text in _difference(_elements(seen.epochs[0]), expected.flow.elements)
        ]
    return findings


def _split_at_lost_end(program: Program, lab: Lab, epochs: list[list[Value]]) -> list[list[Value]]:
    """Return what was delivered in each epoch, though an interrupt of a read may have taken the end of the last one."""
    if not (program.continuous and lab.rest.sink.lost):
        return epochs
    *before, last = epochs
    after = frozenset({len(epochs)})
    rest = [value for value in last if value.epochs == after]
    return [*before, [value for value in last if value.epochs != after], rest] if rest else epochs


def _check_open(program: Program, seen: Seen) -> list[str]:
    """Check that generators are closed when ``stop()`` returns, but for those that it cannot wait for."""
    abandoned = program.hooks == "timeout" or any(pipe.drop_overdue for pipe in all_pipes(program))
    if seen.still_open and not abandoned:
        return [f"generators are open when stop() returns: {seen.still_open}"]
    return []


def _check_ways(program: Program, lab: Lab, seen: Seen) -> list[str]:
    """Check how a program that was read to its end came to it."""
    findings = []
    given_up_at = lab.rest.given_up_at
    if lab.rest.exact and given_up_at is not None and seen.ended_at > given_up_at + _BLOCKED:
        findings.append(f"the end came {seen.ended_at - given_up_at:.4f} s after the merge has returned")
    # Hooks that do not wait cancel them, as does a merge that returns early those of what it gives up.
    if lab.cancelled and program.hooks != "timeout" and given_up_at is None:
        findings.append(f"ops were cancelled although they were not overdue: {lab.cancelled[:3]}")
    return findings


def _finishes(program: Program, seen: Seen, expected: Expected) -> bool:
    """Return whether all items before a failure have to be delivered: nothing but the only source failed."""
    only_source = len(program.sources) == 1 and expected.must_fail == ["source 0 raises"]
    cut = any(isinstance(stage, Aggregate) and stage.drop_last for stage in all_stages(program))
    cut = cut or any(pipe.op.by_batch for pipe in all_pipes(program))
    certain = only_source and not cut and not expected.may_fail and not expected.uncertain and not expected.flow.unknown
    return certain and bool(seen.failure and seen.epochs) and program.consumer.reading not in EARLY


def _check_end(program: Program, seen: Seen, expected: Expected, *, whole: bool) -> list[str]:
    if seen.failure and not expected.must_fail and not expected.may_fail:
        return [f"the pipeline failed for no reason: {seen.failure}"]
    if whole and expected.must_fail:
        return [f"the pipeline did not fail, although {expected.must_fail}"]
    reading = program.consumer.reading
    if seen.complete < len(seen.epochs) and not seen.failure and reading not in EARLY:
        return ["the loop ended without an end"]
    return []


def _check_delivered(program: Program, seen: Seen, expected: Expected, *, whole: bool, certain: bool) -> list[str]:
    findings: list[str] = []
    for epoch, values in enumerate(seen.epochs):
        findings += [
            f"epoch {epoch} has {value}"
            for value in values
            # A loop that stop() has ended may be followed by one over the rest of its epoch.
            if len(value.epochs) > 1
            or not value.epochs <= frozenset(range(epoch * (not seen.stopped_early), epoch + 1))
        ]
        # Items of a pipeline that failed while an epoch was read may be missing from that epoch alone.
        done = epoch < seen.complete and not seen.stopped_early and not expected.uncertain
        if done and (not seen.failure or (epoch + 1 < len(seen.epochs))):
            findings += [f"epoch {epoch}: {text}" for text in _compare(values, expected.flow)]
        else:
            findings += [
                f"epoch {epoch}: {text}" for text in _compare_part(values, expected, certain=certain, program=program)
            ]
    consumer = program.consumer
    if certain and not seen.stopped_early and not seen.failure and consumer.reading == "break" and seen.epochs:
        size = expected.flow.size
        if size is not None and len(seen.epochs[0]) != min(consumer.count, size):
            findings.append(f"{len(seen.epochs[0])} of {size} items came before the break, not {consumer.count}")
    return findings


def _check_ends(program: Program, lab: Lab, seen: Seen, expected: Expected) -> list[str]:
    """Check that no epoch in which a source has raised looks complete."""
    if seen.stopped_early or expected.uncertain or program.consumer.reading in ("readers", "interrupt_readers"):
        return []
    return [
        f"epoch {source.raise_epoch} looks complete, although source {record.number} has raised in it"
        for source, record in zip(program.sources, lab.sources, strict=True)
        if record.raised and seen.complete > source.raise_epoch
    ]


def _elements(values: Iterable[Value]) -> list[Key]:
    return [key for value in values for key in value.keys]


def _difference(got: Iterable[object], wanted: Iterable[object], missing: int = 0) -> list[str]:
    more, less = Counter(got), Counter(wanted)
    findings = []
    if extra := more - less:
        findings.append(f"too much: {_few(extra)}")
    if (lost := less - more) and lost.total() > missing:
        findings.append(f"missing: {_few(lost)}")
    return findings


def _few(counter: Counter[object]) -> str:
    return f"{counter.total()}, such as {list(counter)[:4]}"


def compare_epoch(values: Sequence[Value], flow: Flow) -> list[str]:
    """Compare what came of a whole epoch, read in several pipelines, with what must come.

    The rest of a batch that was cut, or the composition of batches where it is not promised, makes their number differ.
    """
    if flow.batches is None and flow.in_batches:
        return _difference(_elements(values), flow.singles)
    return _compare(values, flow)


def _compare(values: Sequence[Value], flow: Flow) -> list[str]:
    """Compare a whole epoch with what must come out."""
    if flow.unknown:
        return _compare_roots(values, flow)
    if wrong := [value for value in values if value.is_batch != flow.in_batches]:
        return [f"batches and items are mixed up: {wrong[:3]}"]
    if flow.batches is None:
        findings = _difference(_elements(values), flow.singles, flow.missing)
        if flow.in_batches and flow.count is not None and len(values) != flow.count:
            findings.append(f"{len(values)} batches came, not {flow.count}")
        return findings or _compare_order(values, flow)
    got = [value.keys if flow.inner else tuple(sorted(value.keys)) for value in values]
    wanted = [batch if flow.inner else tuple(sorted(batch)) for batch in flow.batches]
    if flow.order == "all" and got != wanted and Counter(got) == Counter(wanted):
        return [f"the order of batches is {got}, not {wanted}"]
    return _difference(got, wanted)


def _compare_order(values: Sequence[Value], flow: Flow) -> list[str]:
    if flow.in_batches or flow.missing or not flow.order:
        return []
    got = _elements(values)
    sources = {key[0] for key in got} if flow.order == "source" else {None}
    for source in sources:
        mine = [key for key in got if source in (None, key[0])]
        wanted = [key for key in flow.singles if source in (None, key[0])]
        if mine != wanted[: len(mine)]:
            return [f"the order is {mine}, not {wanted}"]
    return []


def _compare_roots(values: Sequence[Value], flow: Flow) -> list[str]:
    known = {key[:2] for key in flow.singles}
    return [f"nobody knows {key}" for key in _elements(values) if key[:2] not in known]


def _compare_part(values: Sequence[Value], expected: Expected, *, certain: bool, program: Program) -> list[str]:
    """Compare what was delivered before an early end."""
    flow = expected.flow
    if program.queue == "double":
        # It is found out by what is inside the queue, when the second one has left it.
        return [] if flow.unknown else _difference(set(_elements(values)), flow.elements, len(flow.elements))
    by_batch = any(pipe.op.by_batch for pipe in all_pipes(program))
    if flow.unknown or (not certain and by_batch):
        # A failure may cut a batch short, and such ops decide on the batch as a whole.
        return _compare_roots(values, flow) if flow.unknown or not flow.elements else []
    if certain and flow.batches is not None:
        got = [value.keys if flow.inner else tuple(sorted(value.keys)) for value in values]
        wanted = [batch if flow.inner else tuple(sorted(batch)) for batch in flow.batches]
        if flow.order == "all" and got != wanted[: len(got)]:
            return [f"the batches are {got}, not the first of {wanted}"]
        return _difference(got, wanted, len(wanted))
    findings = _difference(_elements(values), flow.elements, len(flow.elements))
    return findings or (_compare_order(values, flow) if certain else [])


def _check_sources(program: Program, lab: Lab, seen: Seen) -> list[str]:
    findings = []
    for source, record in zip(program.sources, lab.sources, strict=True):
        what = f"source {record.number} ({source.kind})"
        if record.iterations > 1 and not program.continuous:
            findings.append(f"{what} was iterated {record.iterations} times")
        if record.closed > record.opened:
            findings.append(f"{what} was opened {record.opened} times and closed {record.closed} times")
        if source.kind in ("generator", "async_generator", "async_iterator"):
            must = record.opened
        else:
            must = record.opened - record.exhausted
        if source.kind != "list" and record.closed < must:
            findings.append(f"{what}: {must - record.closed} of {record.opened} passes were not closed")
    return findings


def _check_limits(program: Program, lab: Lab) -> list[str]:
    findings: list[str] = []
    if program.hooks == "timeout":
        # What they do not wait for runs on.
        return findings
    hanging = any(pipe.drop_overdue and pipe.op.slow for pipe in all_pipes(program))
    for pipe in all_pipes(program):
        limits = [deed.value for deed in program.meddling if deed.deed == "concurrency" and deed.stage == pipe.name]
        # An op that was abandoned runs on, but does not count.
        if lab.most[pipe.name] > max([pipe.concurrency, *limits]) and not (pipe.drop_overdue and pipe.timeout):
            findings.append(f"{lab.most[pipe.name]} ops of {pipe.name} ran at once")
        # What an earlier item holds up: as many as run, and as many as wait for their turn.
        alone = not limits and not pipe.retries and not pipe.drop_overdue
        if pipe.ordered and alone and lab.spread[pipe.name] > 2 * pipe.concurrency + 2:
            findings.append(f"{lab.spread[pipe.name]} items have begun {pipe.name} since the oldest one that is there")
    threads = [deed.value for deed in program.meddling if deed.deed in ("threads", "concurrency")]
    if lab.most_sync > max([program.num_threads, *threads]) and not hanging:
        findings.append(f"{lab.most_sync} synchronous ops ran at once")
    return findings


def in_flight_bound(program: Program) -> int | None:
    """Return how many source items may be under way at once, as far as the documentation bounds it."""
    moved = any(deed.deed in ("concurrency", "capacity") for deed in program.meddling)
    if (
        moved
        or program.queue
        or program.merge
        or any(isinstance(stage, Aggregate) and stage.seed for stage in all_stages(program))
    ):
        return None
    size = 1
    bound = 0

    def add(stages: Sequence[Stage], branches: int) -> None:
        nonlocal size, bound
        for stage in stages:
            bound += 2 * branches * size
            branches = 1
            if isinstance(stage, Pipe):
                bound += stage.concurrency * size + ((stage.concurrency + 2) * size if stage.ordered else 0)
            elif isinstance(stage, Fork):
                bound += (1 + 32 + 2 * len(stage.paths) + 1) * size
                for path in stage.paths:
                    add(path, 1)
            elif isinstance(stage, Aggregate):
                # What it gathers, and the batch in its slot.
                bound += (stage.n - 1) * size
                size *= stage.n
                bound += size
            else:
                bound += size

    for source in program.sources:
        bound += 1
        add(source.stages, 1)
    if len(program.sources) > 1:
        bound += (2 * len(program.sources) + 1) * size
    add(program.stages, 1)
    # What a read has lost that was interrupted stays in flight, since nobody has received it.
    lost = size * program.consumer.reading.startswith("interrupt")
    return bound + program.buffer_size * size + lost + (2 if not program.stages else 0)


def _check_looks(program: Program, seen: Seen) -> list[str]:
    findings = []
    bound = in_flight_bound(program)
    final = [] if seen.statistics is None else [seen.statistics]
    for statistics in [*seen.looks, *final]:
        for stage in statistics.stages:
            counts = (
                stage.num_completed, stage.num_emitted, stage.num_failed, stage.num_dropped, stage.num_retried,
                stage.num_overdue, stage.running, stage.queue_size, stage.queue_capacity, stage.busy_seconds,
                stage.cpu_seconds, stage.starved_seconds, stage.blocked_seconds, stage.held_seconds,
            )  # fmt: skip
            if min(counts) < 0:
                findings.append(f"a count is negative: {stage}")
        if bound is not None and statistics.in_flight > bound:
            findings.append(f"{statistics.in_flight} items are in flight; at most {bound} may be")
        if statistics.in_flight < 0:
            findings.append(f"{statistics.in_flight} items are in flight")
    return findings


def _check_counts(program: Program, lab: Lab, seen: Seen, expected: Expected) -> list[str]:
    """Check the figures of a program that was read to its end and did not fail."""
    assert seen.statistics is not None
    findings = []
    by_name = {stage.name: stage for stage in seen.statistics.stages}
    findings += _check_tallies(by_name, expected)
    delivered = sum(map(len, seen.epochs))
    if by_name["sink"].num_completed != delivered or by_name["sink"].num_emitted != delivered:
        sink = by_name["sink"]
        findings.append(f"the sink counts {sink.num_completed} and {sink.num_emitted} items, not {delivered}")
    sources = [stage for stage in seen.statistics.stages if stage.name == "src" or stage.name.startswith("src[")]
    for source, stage in zip(program.sources, sources, strict=True):
        if stage.num_completed != source.size:
            findings.append(f"a source counts {stage.num_completed} items, not {source.size}")
    if seen.statistics.in_flight:
        findings.append(f"{seen.statistics.in_flight} items are in flight at the end")
    if left := [stage.name for stage in seen.statistics.stages if stage.queue_size or stage.running]:
        findings.append(f"{left} have items at the end")
    findings += [
        f"source {record.number} was iterated {record.iterations} times"
        for record in lab.sources
        if record.iterations != 1
    ]
    return findings + _check_failures(program, lab, seen, expected)


def _check_tallies(by_name: Mapping[str, StageStatistics], expected: Expected) -> list[str]:
    findings = []
    for name, tally in expected.tallies.items():
        if name not in by_name:
            findings.append(f"the statistics have no stage {name}")
            continue
        stage = by_name[name]
        got = (stage.num_completed, stage.num_emitted, stage.num_failed, stage.num_dropped, stage.num_retried)
        wanted = (tally.completed, tally.emitted, tally.failed, tally.dropped, tally.retried)
        if tally.exact and got != wanted:
            findings.append(f"{name}: (completed, emitted, failed, dropped, retried) is {got}, not {wanted}")
        if tally.exact and expected.overdue_known and stage.num_overdue != tally.overdue:
            findings.append(f"{name}: {stage.num_overdue} ops took too long, not {tally.overdue}")
    return findings


def _check_failures(program: Program, lab: Lab, seen: Seen, expected: Expected) -> list[str]:
    if not expected.failures_known or expected.failures.total() > 100:
        return []
    findings = []
    got: Counter[FailureKey] = Counter(
        (failed.stage, frozenset(zip(failed.sources, failed.positions, strict=True)), failed.attempts)
        for failed in seen.failures
    )
    findings += _compare_failures(got, expected.failures)
    noted = Counter(failed.stage for failed in lab.given_up)
    calls = Counter(
        entry[0]
        for entry in expected.failures.elements()
        if any(pipe.name == entry[0] and pipe.on_failure for pipe in all_pipes(program))
    )
    if noted != calls:
        findings.append(f"on_failure was called {dict(noted)} times, not {dict(calls)}")
    return findings


def _compare_failures(got: Mapping[FailureKey, int], wanted: Mapping[FailureKey, int]) -> list[str]:
    # Where the positions or the number of attempts are not known, they are not compared.
    nowhere = {stage for stage, origin, _ in wanted if origin is None}
    untold = {stage for stage, _, attempts in wanted if not attempts}

    def told(failures: Mapping[FailureKey, int]) -> Counter[FailureKey]:
        return Counter(
            (stage, None if stage in nowhere else origin, 0 if stage in untold else attempts)
            for (stage, origin, attempts), count in failures.items()
            for _ in range(count)
        )

    listed, known = told(got), told(wanted)
    if listed == known:
        return []
    return [f"failures() lists {dict(listed - known)} too much and not {dict(known - listed)}"]


def _check_epochs(program: Program, seen: Seen, expected: Expected) -> list[str]:
    """Check the figures of a continuous program, which may have run ahead into further epochs."""
    assert seen.statistics is not None
    findings = []
    by_name = {stage.name: stage for stage in seen.statistics.stages}
    for name, tally in expected.tallies.items():
        stage = by_name[name]
        got = (stage.num_completed, stage.num_emitted, stage.num_failed, stage.num_dropped, stage.num_retried)
        wanted = (tally.completed, tally.emitted, tally.failed, tally.dropped, tally.retried)
        if tally.exact and any(count < seen.complete * least for count, least in zip(got, wanted, strict=True)):
            findings.append(
                f"{name}: (completed, emitted, failed, dropped, retried) is {got}, less than {seen.complete} x {wanted}"
            )
    if not expected.failures_known or len(seen.failures) >= 100:
        return findings
    by_epoch: dict[int, Counter[FailureKey]] = {epoch: Counter() for epoch in range(seen.complete)}
    for failed in seen.failures:
        sizes = [program.sources[source].size for source in failed.sources]
        epochs = {position // size for position, size in zip(failed.positions, sizes, strict=True)}
        if len(epochs) != 1:
            findings.append(f"a failure is in the epochs {epochs}: {failed.origin}")
        origin = frozenset(
            (source, position % size)
            for source, position, size in zip(failed.sources, failed.positions, sizes, strict=True)
        )
        by_epoch.setdefault(min(epochs, default=0), Counter())[failed.stage, origin, failed.attempts] += 1
    for epoch in range(seen.complete):
        findings += [f"epoch {epoch}: {text}" for text in _compare_failures(by_epoch[epoch], expected.failures)]
    return findings
