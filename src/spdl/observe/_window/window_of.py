"""Turns what was seen of a pipeline into a window: shares and rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from spdl.observe._window.seen import Seen, thread_name
from spdl.observe._window.window import Ending, SourceWindow, StageWindow, Window
from spdl.pipeline._report.counters import HELD
from spdl.pipeline._report.page import COLUMNS, StageArguments
from spdl.pipeline._report.sample import Doing, Sample, per_second
from spdl.pipeline._report.threads import region_thread_name

if TYPE_CHECKING:
    from spdl.pipeline._report.statistics import PageHead


# The classes of stages that make one item of several.
_GATHERING = ("CollateNode", "AggregateNode", "HookedAggregateNode")

# All ops that take longer are noted at their beginning, so the running ones can be counted.
_ALL_NOTED = 0.001

LONG = 0.005
"""Of ops that take longer, the threads spend hardly any time between them."""

# An executor is the limit if this share of the places in front of the stage is taken, though slots are free and hardly
# anything else keeps them so.
_QUEUES, _SATURATED, _HARDLY = 0.8, 0.85, 0.2

# Cores are short if this number of threads of the process wait for one.
_CORES_ARE_SHORT = 0.5

# If nothing happens, the counters are written again after a second, and then more rarely.
_STILL = 0.5

# These looks always exist; and this small number of items for each slot says little about the slots in use.
_BEGIN_AND_END, _FEW = 2, 4

# Of fewer threads, one that waits for another one says nothing.
_FEW_THREADS = 3
_MOST_LOOKS = 0.7

# So many items tell how long one takes.
_ENOUGH = 5


def window_of(head: PageHead, seen: Seen) -> Window:
    before, after, seconds = seen.before, seen.after, seen.seconds
    cpu, pid = seen.cpu(), head.pid
    core_waits = seen.core_waits()
    cores_used, cores_waited_for = sum(cpu.values()), sum(core_waits.values())
    if after.cpu_seconds:
        # The process itself has looked.
        cores_used = (after.cpu_seconds - before.cpu_seconds) / seconds
        cores_waited_for = (after.core_seconds - before.core_seconds) / seconds
    own = {thread.thread for look in seen.looks for thread in look.threads} if seen.looked else set[int]()
    if seen.looked and cores_used + cores_waited_for >= head.cores:
        # Otherwise it does not matter whose the others are.
        own |= _threads_of_other_pipelines(head)
    region, region_cores = _busiest_region(head, cpu, core_waits)
    first = len(head.sources)
    waited = _consumer_waited(after) - _consumer_waited(before)
    return Window(
        seconds=seconds,
        num_threads=int(after.num_threads),
        busy_threads=sum(_threads(seen, first + index, index) for index in range(len(head.stages))),
        cores=head.cores,
        gil=head.gil,
        cores_used=cores_used,
        cores_used_by_others=sum(used for thread, used in cpu.items() if thread not in own and thread != pid),
        cores_waited_for=cores_waited_for,
        consumer_waits=_share(waited / seconds),
        consumer_waits_for=_consumer_waits_for(after),
        delivered=(after.delivered - before.delivered) / seconds,
        sink_size=int(after.sink_size),
        sink_capacity=int(after.sink_capacity),
        sink_fill=_share(_in_sink(seen) / max(1.0, after.sink_capacity)),
        sources=tuple(_source(head, seen, index) for index in range(first)),
        stages=tuple(_stage(head, seen, index, arguments) for index, arguments in _declared(head)),
        max_bytes=int(after.max_bytes),
        peak_bytes=int(after.peak_bytes),
        short_of_bytes=_short_of_bytes(before, after),
        is_stopped=all(look.is_stopped for look in seen.looks),
        region=region,
        region_cores=region_cores,
        loader=head.loader,
        cores_idle=seen.cores_idle,
        ending=_ending(head, seen),
        world_size=head.world_size,
        looked=seen.looked,
    )


def _threads(seen: Seen, part: int, stage: int) -> float:
    """Return how many threads of this pipeline ran ops of a stage, in the mean."""
    if seen.looked or seen.state:
        return seen.threads_in(part)
    # The process itself knows how long they did, and looks at no threads.
    return (seen.after.stages[stage].thread_seconds - seen.before.stages[stage].thread_seconds) / seen.seconds


def _in_sink(seen: Seen) -> float:
    before, after = seen.before, seen.after
    if after.given > before.given:
        return (after.sink_fill - before.sink_fill) / (after.given - before.given)
    return sum(look.sink_size for look in seen.looks) / len(seen.looks)


def _busiest_region(head: PageHead, cpu: Mapping[int, float], core_waits: Mapping[int, float]) -> tuple[str, float]:
    regions = {
        region_thread_name(head.pipeline, COLUMNS + column): stage.name
        for column, stage in enumerate(head.stages, len(head.sources))
        if stage.processes and not stage.declared
    }
    if not regions:
        return "", 0.0
    cores = {
        regions[name]: used + core_waits.get(thread, 0.0)
        for thread, used in cpu.items()
        if (name := thread_name(head.pid, thread)) in regions
    }
    return max(cores.items(), key=itemgetter(1), default=("", 0.0))


def _ending(head: PageHead, seen: Seen) -> Ending | None:
    last = seen.last
    if last is None:
        return None
    names = [*head.sources, *(stage.name for stage in head.stages)]
    # A source that waits for the loop does not work.
    first = len(head.sources) if _on_demand(head) else 0
    began: dict[int, list[float]] = {}
    for thread in last.threads:
        if thread.part is not None and thread.part >= first:
            began.setdefault(thread.part, []).append(thread.since)
    running = Counter({part: len(since) for part, since in began.items()})
    # Coroutines and what runs in executors have no threads here, but slots.
    for part, (about, stage) in enumerate(zip(head.stages, last.stages, strict=True), len(head.sources)):
        if about.declared and about.served_by in ("loop", "executor"):
            running[part] = int(stage.running)
            # None of them has ended while the consumer waited.
            began[part] = [last.consumer_waiting_since]
    at_work = [part for part in sorted(running) if running[part]]
    still = _stood_still(seen.before_last, last)
    return Ending(
        state=seen.state,
        seconds=max(0.0, last.now - last.started_at),
        delivered=int(last.delivered),
        at_work=tuple((names[part], running[part]) for part in at_work),
        oldest=tuple((names[part], max(0.0, last.now - min(began[part]))) for part in at_work) if still else (),
    )


def _stood_still(before: Sample | None, last: Sample) -> bool:
    """Return whether nothing had moved for long before the counters were written last, and the consumer waited."""
    if before is None or not last.consumer_waiting_since or last.now - before.now < _STILL:
        return False
    return _moved(before) == _moved(last)


def _moved(seen: Sample) -> list[float]:
    """Return what counts what happens: it is more if anything has."""
    of_stages = [(stage.completed, stage.emitted, stage.failed, stage.retried) for stage in seen.stages]
    return [seen.delivered, *(source.emitted for source in seen.sources), *chain.from_iterable(of_stages)]


def _declared(head: PageHead) -> Iterator[tuple[int, StageArguments | None]]:
    """Return the indices of the stages that the user or his loader declares, and what arguments change of them."""
    indices = [index for index, stage in enumerate(head.stages) if stage.declared]
    known: Sequence[StageArguments | None] = () if head.loader is None else head.loader.stages
    # Another release may have another number of them.
    return zip_longest(indices, known[: len(indices)])


def _threads_of_other_pipelines(head: PageHead) -> set[int]:
    # Statistics of the same process need none of it.
    from spdl.observe._page import PageError, find_pipelines  # noqa: PLC0415

    found = set[int]()
    for pipeline in find_pipelines(head.pid):
        if pipeline.head.pipeline != head.pipeline:
            with suppress(PageError):
                found |= {thread.thread for thread in pipeline.observe().threads}
    return found


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _short_of_bytes(before: Sample, after: Sample) -> float:
    # They are those until the counters were written.
    seconds = max(1e-9, after.now - before.now)
    return _share((after.seconds_short_of_bytes - before.seconds_short_of_bytes) / seconds)


def _consumer_waited(look: Sample) -> float:
    return look.consumer_waited + _consumer_waits_for(look)


def _consumer_waits_for(look: Sample) -> float:
    since = look.consumer_waiting_since
    return max(0.0, look.seen_at - since) if since else 0.0


def _on_demand(head: PageHead) -> bool:
    """Return whether the source hands over what the loop asks for, and so waits for the loop in its ``next()``."""
    return head.loader is not None and head.loader.on_demand


def _source(head: PageHead, seen: Seen, index: int) -> SourceWindow:
    before, after, seconds = seen.before, seen.after, seen.seconds
    early, late = before.sources[index], after.sources[index]
    busy = oldest = 0.0
    if not _on_demand(head):
        oldest = _pulling(after, index)
        busy = late.busy_seconds + oldest - early.busy_seconds - _pulling(before, index)
    return SourceWindow(
        name=head.sources[index],
        busy=_share(busy / seconds),
        rate=(late.emitted - early.emitted) / seconds,
        oldest=oldest,
        per_second=per_second(early, late, seconds),
    )


def _pulling(look: Sample, index: int) -> float:
    since = look.sources[index].pulling_since
    began = [thread.since for thread in look.threads if thread.part == index]
    # A call that began before the counters were written has ended since, unless they show it.
    running = [each for each in began if each >= look.now or each == since]
    if since:
        running.append(since)
    return max((look.seen_at - each for each in running), default=0.0)


def _stage(head: PageHead, seen: Seen, index: int, arguments: StageArguments | None) -> StageWindow:
    about = head.stages[index]
    part = len(head.sources) + index
    before, after, lasted = seen.before.stages[index], seen.after.stages[index], seen.seconds
    ended = after.completed + after.failed - before.completed - before.failed
    tried_again = after.retried - before.retried
    succeeded = after.completed - before.completed
    lost, handled = after.failed - before.failed, ended
    if ended < _ENOUGH:
        lost, handled = after.failed, after.completed + after.failed
    enough = succeeded >= _ENOUGH
    # Few ops in the time say little: then all since the start count.
    count = succeeded if enough else after.completed
    useful = after.busy_seconds - after.other_seconds - (before.busy_seconds - before.other_seconds if enough else 0.0)
    seconds = useful / count if count else 0.0
    computed = after.cpu_seconds - (before.cpu_seconds if enough else 0.0)
    all_busy = after.busy_seconds - (before.busy_seconds if enough else 0.0)

    slots = max(1.0, after.concurrency)
    busy = after.busy_seconds - before.busy_seconds
    if seconds >= _ALL_NOTED or not count:
        busy += sum(_ages(seen.after, part)) - sum(_ages(seen.before, part))
    in_ops = busy / lasted / slots
    # Slots that are waited in, for another attempt or for what runs elsewhere, are in use as well.
    waits_in_slots = tried_again or about.served_by != "threads"
    in_slots = max(in_ops, seen.mean_running(index) / slots) if waits_in_slots else in_ops
    if seconds >= _ALL_NOTED and sum(seen.core_waits().values()) >= _CORES_ARE_SHORT:
        # If other programs have the cores, a thread waits for one also between the ops, and keeps its slot.
        in_slots = max(in_slots, seen.threads_in(part) / slots)
    if len(seen.looks) > _BEGIN_AND_END and not seen.looked and ended < _FEW * slots:
        # Ops count when they have ended: of few long ones, those that are seen to run tell more.
        in_slots = seen.mean_running(index) / slots
    # Each of its copies waits.
    waited = lasted * max(1, about.copies)
    held = _share((_held(seen.after, index) - _held(seen.before, index)) / waited)
    blocked = _share((after.blocked_seconds - before.blocked_seconds) / waited)
    # Slots are free and items wait for them, so it is the executor that takes no more.
    waits_for_pool = (
        about.served_by == "executor" and seen.queue_fill(index) >= _QUEUES and max(held, blocked) <= _HARDLY
    )
    pool = max(1, round(seen.mean_running(index))) if waits_for_pool and in_slots < _SATURATED else 0
    tried = ended + tried_again
    return StageWindow(
        name=about.name,
        op=about.op,
        gathers=about.kind in _GATHERING,
        served_by=about.served_by,
        adjustable=about.adjustable,
        concurrency=int(slots),
        pool=pool,
        occupancy=1.0 if pool else _share(in_slots),
        rate=ended / lasted,
        seconds=seconds,
        cpu=_share(computed / all_busy) if all_busy > 0 else 0.0,
        failing=tried_again / tried if tried else 0.0,
        lost=lost / handled if handled else 0.0,
        held=held,
        blocked=blocked,
        buffered=int(after.buffered),
        oldest=max(_ages(seen.after, part), default=0.0) if seen.last is None else 0.0,
        **_threads_in_ops(seen, part, seconds),
        processes=about.processes,
        copies=about.copies,
        arguments=arguments,
        per_second=per_second(before, after, lasted),
    )


def _threads_in_ops(seen: Seen, part: int, seconds: float) -> dict[str, Any]:
    """Return the fields of a stage that only looks at the threads in its ops know, whose ops take this long."""
    if not seen.looked:
        return {"runs": 0.0, "waits_for_thread": 0.0, "waits": 0.0, "glimpsed": _glimpsed(seen.glimpse, part)}
    doing = seen.doing_in(part)
    looks = max(1, sum(count for what, count in doing.items() if what is not Doing.GONE))
    runs, waits_for_thread, waits = (doing[what] / looks for what in (Doing.RUNS, Doing.WAITS_FOR_THREAD, Doing.WAITS))
    asleep = seen.asleep_in(part) if seconds >= LONG else None
    if asleep is not None and waits_for_thread + waits > 0:
        # Looks say what threads sleep for, and the system's clocks for how long. One that waits for the GIL wakes every
        # 5 ms to ask for it: on a busy machine it is mostly seen waiting for a core to do that.
        waits_for_thread, waits = (each * asleep / (waits_for_thread + waits) for each in (waits_for_thread, waits))
        runs = 1 - asleep
    return {
        "runs": runs,
        "waits_for_thread": waits_for_thread,
        "waits": waits,
        "alone": seen.alone_in(part),
        "sleeps": seen.sleeps_in(part) if seconds >= LONG else None,
    }


def _glimpsed(looks: Sequence[Sample], part: int) -> str:
    """Return what the threads in the ops of a part waited for in most of a few looks, if that says anything."""
    found = Counter[str]()
    for look in looks:
        seen = [look.doing.get(thread.thread) for thread in look.threads if thread.part == part]
        others = seen.count(Doing.WAITS_FOR_THREAD)
        if len(seen) >= _FEW_THREADS and others == len(seen) - 1:
            found["lock"] += 1
        elif len(seen) > 1 and others in (0, len(seen)):
            found["threads" if others else "I/O"] += 1
    kind, count = max(found.items(), key=itemgetter(1), default=("", 0))
    return kind if count >= _MOST_LOOKS * len(looks) else ""


def _ages(look: Sample, part: int) -> list[float]:
    return [max(0.0, look.seen_at - thread.since) for thread in look.threads if thread.part == part]


def _held(look: Sample, index: int) -> float:
    """Return how long a stage has not started because of an earlier item, the wait that goes on included."""
    stage = look.stages[index]
    ongoing = look.seen_at - stage.waiting_since if stage.waiting_since and stage.waiting_for == HELD else 0.0
    return stage.held_seconds + max(0.0, ongoing)
