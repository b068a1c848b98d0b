"""The verdict on the stage that is in use all the time, also on ops that wait for each other."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from spdl.observe._verdict.verdict import (
    CORES_ARE_SHORT,
    HARDLY_WAITS,
    MOST_CONCURRENCY,
    OF_A_LOCK,
    WORTH,
    Verdict,
    by_others,
    cores_elsewhere,
    duration,
    gain_bound,
    gain_of_threads,
    in_use,
    in_words,
    is_starved,
    limits_for,
    needed,
    percent,
    promised,
    slots,
    sure_gain,
    watch_longer,
)

if TYPE_CHECKING:
    from spdl.observe._window.window import StageWindow, Window


# Threads that wait for another thread for this share of their ops' time, and more than for anything else, while the
# process uses hardly more than a core and one of them computes or would if a core was free, wait for the GIL. So do
# threads of a stage if just one computes at any moment.
WAITS_FOR_OTHERS = 0.1
# If other programs have the cores, threads that wait for the GIL are awake much of the time, as they want a core to ask
# for it again. And threads without it sleep now and then, as another one that
# has no core holds a lock. The limit for the share of waiting threads lies between these two cases. If the process
# waits for cores longer than it has them, both look alike: beside six busy loops for each core, threads of ops that
# hold the GIL waited 29 to 61 % of the time for another one, and those of ops that release it 12 to 50 %.
_WAITS_WHERE_SHORT = 0.16
# Python takes the GIL from a thread after so long. Shorter ops that hold it end first, so they never run at once: that
# shows them, and how long threads wait shows less, as they also wait between such ops.
_SWITCH = 0.005
# If threads wait for each other for less than this share of the time, none of them holds the GIL for long.
_HARDLY_WAITS = 0.04
_SOME_OF_A_CORE, _ONE_CORE = 0.5, 1.4
# They need not be in ops for more than this share of the time.
_FIGHTS = 0.1
# They take turns if this number of them run at once in the mean, while this many more threads are ready.
_ONE_AT_ONCE, _OTHERS_WAIT = 1.15, 0.3
# The ops compute if they do for this share of their time, or want to and do for half as much: cores are short.
_COMPUTES = 0.6
# The seconds of CPU time, of all processes together, that take an item into a process of a region and its result back,
# if a stage hands the items over one by one.
_CROSSING = 1.5e-4
# A thread that waits for the GIL wakes up after that time to ask for it, and sleeps again. A thread that waits for a
# lock sleeps until it has the lock. Threads that sleep at least half as often as the former may wait for the GIL.
_OFTEN = 0.5
# Threads wait for each other if they do for at least this share of their time. Two that take turns wait for half of it.
WAITS_MOSTLY = 0.4
# They take turns if at least this share of the looks sees exactly one of them go on. Threads that wait for results of
# other threads wait independently of each other.
_ALONE = 0.7

AT_A_LOCK = f"More slots gain nothing. `spdl stack` shows the line that they wait in. {OF_A_LOCK}"
"""The remedy where threads take turns at a lock."""


def waits_for_each_other(window: Window, stage: StageWindow, busy: str) -> Verdict | None:
    """Return the verdict on a stage in use whose ops wait for each other most of all; None if they do not."""
    others_are_there = stage.occupancy * stage.concurrency >= _at_once(stage) + _OTHERS_WAIT
    if holds_gil(window, stage) or (others_are_there and stage in _take_turns(window)):
        return _gil(window, stage)
    return waits_for_threads(window, stage, busy)


def fights_for_gil(window: Window) -> Verdict | None:
    """Return that ops hold the GIL, though no stage is in use all the time: threads wait for it between ops, too."""
    fighting = [stage for stage in window.stages if holds_gil(window, stage) and stage.occupancy >= _FIGHTS]
    fighting = fighting or _take_turns(window)
    if not fighting:
        return None
    return _gil(window, max(fighting, key=lambda stage: stage.occupancy * stage.concurrency))


def _gil(window: Window, waiting: StageWindow) -> Verdict:
    stage = _holder(window, waiting)
    if stage is waiting:
        whose, they_hold, without = "its ops", "they hold", window
    else:
        whose, they_hold = f"ops of {waiting.name!r}", "it holds"
        # The slots of the others are in use for as long only because of it.
        others = [replace(each, occupancy=each.occupancy * (1 - each.waits_for_thread)) for each in window.stages]
        stages = [stage if each is stage else other for each, other in zip(window.stages, others, strict=True)]
        without = replace(window, stages=tuple(stages))
    waits = f"threads in {whose} wait for another one {percent(waiting.waits_for_thread)} of their time"
    if waiting.waits_for_thread < WAITS_FOR_OTHERS and waiting.concurrency > 1:
        waits = f"hardly any two of {whose} ever run at once"
    evidence = (
        f"{in_use(stage)}, but {waits}, and the process uses {window.cores_used:.1f} of {window.cores:g} cores: "
        f"{they_hold} the GIL."
    )
    crossing = _CROSSING if stage.arguments is None else stage.arguments.crossing or _CROSSING
    by_cores = window.cores / max(window.cores_used + stage.rate * crossing, 1e-9)
    if by_cores < WORTH < window.cores:
        return Verdict(
            "GIL",
            stage.name,
            evidence,
            "Call it once for many items (`aggregate` before it), or call a library that releases the GIL. To take an "
            f"item into another process costs about as much as its op: {duration(stage.seconds)}.",
        )
    cores = max(1, int(window.cores))
    # Each process has this number of slots, so that the same number of ops run.
    each = math.ceil(stage.concurrency / cores)
    settings = {"processes": cores, "concurrency": each}
    slots_of_each = "" if each == stage.concurrency else f", and `concurrency={each}`, which counts for each process"
    return Verdict(
        "GIL",
        stage.name,
        evidence,
        f"Run it in processes: `.to(ProcessPoolExecutorConfig({cores}))` before it and `.to(MAIN_PROCESS)` behind it"
        f"{slots_of_each}. Or call a library that releases the GIL.",
        settings=settings,
        bound=sure_gain(window, min(gain_bound(without, stage), max(1.0, by_cores))),
    )


def _holder(window: Window, waiting: StageWindow) -> StageWindow:
    """Return the stage that holds the GIL which another one waits for: the one whose ops compute by far the most."""
    if window.cores_used > _ONE_CORE:
        # Some computes without it.
        return waiting
    most = max(window.stages, key=_computing)
    return most if _computing(most) > 2 * _computing(waiting) else waiting


def _computing(stage: StageWindow) -> float:
    """Return how many of a stage's ops compute at a time, in the mean."""
    return stage.cpu * stage.occupancy * stage.concurrency


