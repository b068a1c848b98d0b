"""What helps a stage whose ops run in other processes, or in the workers of a region, each of which has slots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .gains import cores_elsewhere, gain_bound, needed, sure_gain
from .verdict import Verdict

if TYPE_CHECKING:
    from .measures import PipelineMeasures, StageMeasures

__all__ = ["computes_elsewhere", "waits_in_processes", "waits_in_region"]

# Another process is worth it if so much of a core is free.
_FREE = 0.5


def computes_elsewhere(measures: PipelineMeasures, stage: StageMeasures, evidence: str) -> Verdict:
    """Return the verdict on a stage whose ops compute in other processes, all of which are in use."""
    used = measures.cores_used + cores_elsewhere(measures)
    free = measures.cores - used - measures.cores_waited_for
    processes = min(int(measures.cores), math.floor(stage.processes + free / max(stage.cpu, 0.1) + 0.25))
    if free < _FREE or processes <= stage.processes:
        return Verdict(
            "CPU",
            stage.name,
            f"{evidence} With its {stage.processes} processes this one uses {used:.1f} of {measures.cores:g} cores.",
            "Compute less for each item, or give it more cores.",
            predicted_gain=1.0,
        )
    settings = {"max_workers": processes}
    remedy = f"Give its region more processes: `ProcessPoolExecutorConfig({processes})`."
    if not stage.copies:
        settings["concurrency"] = max(processes, stage.concurrency)
        remedy = f"Give its executor more processes: `max_workers={processes}`, with as many slots."
    return Verdict(
        "CPU",
        stage.name,
        f"{evidence} {free:.1f} of {measures.cores:g} cores are free.",
        remedy,
        settings=settings,
        predicted_gain=sure_gain(measures, min(gain_bound(measures, stage), processes / stage.processes)),
    )


def waits_in_region(measures: PipelineMeasures, stage: StageMeasures, kind: str, evidence: str) -> Verdict:
    """Return the verdict on a stage in a region's workers whose ops wait for something, in all slots of all of them."""
    bound = gain_bound(measures, stage)
    each = math.ceil(needed(bound, stage.concurrency) / stage.copies)
    return Verdict(
        kind,
        stage.name,
        evidence,
        f"`concurrency={each}`, which counts for each of the region's {stage.copies} workers.",
        settings={"concurrency": each},
        predicted_gain=min(bound, each * stage.copies / stage.concurrency),
    )


def waits_in_processes(measures: PipelineMeasures, stage: StageMeasures, kind: str, evidence: str) -> Verdict:
    """Return the verdict on a stage in an executor's processes whose ops wait for something, in all slots."""
    slots = needed(gain_bound(measures, stage), stage.concurrency)
    return Verdict(
        kind,
        stage.name,
        evidence,
        f"What waits needs no process: `concurrency={slots}` without `executor`, if it releases the GIL meanwhile. "
        f"Otherwise an executor with `max_workers={slots}`, too.",
        settings={"concurrency": slots},
    )
