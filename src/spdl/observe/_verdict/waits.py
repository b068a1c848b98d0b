"""Verdicts on ops that wait for each other: for the GIL, at a lock, or for the result of another thread."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from spdl.observe._verdict.verdict import (
    OF_A_LOCK,
    WORTH,
    Verdict,
    by_others,
    duration,
    gain_bound,
    in_use,
    percent,
    sure_gain,
)

if TYPE_CHECKING:
    from spdl.observe._window.window import StageWindow, Window


# Threads that wait for another thread for this share of their ops' time, and more than for anything else, while the
# process uses hardly more than a core and one of them computes or would if a core was free, wait for the GIL. So do
# threads of a stage if just one computes at any moment.
WAITS_FOR_OTHERS = 0.1
# If other programs have the cores, and this number of threads wait for one, those that wait for the GIL are awake much
# of the time, as they want a core to ask for it again. And threads without it sleep now and then, as another one that
# has no core holds a lock. The limit for the share of waiting threads lies between these two cases. If the process
# waits for cores longer than it has them, both look alike: beside six busy loops for each core, threads of ops that
# hold the GIL waited 29 to 61 % of the time for another one, and those of ops that release it 12 to 50 %.
_CORES_ARE_SHORT, _WAITS_WHERE_SHORT = 0.5, 0.16
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
# The ops compute if they do for this share of their time.
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
    """Return the verdict on a stage in use whose ops wait for each other most of all; None if they do not.

    Args:
        window: The window.
        stage: The stage.
        busy: The sentence that says that it is in use.
    """
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


def is_starved(window: Window) -> bool:
    """Return whether the process is so short of cores that waits of its threads for each other say nothing."""
    return window.cores_waited_for >= max(_CORES_ARE_SHORT, window.cores_used)


def holds_gil(window: Window, stage: StageWindow) -> bool:
    if is_starved(window):
        return False
    is_short = window.cores_waited_for >= _CORES_ARE_SHORT and stage.concurrency > 1
    short = _WAITS_WHERE_SHORT if stage.seconds >= _SWITCH else 2 * _WAITS_WHERE_SHORT
    least = short * (1 - 1 / stage.concurrency) if is_short else WAITS_FOR_OTHERS
    if not window.gil or not stage.runs or stage.waits_for_thread < max(least, stage.waits):
        return False
    if not _may_wait_for_gil(stage):
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
    if window.cores_waited_for >= _CORES_ARE_SHORT:
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


def _may_wait_for_gil(stage: StageWindow) -> bool:
    """Return whether the threads that wait for another thread may wait for the GIL."""
    return stage.sleeps is None or stage.sleeps >= _OFTEN * stage.waits_for_thread / _SWITCH


def waits_for_threads(window: Window, stage: StageWindow, busy: str) -> Verdict | None:
    """Return the verdict on a stage in use whose ops wait for threads, but not for the GIL; None if they do not.

    Args:
        window: The window.
        stage: The stage.
        busy: The sentence that says that it is in use.
    """
    if stage.served_by != "threads" or stage.waits_for_thread < WAITS_MOSTLY or stage.cpu >= _COMPUTES:
        return None
    takes = duration(stage.seconds)
    waits = f"{busy}, and threads in its ops wait for another one {percent(stage.waits_for_thread)} of their time"
    # Even if other programs have the cores, the ops wait for threads that want to compute.
    want = window.cores_used + window.cores_waited_for
    if want >= _SOME_OF_A_CORE and window.cores_used_by_others >= window.cores_used / 2:
        return _others_compute(window, stage, f"{waits}. An item takes {takes}.")
    if stage.concurrency == 1 or is_starved(window):
        return None
    if stage.alone >= _ALONE:
        return Verdict(
            "lock",
            stage.name,
            f"{waits}, while one at a time goes on: they take turns at a lock. An item takes {takes}.",
            AT_A_LOCK,
        )
    return Verdict(
        "I/O",
        stage.name,
        f"{waits}. An item takes {takes}. The work of the other threads is not seen.",
        "`spdl stack` shows the line that they wait in. If the other threads wait for a disk or the network, try more "
        "slots. If they are a pool, give it more workers.",
    )


OWN_THREADS, MORE_SLOTS = "If the pool of its ops is the limit", "try more slots"


def _others_compute(window: Window, stage: StageWindow, waits: str) -> Verdict:
    """Return the verdict on a stage whose ops wait for threads that are not the pipeline's and compute."""
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
    """Return why the gain of more slots is unknown, as the ops hold the GIL for a part of their time, or may do so.

    Args:
        window: The window.
        stage: The stage.
        finds_core: Whether there seems to be a core for another slot.
    """
    # One op at a time waits for no other one, whatever it holds.
    if not window.gil or stage.served_by != "threads" or stage.processes or stage.concurrency == 1:
        return ""
    waits = percent(stage.waits_for_thread)
    if window.cores_waited_for >= _CORES_ARE_SHORT and stage.waits_for_thread >= _HARDLY_WAITS:
        return f"Its threads wait for a core, but {waits} of their time for each other: some of them may hold the GIL."
    if finds_core and stage.waits_for_thread >= WAITS_FOR_OTHERS:
        return f"Its threads wait for each other {waits} of their time, as where ops hold the GIL for a part of theirs."
    return ""