def holds_gil(window: Window, stage: StageWindow) -> bool:
    if is_starved(window):
        return False
    is_short = window.cores_waited_for >= CORES_ARE_SHORT and stage.concurrency > 1
    short = _WAITS_WHERE_SHORT if stage.seconds >= _SWITCH else 2 * _WAITS_WHERE_SHORT
    least = short * (1 - 1 / stage.concurrency) if is_short else WAITS_FOR_OTHERS
    if not window.gil or not stage.runs or stage.waits_for_thread < max(least, stage.waits):
        return False
    if stage.sleeps is not None and stage.sleeps < _OFTEN * stage.waits_for_thread / _SWITCH:
        return False
    some_run = sum(each.runs * each.occupancy * each.concurrency for each in window.stages) >= _SOME_OF_A_CORE
    if some_run and window.cores_used <= _ONE_CORE:
        return True
    # Ops that hold it for a part of their time compute on more than one core, but leave others that they could use.
    free = window.cores - window.cores_used - window.cores_waited_for
    if (
        some_run
        and not by_others(window)
        and free >= _SOME_OF_A_CORE
        and stage.cpu < _COMPUTES
        and stage.served_by == "threads"
    ):
        return True
    # Cores are in use as well where other stages compute without the GIL.
    return _SOME_OF_A_CORE <= _computing(stage) <= _ONE_AT_ONCE and stage.cpu < _COMPUTES


def _take_turns(window: Window) -> list[StageWindow]:
    """Return the stages whose ops compute, if no two of them ever do at once, though threads are there for it.

    If cores are short, ops may not run at once for want of a core, which is not evidence about the GIL.
    """
    computing = [stage for stage in window.stages if stage.served_by == "threads" and stage.cpu >= _COMPUTES]
    at_once = sum(_at_once(stage) for stage in window.stages if stage.served_by == "threads")
    if window.cores_waited_for >= CORES_ARE_SHORT:
        return []
    used = window.cores_used + window.cores_waited_for
    in_turns = _SOME_OF_A_CORE <= at_once <= _ONE_AT_ONCE and window.busy_threads >= at_once + _OTHERS_WAIT
    return computing if window.gil and window.looked and in_turns and used >= _SOME_OF_A_CORE else []


