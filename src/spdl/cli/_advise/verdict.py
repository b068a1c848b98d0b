"""Whether a job waits for its loader, for what, and what switching to threads would gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spdl.cli._advise.beginnings import beginnings

if TYPE_CHECKING:
    from spdl.cli._advise.beginnings import Beginnings
    from spdl.cli._advise.measured import Loader

__all__ = ["Costs", "Verdict", "judge", "usable_cores"]

NOT_STARVED = 0.05
"""The share of the time that a loop may wait before its loader is looked at."""

WORTH = 1.1
"""How many times faster a job must become for that to be worth a change.

Less than this, runs of a job differ by themselves, and a prediction that is off by as much may turn out a loss.
"""

SURE = 2
"""How many standard errors make a difference that is no accident."""

LEAST_STEPS = 5
"""Fewer steps than these say nothing."""

LEAST_AHEAD = 2
"""Fewer steps than these have no spread, so nobody knows how much their mean is worth."""

MOST_THREADS = 32
"""More threads than these are not proposed, however long they wait."""

MOSTLY = 0.5
"""Code that holds the GIL for more than this part of its CPU time is Python code for the most part."""

PYTHON_IN_THREADS = 0.8
"""Processes are better for Python code if the prediction for them is at least this part of that for threads."""

CORES_IN_USE = 0.8
"""Of cores that are in use for this part of the time, the step finds none at once."""

COMPUTES = 0.8
"""A step that computes for less than this part of its time waits for something."""

_OBSERVED = ("reading", "decoding", "transforming", "waiting")


@dataclass(frozen=True)
class Costs:
    """What one batch costs, in seconds.

    Attributes:
        period: From one batch to the next, on average.
        wait: The part of it in which the loop waits.
        step: The rest of it.
        step_alone: A step whose batch was there before, while no worker had anything to do. None if this was not
            measured.
        step_cpu: The CPU time of the loop's process in a step.
        parts: What a worker spends its time on: `reading`, `decoding`, `transforming`, `waiting`, `other`, `collating`,
            `pickling`, and `receiving`, which the loop's process does.
        cpu: The CPU time of the dataset's calls and of collating.
        gil: The part of it that holds the GIL in a process with threads, at most.
        idle: The part of the dataset's time that is spent waiting, for a disk or a network.
        used: How many cores the job used, on average.
        got: The share of the time in which a thread could use a core that it had one. Less than 1 if other work, or
            too many workers, keep the cores busy.
    """

    period: float
    wait: float
    step: float
    step_alone: float | None
    step_cpu: float
    parts: dict[str, float]
    cpu: float
    gil: float
    idle: float
    used: float
    got: float

    @property
    def step_without_waiting(self) -> float:
        """A step of a loop that need not wait, as far as is known."""
        return min(self.step_alone or self.step, self.period)


@dataclass(frozen=True)
class Verdict:
    """A verdict on a loader.

    Attributes:
        kind: `unknown` (too few steps), `not starved`, `start` (the beginning of iterations takes more time than the
            waiting in them), or the part of the loader's work that the loop waits for most.
        share: The share of the time, 0 to 1, in which the loop waits.
        start_share: The share of all time that goes to the beginning and the end of iterations.
        costs: What a batch costs. None if `unknown`.
        starts: Whether the start and the end of workers are a share of it that is worth a look.
        headspace: How many times faster the job's steps would be with a loader that costs nothing.
        headspace_measured: Whether this was measured. Otherwise it follows from the time spent waiting.
        headspace_range: Between which values it is, as far as the spread of the steps tells. None unless measured.
        most_headspace: What it may be at most, where it was not measured and the workers keep the cores in use: if all
            that the step waits for are these cores. None otherwise.
        threads: The threads for which the gain is predicted: as many as there are workers, or more if that helps.
        gain: How many times faster the job would be with spdl's threads, by prediction: its steps, and the beginnings
            of its iterations.
        step_gain: How many times faster its steps would be.
        limit: What would be the limit then: `step`, `cores`, `GIL` or `threads`.
        keeping_gain: How many times faster the job would be with `persistent_workers=True`, by prediction. None if
            beginnings are no matter, or it changes nothing.
        anew: Whether the job makes a loader for each iteration, so that it has to make one for all to keep workers.
        processes: How many worker processes would do better than those threads, as Python code holds the GIL. None if
            they would not.
        process_gain: How many times faster the job would be with them, by prediction. Its beginnings stay as they are.
        process_limit: What would be the limit then: `step`, `cores` or `workers`.
        worth: Whether switching to threads is worth a change: the gain is large enough, and neither processes nor
            keeping the workers would do about as well.
    """

    kind: str
    share: float = 0.0
    start_share: float = 0.0
    starts: bool = False
    costs: Costs | None = None
    headspace: float = 1.0
    headspace_measured: bool = False
    headspace_range: tuple[float, float] | None = None
    most_headspace: float | None = None
    threads: int = 0
    gain: float = 1.0
    step_gain: float = 1.0
    limit: str = "step"
    keeping_gain: float | None = None
    anew: bool = False
    processes: int | None = None
    process_gain: float = 1.0
    process_limit: str = "step"
    worth: bool = False

    @property
    def without_waiting(self) -> float:
        """How many times faster the job would be if its steps were as they are and nobody waited for data."""
        return 1 / (1 - self.share) if self.share < 1 else math.inf


def judge(loader: Loader, cores: float) -> Verdict:
    """Judge a loader by what was measured.

    Args:
        loader: The measurements.
        cores: How many cores each rank of the job may use.
    """
    if loader.steps < LEAST_STEPS or loader.waits < LEAST_STEPS or not loader.batches:
        return Verdict("unknown")
    costs = _costs(loader)
    share = costs.wait / costs.period
    start_share = loader.start / (loader.start + loader.wait + loader.step + loader.ahead)
    measured = costs.step_alone is not None
    alone = costs.step_without_waiting
    headspace = costs.period / alone
    between = _range(loader, headspace) if measured else None
    begun = beginnings(loader, costs.period, sum(costs.parts.values()), costs.cpu + costs.idle)
    found = Verdict(
        "", share, start_share, begun.are_notable, costs, headspace, measured, between, threads=loader.workers
    )
    if not measured and loader.workers and _takes_cores(costs, cores):
        found = replace(found, most_headspace=max(headspace, costs.period / costs.step_cpu))
    is_starved = _is_starved(share, between)
    if not is_starved and not found.starts:
        return replace(found, kind="not starved")
    limits = {
        "step": alone,
        "cores": (costs.step_cpu + costs.cpu) / usable_cores(costs, cores),
        "GIL": costs.gil,
    }
    one_thread = costs.cpu + costs.idle
    threads = max(loader.workers, min(MOST_THREADS, math.ceil(one_thread / max(limits.values()))))
    limits["threads"] = one_thread / threads
    limit = max(limits, key=limits.__getitem__)
    # Steps that hardly wait become no faster, but slower if threads load less than the workers do.
    step_gain = costs.period / limits[limit] if is_starved else min(1.0, costs.period / limits[limit])
    first = found.starts and (not is_starved or begun.beyond_batches >= loader.wait)
    kind = "start" if first else _cause(costs, loader.workers)
    gain = begun.gain(begun.with_threads, step_gain)
    found = replace(found, kind=kind, threads=threads, gain=gain, step_gain=step_gain, limit=limit)
    found = _with_kept_workers(replace(found, worth=gain >= WORTH), begun)
    if not is_starved or limit not in ("GIL", "cores"):
        return found
    return _with_processes(found, costs, begun, loader.workers, cores)


def _takes_cores(costs: Costs, cores: float) -> bool:
    """Return whether the step may wait for cores that the workers use."""
    in_use = costs.used >= CORES_IN_USE * usable_cores(costs, cores)
    return in_use and 0 < costs.step_cpu < COMPUTES * costs.step


def _with_kept_workers(found: Verdict, begun: Beginnings) -> Verdict:
    """Return a verdict with what it gains to keep the workers, which is a smaller change than to switch."""
    if not found.starts or begun.with_kept_workers is None:
        return found
    gain = begun.gain(begun.with_kept_workers)
    worth = found.worth and (gain < WORTH or found.gain >= WORTH * gain)
    return replace(found, keeping_gain=gain, anew=begun.anew, worth=worth)


def _with_processes(found: Verdict, costs: Costs, begun: Beginnings, workers: int, cores: float) -> Verdict:
    """Return a verdict with what processes would gain, if they do better than threads, which run Python code in turns.

    What it takes to hand batches over is known only where there are worker processes already.
    """
    sending, receiving = costs.parts.get("pickling", 0.0), costs.parts.get("receiving", 0.0)
    limits = {
        "step": costs.step_without_waiting + receiving,
        "cores": (costs.step_cpu + receiving + costs.cpu + sending) / usable_cores(costs, cores),
    }
    one_worker = costs.cpu + costs.idle + sending
    # Each has memory of its own, so there are no more than have work. Those there are stay.
    processes = max(1, workers, min(MOST_THREADS, math.ceil(one_worker / max(limits.values()))))
    limits["workers"] = one_worker / processes
    limit = max(limits, key=limits.__getitem__)
    gain = costs.period / limits[limit]
    # Where the cores are the limit of either, Python code in threads also keeps the loop's own Python code waiting.
    better = WORTH if found.limit == "GIL" else PYTHON_IN_THREADS if costs.gil >= MOSTLY * costs.cpu else math.inf
    if gain < better * found.step_gain:
        return found
    # As many as there are do what they do.
    gain = begun.gain(begun.now, gain if processes > workers else min(gain, 1.0))
    return replace(found, processes=processes, process_gain=gain, process_limit=limit, worth=False)


def _is_starved(share: float, headspace: tuple[float, float] | None) -> bool:
    """Return whether a loader is worth a change.

    Args:
        share: The share of the time in which the loop waits. What a loop waits for includes work that it has to do
            itself, such as taking batches out of shared memory.
        headspace: Between which values the measured headspace is.
    """
    if share < NOT_STARVED:
        return False
    low, high = headspace or (1.0, math.inf)
    if low <= WORTH <= high:
        # Few steps were measured, or they differ much. The waiting is known from all steps.
        return 1 / (1 - share) >= WORTH
    return low > WORTH


def _range(loader: Loader, headspace: float) -> tuple[float, float]:
    """Return between which values the measured headspace is, by the spread of the steps."""
    usual = _relative_error(loader.periods, loader.period, loader.period_squares)
    ahead = _relative_error(loader.ahead_steps, loader.ahead, loader.ahead_squares)
    error = 1 + SURE * math.hypot(usual, ahead)
    return max(1.0, headspace / error), headspace * error


def _relative_error(count: int, total: float, squares: float) -> float:
    """Return the standard error of a mean, as a part of it. One value says nothing of it."""
    if count < LEAST_AHEAD or not total:
        return 1.0
    spread = max(0.0, squares / count - (total / count) ** 2) * count / (count - 1)
    return math.sqrt(spread / count) * count / total


def usable_cores(costs: Costs, cores: float) -> float:
    """Return how many of the cores the job can have beside the other work of the machine."""
    return min(cores, max(costs.used, cores * costs.got))


def _costs(loader: Loader) -> Costs:
    wait, step = loader.wait / loader.waits, loader.step / loader.steps
    fetch, fetch_cpu = loader.fetch / loader.batches, loader.fetch_cpu / loader.batches
    collate_cpu = loader.collate_cpu / loader.batches
    observed = {kind: loader.kinds.get(kind, 0.0) / loader.observed if loader.observed else 0.0 for kind in _OBSERVED}
    parts = {kind: share * fetch for kind, share in observed.items()}
    parts["other"] = max(0.0, fetch - sum(parts.values()))
    parts["collating"] = loader.collate / loader.batches
    if loader.sent:
        parts["pickling"] = loader.send_cpu / loader.sent
        parts["receiving"] = loader.wait_cpu / loader.waits
    held = 1 - min(1.0, loader.released / loader.observed) if loader.observed else 1.0
    got = loader.on_core / (loader.on_core + loader.for_core) if loader.on_core else 1.0
    # A thread that is not on a core, and does not wait for one, waits for something else.
    idle = min(parts["reading"] + parts["waiting"], max(0.0, fetch - fetch_cpu / got))
    step_cpu, wait_cpu = loader.step_cpu / loader.steps, loader.wait_cpu / loader.waits
    cpu = fetch_cpu + collate_cpu
    # Without workers, the loop's own thread makes the batches while it waits.
    made = cpu + parts.get("pickling", 0.0) if loader.workers else 0.0
    return Costs(
        period=wait + step,
        wait=wait,
        step=step,
        step_alone=loader.ahead / loader.ahead_steps if loader.ahead_steps >= LEAST_AHEAD else None,
        step_cpu=step_cpu,
        parts=parts,
        cpu=cpu,
        gil=held * fetch_cpu,
        idle=idle,
        used=(step_cpu + wait_cpu + made) / (wait + step),
        got=got,
    )


def _cause(costs: Costs, workers: int) -> str:
    # What the loop's process does to receive a batch, nobody else can do meanwhile.
    pickling = costs.parts.get("pickling", 0.0) + max(1, workers) * costs.parts.get("receiving", 0.0)
    causes = {kind: seconds for kind, seconds in costs.parts.items() if kind != "receiving"} | {"pickling": pickling}
    return max(causes, key=causes.__getitem__)
