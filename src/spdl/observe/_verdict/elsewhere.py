"""What limits, and what helps, where ops run in other processes: in an executor's, or in the workers of a region."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .gains import cores_elsewhere, duration, gain_bound, needed, percent, slots, sure_gain
from .verdict import Verdict

if TYPE_CHECKING:
    from spdl.observe._window.window import StageWindow, Window

__all__ = ["computes_elsewhere", "on_the_way", "taken_out", "waits_in_processes", "waits_in_region"]

# Another process is worth it if so much of a core is free.
_FREE = 0.5
# Items are on their way for this share of the time in a slot, at least, and the process computes for so much of a core
# meanwhile, or would if other programs left it one. Otherwise they wait in the executor, behind those of another stage
# for one.
_MOSTLY, _COMPUTES = 0.5, 0.5
# The thread that takes results out of a region's processes is in use all the time.
_SATURATED = 0.7

_REMEDY = (
    "Return less, or arrays instead of many objects: their content is copied, not pickled. More processes gain "
    "nothing. `gc.set_threshold(100_000)` has the garbage collector look at many objects less often. `spdl profile` "
    "says how long handing over an item takes."
)


def computes_elsewhere(window: Window, stage: StageWindow, evidence: str) -> Verdict:
    """Return the verdict on a stage whose ops compute in other processes, all of which are in use."""
    used = window.cores_used + cores_elsewhere(window)
    free = window.cores - used - window.cores_waited_for
    processes = min(int(window.cores), math.floor(stage.processes + free / max(stage.cpu, 0.1) + 0.25))
    if free < _FREE or processes <= stage.processes:
        return Verdict(
            "CPU",
            stage.name,
            f"{evidence} With its {stage.processes} processes this one uses {used:.1f} of {window.cores:g} cores.",
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


def on_the_way(window: Window, stage: StageWindow) -> Verdict | None:
    """Return the verdict on a stage in the processes of an executor, all of whose slots are in use, if that is why."""
    computes = window.cores_used + window.cores_waited_for >= _COMPUTES
    if not (stage.processes and stage.rate and stage.seconds and computes):
        return None
    in_slot = stage.occupancy * stage.concurrency / stage.rate
    # Where there are more slots than processes, items wait for one.
    in_process = stage.seconds * max(1.0, stage.concurrency / stage.processes)
    if in_slot - in_process < _MOSTLY * in_slot:
        return None
    in_use = f"Its {slots(stage)} {'is' if stage.concurrency == 1 else 'are'} in use {percent(stage.occupancy)}"
    return Verdict(
        "pickling",
        stage.name,
        f"{in_use} of the time, {duration(in_slot)} for each item, but the op takes only {duration(stage.seconds)} in "
        "its process. In between items and results are pickled and unpickled, or wait for that: this process does it "
        f"under the GIL, and uses {window.cores_used:.1f} cores.",
        _REMEDY,
    )


def taken_out(window: Window) -> Verdict | None:
    """Return the verdict on a pipeline with a region, if the thread that takes its results out is in use all the time.

    It has no time where the loop leaves the results lying. So a loop that always finds one, though it may wait for the
    GIL meanwhile, is not what limits it.
    """
    if not window.region or window.region_cores < _SATURATED:
        return None
    return Verdict(
        "pickling",
        window.region,
        "The thread that takes the results out of the region's processes is busy "
        f"{percent(window.region_cores)} of the time: it unpickles them, one after the other.",
        _REMEDY,
    )