def _at_once(stage: StageWindow) -> float:
    """Return how many of a stage's ops run at a time, in the mean.

    If cores are short, threads in its slots that have no core to begin or to end an op only seem to run one.
    """
    in_slots = stage.occupancy * stage.concurrency
    return min(in_slots, stage.rate * stage.seconds) if stage.seconds and stage.rate else in_slots


def waits_for_threads(window: Window, stage: StageWindow, busy: str) -> Verdict | None:
    """Return the verdict on a stage in use whose ops wait for threads, but not for the GIL; None if they do not."""
    if stage.served_by != "threads" or stage.waits_for_thread < WAITS_MOSTLY or stage.cpu >= _COMPUTES:
        return None
    takes = duration(stage.seconds)
    waits = f"{busy}, and threads in its ops wait for another one {percent(stage.waits_for_thread)} of their time"
    # Even if other programs have the cores, the ops wait for threads that want to compute.
    want = window.cores_used + window.cores_waited_for
    # Threads that read from a server compute a little, too.
    least = max(window.cores_used / 2, _SOME_OF_A_CORE if stage.per_second.bytes_read else 0.0)
    if want >= _SOME_OF_A_CORE and window.cores_used_by_others >= least:
        return _others_compute(window, stage, f"{waits}. An item takes {takes}.")
    if stage.concurrency == 1 or is_starved(window):
        return None
    if stage.alone >= _ALONE:
        return Verdict(
            "lock",
            stage.name,
            f"{waits}, while one at a time proceeds: they take turns at a lock. An item takes {takes}.",
            AT_A_LOCK,
        )
    if stage.per_second.bytes_read:
        # What other threads read for it is known, and that they wait for a server.
        return None
    return Verdict(
        "I/O",
        stage.name,
        f"{waits}. An item takes {takes}. The work of the other threads is not seen.",
        "`spdl stack` shows the line that they wait in. If the other threads wait for a disk or the network, try more "
        "slots. If they are a pool, give it more workers.",
    )


OWN_THREADS, MORE_SLOTS = "If the pool of its ops is the limit", "try more slots"


def _others_compute(window: Window, stage: StageWindow, waits: str) -> Verdict:
    evidence = f"{waits} Threads that are not the pipeline's use {window.cores_used_by_others:.1f} cores."
    if window.cores - window.cores_used - window.cores_waited_for < _SOME_OF_A_CORE:
        return Verdict("CPU", stage.name, evidence, "Compute less for each item: all cores are in use.", bound=1.0)
    return Verdict(
        "CPU",
        stage.name,
        f"{evidence} The process uses {window.cores_used:.1f} of {window.cores:g}.",
        f"{OWN_THREADS}, give it more workers; if each op has threads of its own, {MORE_SLOTS}. "
        f"{'If those threads hold the GIL, neither helps: `spdl stack` shows what they run.' if window.gil else ''}",
    )


def gil_in_question(window: Window, stage: StageWindow, *, finds_core: bool) -> str:
    """Return why the gain of more slots is unknown, as the ops hold the GIL for a part of their time, or may do so."""
    # One op at a time waits for no other one, whatever it holds.
    if not window.gil or stage.served_by != "threads" or stage.processes or stage.concurrency == 1:
        return ""
    waits = percent(stage.waits_for_thread)
    if window.cores_waited_for >= CORES_ARE_SHORT and stage.waits_for_thread >= _HARDLY_WAITS:
        return f"Its threads wait for a core, but {waits} of their time for each other: some of them may hold the GIL."
    if finds_core and stage.waits_for_thread >= WAITS_FOR_OTHERS:
        return f"Its threads wait for each other {waits} of their time, as where ops hold the GIL for a part of theirs."
    return ""


# Another process is worth it if so much of a core is free.
_FREE = 0.5
# Items are on their way for at least this share of the time in a slot, while the process uses this much of a core, or
# would if other programs left it one. Otherwise they wait in the executor, after items of another stage.
_MOSTLY, _POOL_COMPUTES = 0.5, 0.5
# From this share on it is spoken of, also where ops take more.
_NOTABLY = 0.2
# The thread that takes results out of a region's processes is in use all the time.
_REGION_IS_FULL = 0.7

