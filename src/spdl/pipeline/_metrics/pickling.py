"""What it means that items are on their way between processes for longer than the ops work on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gains import duration, percent, slots
from .verdict import Verdict

if TYPE_CHECKING:
    from .measures import PipelineMeasures, StageMeasures

__all__ = ["on_the_way", "taken_out"]

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


def on_the_way(measures: PipelineMeasures, stage: StageMeasures) -> Verdict | None:
    """Return the verdict on a stage in the processes of an executor, all of whose slots are in use, if that is why."""
    computes = measures.cores_used + measures.cores_waited_for >= _COMPUTES
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
        f"under the GIL, and uses {measures.cores_used:.1f} cores.",
        _REMEDY,
    )


def taken_out(measures: PipelineMeasures) -> Verdict | None:
    """Return the verdict on a pipeline with a region, if the thread that takes its results out is in use all the time.

    It has no time where the loop leaves the results lying. So a loop that always finds one, though it may wait for the
    GIL meanwhile, is not what limits it.
    """
    if not measures.region or measures.region_cores < _SATURATED:
        return None
    return Verdict(
        "pickling",
        measures.region,
        "The thread that takes the results out of the region's processes is busy "
        f"{percent(measures.region_cores)} of the time: it unpickles them, one after the other.",
        _REMEDY,
    )
