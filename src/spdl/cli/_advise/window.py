"""A job of PyTorch's DataLoader as it was measured: the window that the verdict on it judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.observe import SourceWindow, StageWindow, Window
from spdl.pipeline._report.page import LoaderArguments, StageArguments

if TYPE_CHECKING:
    from spdl.cli._advise.judge import Costs
    from spdl.cli._advise.measured import JobLoader


_NAME = "DataLoader"
# Workers make these batches ahead, unless the job says otherwise.
_AHEAD = 2
_WORKERS = StageArguments(
    unit="batch",
    slot="worker",
    several="num_workers",
    otherwise="Let the dataset do less for each item.",
    note="Each is a process with memory of its own.",
    order="in_order=False",
)


def window_of_job(loader: JobLoader, costs: Costs, cores: float, *, starved: bool, starting: float) -> Window:
    """Return what the loop and the workers of a loader did, from one batch to the next.

    Args:
        loader: The measurements.
        costs: The costs of a batch by these.
        cores: How many cores each rank of the job may use.
        starved: Whether a loader that costs nothing would gain anything; otherwise the loop finds its batches ready.
        starting: The share of all time that went to the beginnings and ends of iterations, without the making of the
            first batches.
    """
    workers = loader.workers
    rate = 1 / costs.period
    elapsed = (loader.wait + loader.step) / max(1, loader.processes)
    stage = _workers(loader, costs, rate) if workers else None
    in_loop = SourceWindow(_NAME, min(1.0, costs.wait / costs.period), rate, 0.0)
    ahead = max(1, workers * (loader.description.get("prefetch_factor") or _AHEAD))
    loop_cpu = costs.used * costs.period - (0.0 if stage is None else costs.cpu)
    others = loader.others_cpu / max(1, loader.batches)
    return Window(
        seconds=elapsed,
        num_threads=1,
        busy_threads=0.0,
        cores=cores,
        # Each process has its own.
        gil=False,
        # Its parts were measured at different moments, so their sum may be more than there is.
        cores_used=min(cores, (loop_cpu + others) * rate),
        cores_used_by_others=min(cores, others * rate),
        cores_waited_for=loader.all_for_core / max(1, loader.processes) / elapsed if workers else 0.0,
        consumer_waits=costs.wait / costs.period if starved else min(costs.wait / costs.period, _NOTHING),
        consumer_waits_for=0.0,
        delivered=rate,
        sink_size=0 if starved else ahead,
        sink_capacity=ahead,
        sink_fill=0.0 if starved else 1.0,
        sources=() if stage is not None else (in_loop,),
        stages=() if stage is None else (stage,),
        loader=LoaderArguments(_NAME, (_WORKERS,), source="Make the batches in workers.", source_several="num_workers"),
        in_turns=True,
        region=_NAME if stage is not None else "",
        region_cores=costs.parts.get("receiving", 0.0) * rate,
        starting=starting,
    )


# Waiting that no loader could save is none.
_NOTHING = 0.049


def _workers(loader: JobLoader, costs: Costs, rate: float) -> StageWindow:
    making = costs.parts_of_workers()
    # While the loop's process receives a batch, no worker's batch can be received.
    on_its_way = costs.parts.get("pickling", 0.0) + loader.workers * costs.parts.get("receiving", 0.0)
    in_use = min(1.0, (making + on_its_way) * rate / loader.workers)
    waits = costs.wait * rate
    cpu = min(1.0, costs.cpu / making) if making else 0.0
    runs = min(1.0, cpu / costs.got) if costs.got else cpu
    return StageWindow(
        name=_NAME,
        # The function that takes the most time.
        op="collate" if costs.parts["collating"] > making / 2 else "dataset",
        gathers=False,
        served_by="executor",
        adjustable=True,
        concurrency=loader.workers,
        pool=0,
        occupancy=in_use,
        rate=rate,
        seconds=making,
        cpu=cpu,
        failing=0.0,
        lost=0.0,
        # Batches come in order: while the loop waits for one, workers that are ahead have nothing to do.
        held=min(1 - in_use, waits) if loader.workers > 1 else 0.0,
        buffered=0,
        oldest=0.0,
        runs=runs,
        waits_for_thread=0.0,
        waits=1 - runs,
        processes=loader.workers,
        arguments=_WORKERS,
    )