_REMEDY = (
    "Return less, or arrays instead of many objects: their content is copied, not pickled. More processes gain "
    "nothing. `gc.set_threshold(100_000)` has the garbage collector look at many objects less often. `spdl profile` "
    "says how long handing over an item takes."
)


def computes_elsewhere(window: Window, stage: StageWindow, evidence: str) -> Verdict:
    """Return the verdict on a stage whose ops compute in other processes, if all of these are in use."""
    used = window.cores_used + cores_elsewhere(window)
    free = window.cores - used - window.cores_waited_for
    processes = min(int(window.cores), math.floor(stage.processes + free / max(stage.cpu, 0.1) + 0.25))
    if free < _FREE or processes <= stage.processes:
        # The parts were measured at different moments, so their sum may be more than there is.
        all_used = min(used, window.cores)
        return Verdict(
            "CPU",
            stage.name,
            f"{evidence} The program and its {stage.processes} workers use {all_used:.1f} of {window.cores:g} cores.",
            "Compute less for each item, or give it more cores.",
            bound=1.0,
        )
    settings = {"max_workers": processes}
    remedy = f"Give its region more processes: `ProcessPoolExecutorConfig({processes})`."
    if not stage.copies:
        settings["concurrency"] = max(processes, stage.concurrency)
        remedy = f"Give its executor more processes: `max_workers={processes}`, with as many slots."
    return Verdict(
        "CPU",
        stage.name,
        f"{evidence} {free:.1f} of {window.cores:g} cores are free.",
        remedy,
        settings=settings,
        bound=sure_gain(window, min(gain_bound(window, stage), processes / stage.processes)),
    )


def waits_in_region(window: Window, stage: StageWindow, kind: str, evidence: str) -> Verdict:
    """Return the verdict on a stage in a region's workers whose ops wait for something, in all slots of all of them."""
    bound = gain_bound(window, stage)
    each = math.ceil(needed(bound, stage.concurrency) / stage.copies)
    return Verdict(
        kind,
        stage.name,
        evidence,
        f"`concurrency={each}`, which counts for each of the region's {stage.copies} workers.",
        settings={"concurrency": each},
        bound=min(bound, each * stage.copies / stage.concurrency),
    )


def waits_in_processes(window: Window, stage: StageWindow, kind: str, evidence: str) -> Verdict:
    """Return the verdict on a stage in an executor's processes whose ops wait for something, in all slots."""
    slots = needed(gain_bound(window, stage), stage.concurrency)
    return Verdict(
        kind,
        stage.name,
        evidence,
        f"What waits needs no process: `concurrency={slots}` without `executor`, if it releases the GIL meanwhile. "
        f"Otherwise an executor with `max_workers={slots}`, too.",
        settings={"concurrency": slots},
    )


def _seconds_on_the_way(window: Window, stage: StageWindow) -> tuple[float, float]:
    """Return how long an item has a slot, and how long of that it is on its way to a process and back; 0 if unknown."""
    computes = window.cores_used + window.cores_waited_for >= _POOL_COMPUTES
    if not (stage.processes and stage.rate and stage.seconds and computes):
        return 0.0, 0.0
    in_slot = stage.occupancy * stage.concurrency / stage.rate
    # With more slots than processes, items wait for one.
    in_process = stage.seconds * max(1.0, stage.concurrency / stage.processes)
    return in_slot, max(0.0, in_slot - in_process)


def _and_on_the_way(window: Window, stage: StageWindow) -> str:
    """Return a remark on how long items are on their way, though that is not the limit; may be empty."""
    in_slot, way = _seconds_on_the_way(window, stage)
    if way < _NOTABLY * in_slot:
        return ""
    return f" Pickling it and its result, and waiting for that, takes {duration(way)} more." if way else ""


def on_the_way(window: Window, stage: StageWindow) -> Verdict | None:
    in_slot, way = _seconds_on_the_way(window, stage)
    if not way or way < _MOSTLY * in_slot:
        return None
    here = f": this process does it under the GIL, and uses {window.cores_used:.1f} cores"
    if stage.arguments is not None:
        here = ""
    in_use = f"Its {slots(stage)} {'is' if stage.concurrency == 1 else 'are'} in use {percent(stage.occupancy)}"
    return Verdict(
        "pickling",
        stage.name,
        f"{in_use} of the time, {duration(in_slot)} for each item, but the op takes only {duration(stage.seconds)} in "
        f"its process. In between items and results are pickled and unpickled, or wait for that{here}.",
        _REMEDY,
    )


def taken_out(window: Window) -> Verdict | None:
    """Return the verdict on a pipeline with a region, if the thread that takes its results out is in use all the time.

    It has no time if the loop leaves the results lying. So a loop that always finds one is not the limit, though it may
    wait for the GIL.
    """
    # A consumer that takes them out itself has the time that it waits for it.
    time = window.consumer_waits if window.in_turns else 1.0
    if not window.region or time < HARDLY_WAITS or window.region_cores < _REGION_IS_FULL * time:
        return None
    who = "The loop" if window.in_turns else "The thread that takes the results out of the region's processes"
    busy = f"{who} is busy {percent(window.region_cores)} of the time"
    what = "unpickling what processes have made" if window.in_turns else "unpickling them"
    return Verdict("pickling", window.region, f"{busy} with {what}, one after the other.", _REMEDY)


# A part that is in use for at least this share of the time is the limit.
_SATURATED = 0.85
# All of a pipeline's life has its beginning in it, in which nothing was in use.
_OF_ALL_ITS_LIFE = 0.8
# Parts that are in use about as much differ by this share of the time.
_SAME = 0.03
# If threads were not looked at, ops that compute this little do not wait for a core or the GIL, and nothing does if all
# ops together use less than some of a core.
_HARDLY_COMPUTES = 0.02
# More threads than cores want to run from this number for each core on, if ops have started some of them.
_CROWDED = 1.5
_TRANSFERS = re.compile(r"transfer|to_device|to_gpu|to_cuda|h2d|pin_memory|device_put", re.IGNORECASE)
_COLLATES = re.compile(r"collate|stack|to_batch|make_batch", re.IGNORECASE)


def saturated(window: Window) -> Verdict | None:
    least = _SATURATED if window.looked else _OF_ALL_ITS_LIFE
    stages = [stage for stage in window.stages if stage.occupancy >= least]
    # One that the consumer itself asks has no more time than that leaves it.
    with_consumer = 1 - window.consumer_waits if window.in_turns else 0.0
    sources = [source for source in window.sources if source.busy + with_consumer >= least]
    if stages:
        # Among stages in use about as much, the one nearest the sink: those before it may be so because of it.
        most = max(stage.occupancy for stage in stages)
        stage = [stage for stage in stages if stage.occupancy >= most - _SAME][-1]
        return on_the_way(window, stage) or _not_told_by_profile(window, stage) or _ops_are_the_limit(window, stage)
    if sources:
        return _source_is_the_limit(window)
    if window.busy_threads >= least * window.num_threads and window.stages:
        return _threads_are_the_limit(window)
    return fights_for_gil(window)


def _source_is_the_limit(window: Window) -> Verdict:
    source = max(window.sources, key=lambda source: source.busy)
    seconds = source.busy / source.rate if source.rate else 0.0
    bound = gain_bound(window, source=False)
    return Verdict(
        "serial source",
        source.name,
        f"Its next() takes {percent(source.busy)} of the time, {duration(seconds)} for each item, one after the other.",
        f"Yield only names or numbers there, and do the work in a stage: `pipe(work, concurrency={needed(bound, 1)})`.",
        settings={"concurrency": needed(bound, 1)},
        bound=min(bound, float(needed(bound, 1))),
    )


def _not_told_by_profile(window: Window, stage: StageWindow) -> Verdict | None:
    if not window.profiled or window.looked:
        return None
    unknown = (
        f"{in_use(stage)}, {duration(stage.seconds)} for each item. Whether its ops wait for each other is not known."
    )
    return Verdict("unclear", stage.name, unknown, watch_longer(window))


def _ops_are_the_limit(window: Window, stage: StageWindow) -> Verdict:
    busy = in_use(stage)
    if not stage.seconds:
        # How long an op takes that succeeds is not known, so nothing is that follows from it.
        remedy = "Repair it first." if stage.lost else watch_longer(window)
        return Verdict("I/O", stage.name, f"{busy}, but no op of it has succeeded yet.", remedy)
    if _is_crowded(window):
        return _crowded(window, stage, busy)
    if waits := waits_for_each_other(window, stage, busy):
        return waits
    if kind := _kind_by_name(window, stage):
        # A stage that gathers batches is called for each item.
        each = "copy" if kind == "transfer" else "item" if stage.gathers else _unit(stage, "batch")
        return _more_slots(window, stage, kind, f"{busy}, {duration(stage.seconds)} for each {each}.")
    one = stage.concurrency == 1 and not stage.pool
    computes = f"{busy}, and {'computes' if one else 'compute'} for {percent(stage.cpu)} of it"
    takes = f"{duration(stage.seconds)} for each {_unit(stage, 'item')}.{_and_on_the_way(window, stage)}{_reads(stage)}"
    if _is_computing(window, stage):
        return _computes(window, stage, f"{computes}: {takes}")
    return _waits(window, stage, f"{computes}: {'it waits' if one else 'they wait'}", takes)


def _reads(stage: StageWindow) -> str:
    read = stage.per_second.bytes_read
    return f" It reads {read / 2**20:.3g} MiB a second from stores on other machines." if read else ""


def _waits(window: Window, stage: StageWindow, waits: str, takes: str) -> Verdict:
    if _may_wait_for_others(window, stage):
        first = "a server" if stage.per_second.bytes_read else "a disk"
        gil = ", the GIL" if window.gil and not stage.processes else ""
        what = f"for {first}, a lock{gil} or a core"
        running = window.looked and not window.profiled and window.ending is None and not stage.processes
        clue = _READS if stage.per_second.bytes_read else _AT_LOCK
        shows = f"`spdl stack` shows the line that each of them waits in{clue} " if running else ""
        return Verdict("unclear", stage.name, f"{waits} {what}, {takes}", f"{shows}{watch_longer(window)}")
    unseen = stage.served_by == "threads" and (window.ending is not None or not window.looked)
    if not unseen or stage.concurrency == 1 or stage.glimpsed == "I/O":
        # A single thread may wait for a lock that another stage holds.
        perhaps = ", perhaps for a lock or a core" if unseen and stage.concurrency == 1 else ""
        return _more_slots(window, stage, "I/O", f"{waits}{perhaps}, {takes}")
    if stage.glimpsed == "lock":
        saw = "A look at them saw all but one wait for another thread, as at a lock."
        return Verdict("lock", stage.name, f"{waits}, {takes} {saw}", AT_A_LOCK)
    what = "I/O, or for another thread's lock"
    if stage.glimpsed == "threads":
        what = "other threads, at a lock or for their results"
    found = _more_slots(window, stage, "I/O", f"{waits} for {what}, {takes}")
    return replace(found, kind="unclear", remedy=f"{watch_longer(window)} {IF_IO}{found.remedy}", bound=None)


IF_IO = "If it is I/O: "
_AT_LOCK = ", such as one that takes a lock."
_READS = ", and the threads that read."


def _may_wait_for_others(window: Window, stage: StageWindow) -> bool:
    """Return whether ops may wait for the GIL or a core, as far as counters show: something computes then."""
    if stage.processes and window.looked:
        # Nor do they get a core that other programs have.
        return is_starved(window) and stage.cpu >= _HARDLY_COMPUTES
    if stage.served_by != "threads":
        return False
    if window.looked:
        # Other programs have the cores, so what was seen of the threads does not tell which of these it is.
        return stage.concurrency > 1 and stage.waits_for_thread >= WAITS_MOSTLY and is_starved(window)
    computing = sum(_computing(each) for each in window.stages if not each.processes)
    return computing >= _SOME_OF_A_CORE and stage.cpu >= _HARDLY_COMPUTES


def _unit(stage: StageWindow, usual: str) -> str:
    return usual if stage.arguments is None else stage.arguments.unit


def _is_crowded(window: Window) -> bool:
    wanted = window.cores_used + window.cores_waited_for
    return wanted >= _CROWDED * window.cores and by_others(window) > 0


def _crowded(window: Window, stage: StageWindow, busy: str) -> Verdict:
    wanted = window.cores_used + window.cores_waited_for
    return Verdict(
        "oversubscription",
        stage.name,
        f"{busy}, and its ops have threads of their own: {wanted:.0f} threads want {window.cores:g} cores.",
        "Let its ops compute in one thread each (`OMP_NUM_THREADS=1`, `cv2.setNumThreads(0)`, "
        f"`torch.set_num_threads(1)`), with `concurrency={max(1, int(window.cores))}`.",
        settings={"concurrency": max(1, int(window.cores)), "threads_per_op": 1},
        bound=None,
    )


def _kind_by_name(window: Window, stage: StageWindow) -> str:
    if _TRANSFERS.search(stage.name) or _TRANSFERS.search(stage.op):
        return "transfer"
    return "batching" if stage.gathers or _is_collating(window, stage) else ""


def _is_collating(window: Window, stage: StageWindow) -> bool:
    if _COLLATES.search(stage.name) or _COLLATES.search(stage.op):
        return True
    index = window.stages.index(stage)
    return index > 0 and window.stages[index - 1].gathers and stage.concurrency == 1


def _is_computing(window: Window, stage: StageWindow) -> bool:
    if stage.cpu >= _COMPUTES or (stage.runs >= _COMPUTES and stage.cpu >= _COMPUTES / 2):
        return True
    used = max(window.cores_used, 1e-9)
    if window.cores <= WORTH * used and not stage.processes and _computing(stage) >= used / 2:
        # More of them would find no core to compute on, whatever they wait for besides.
        return True
    if stage.per_second.bytes_read and stage.waits_for_thread >= WAITS_MOSTLY:
        # Its threads wait for others, which read.
        return False
    # They would, if other programs did not have the cores.
    return stage.runs >= _COMPUTES / 2 and stage.cpu * (used + window.cores_waited_for) / used >= _COMPUTES


def _computes(window: Window, stage: StageWindow, evidence: str) -> Verdict:
    if stage.processes:
        return computes_elsewhere(window, stage, evidence)
    free = window.cores - window.cores_used - window.cores_waited_for
    # Threads that its ops have started want as many cores again for each other op.
    per_slot = max(stage.cpu, stage.runs, 0.1) + by_others(window) / max(1.0, stage.occupancy * stage.concurrency)
    finds_core = free >= 0.5 * per_slot
    if question := gil_in_question(window, stage, finds_core=finds_core):
        return Verdict("CPU", stage.name, f"{evidence} {question}", _about_gil(window))
    if stage.adjustable and finds_core:
        bound = min(gain_bound(window, stage), window.cores / max(window.cores_used, 1e-9))
        concurrency = max(stage.concurrency + 1, math.floor(stage.concurrency + free / per_slot + 0.25))
        gain = min(bound, concurrency / stage.concurrency)
        limits, sure = limits_for(window, stage, concurrency, gain), sure_gain(window, gain)
        has = "are free" if sure is not None else "would be free, but other programs use them, so the gain is not known"
        if window.gil and stage.served_by == "threads" and stage.concurrency > 1:
            in_turns = gain_of_threads(stage.concurrency, concurrency, stage.waits_for_thread)
            # Their short waits for each other may be for the GIL, which then is the next limit.
            sure = None if sure is None else promised(sure, in_turns)
        return Verdict(
            "CPU",
            stage.name,
            f"{evidence} {free:.1f} of {window.cores:g} cores {has}.",
            f"{in_words(limits)}{_if_released(window)}.",
            settings=limits,
            bound=sure,
        )
    return Verdict("CPU", stage.name, f"{evidence} {_uses(window)}", _COMPUTE_LESS, bound=1.0)


def short_of_cores(window: Window) -> Verdict | None:
    """Return that the process has too few cores, though no part is in use all the time: that slows all of them."""
    stage = max(window.stages, key=_computing, default=None)
    if stage is None or not _computing(stage) or not is_starved(window) or window.consumer_waits < HARDLY_WAITS:
        return None
    most = " Its ops compute most." if len(window.stages) > 1 else ""
    evidence = f"No stage is in use all the time, but the process is short of cores.{most} {_uses(window)}"
    if question := gil_in_question(window, stage, finds_core=False):
        return Verdict("CPU", stage.name, f"{evidence} {question}", _about_gil(window))
    return Verdict("CPU", stage.name, evidence, "Compute less for each item, or give it more cores.", bound=1.0)


_COMPUTE_LESS = "Compute less for each item, or give it more cores: with so many ops at once they are all in use."


def _uses(window: Window) -> str:
    return f"The process uses {window.cores_used:.1f} of {window.cores:g} cores."


def _if_released(window: Window) -> str:
    return ", if its ops release the GIL (`spdl profile` says it)" if window.gil and not window.profiled else ""


def _about_gil(window: Window) -> str:
    if window.profiled:
        return "Call a library that releases the GIL, or run it in processes."
    return (
        "`spdl profile` says whether they do: if so, more slots gain little. Then call a library that releases the "
        "GIL, or run it in processes."
    )


def _more_slots(window: Window, stage: StageWindow, kind: str, evidence: str) -> Verdict:
    if stage.copies and stage.adjustable:
        return waits_in_region(window, stage, kind, evidence)
    bound = gain_bound(window, stage)
    if stage.pool:
        workers = needed(bound, stage.pool)
        return Verdict(
            kind,
            stage.name,
            evidence,
            f"Give its executor more workers: `max_workers={workers}`, and as many slots.",
            settings={"max_workers": workers, "concurrency": max(workers, stage.concurrency)},
            bound=min(bound, workers / stage.pool),
        )
    if stage.processes:
        return waits_in_processes(window, stage, kind, evidence)
    if stage.served_by == "executor":
        workers = needed(bound, stage.concurrency)
        # A loader's executor is a single thread.
        unseen = " What its executor's workers do meanwhile is not seen." if stage.arguments is None else ""
        return Verdict(
            kind,
            stage.name,
            f"{evidence}{unseen}",
            f"If they wait: `concurrency={workers}`, and an executor with `max_workers={workers}`. If they compute, in "
            f"processes: no more of both than there are cores ({window.cores:g}).",
            settings={"max_workers": workers, "concurrency": workers},
        )
    if not stage.adjustable:
        return Verdict(
            kind,
            stage.name,
            evidence,
            "Move the work into a stage of its own behind it: `pipe(work, concurrency=...)`.",
            bound=bound if math.isfinite(bound) else None,
        )
    concurrency = needed(bound, stage.concurrency)
    gain = min(bound, concurrency / stage.concurrency)
    limits = limits_for(window, stage, concurrency, gain)
    sure: float | None = gain
    if stage.concurrency > 1 and stage.waits_for_thread >= WAITS_FOR_OTHERS:
        # The thing they wait for may be the next limit.
        evidence = f"{evidence} They wait for other threads {percent(stage.waits_for_thread)} of their time."
        sure = None
    return Verdict(kind, stage.name, evidence, f"{in_words(limits)}.", settings=limits, bound=sure)


def _threads_are_the_limit(window: Window) -> Verdict:
    stage = max(window.stages, key=lambda stage: stage.occupancy * stage.concurrency)
    threads = window.num_threads
    # Of stages with hooks, threads run the ops and the event loop all else.
    slots = sum(each.concurrency for each in window.stages if each.served_by == "threads") or stage.concurrency
    wanted = max(threads + 1, min(MOST_CONCURRENCY, slots))
    evidence = f"{'The only thread is' if threads == 1 else f'All {threads} threads are'} in ops, mostly of this stage."
    if holds_gil(window, stage):
        remedy = "More threads gain nothing: run it in processes."
        return Verdict("GIL", stage.name, evidence, remedy, bound=1.0)
    if waiting := waits_for_threads(window, stage, evidence.rstrip(".")):
        return waiting
    if _is_computing(window, stage) and window.cores - window.cores_used - window.cores_waited_for < _FREE:
        return Verdict("CPU", stage.name, f"{evidence} {_uses(window)}", _COMPUTE_LESS, bound=1.0)
    if _is_computing(window, stage):
        wanted = max(threads + 1, math.ceil(window.cores))
        kind, gain = "CPU", max(1.0, min(window.cores / max(window.cores_used, 1e-9), wanted / threads))
        remedy = f"`num_threads={wanted}`{_if_released(window)}."
    else:
        kind, gain = _kind_by_name(window, stage) or "I/O", min(gain_bound(window, stage), wanted / threads)
        remedy = f"Its ops wait: `num_threads={wanted}`."
    sure = sure_gain(window, gain) if kind == "CPU" else gain
    return Verdict(kind, stage.name, evidence, remedy, settings={"num_threads": wanted}, bound=sure)
