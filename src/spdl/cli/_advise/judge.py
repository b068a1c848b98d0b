"""The costs of a job's batches, the verdict on them, and which of the ways that were tried is worth a change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import TYPE_CHECKING

from spdl.observe import SourceWindow, StageWindow, Verdict, Window, verdict
from spdl.observe._verdict.verdict import WORTH
from spdl.pipeline._report.page import LoaderArguments, StageArguments

if TYPE_CHECKING:
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

    If a loader that costs nothing would gain nothing (`starved` is False), the loop finds its batches ready. `starting`
    is the share of all time that went to the beginnings and ends of iterations.
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
    making = sum(costs.making.values())
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
        occupancy=in_use,
        rate=rate,
        seconds=making,
        cpu=cpu,
        # Batches come in order: while the loop waits for one, workers that are ahead have nothing to do.
        held=min(1 - in_use, waits) if loader.workers > 1 else 0.0,
        runs=runs,
        waits=1 - runs,
        processes=loader.workers,
        arguments=_WORKERS,
    )


NOTABLE = 0.1
"""Beginnings that take this share of the time, apart from their first batches, are looked at."""


@dataclass(frozen=True)
class Beginnings:
    """The cost of beginnings and ends.

    `share` is the part of the job's time that goes to the start and the end of workers, without the making of the first
    batches; for the others see `LoaderVerdict`.
    """

    share: float
    keeping_bound: float | None
    anew: bool


def beginnings(loader: JobLoader, period: float, batch: float) -> Beginnings:
    """Return what the beginnings of iterations cost. A step takes a period, and a worker `batch` seconds."""
    now, epochs = loader.start, max(1, loader.epochs)
    # In a loop without workers, the rest is what the dataset does at its first batch: it opens files.
    beyond = max(0.0, now - epochs * batch) if loader.workers else 0.0
    total = now + period * (loader.steps + loader.ahead_steps)
    bound, anew = None, False
    if loader.workers and not loader.keeps_workers and epochs > loader.processes:
        anew = loader.made >= epochs
        # Workers of each loader start once. Of one line, there may be some for other datasets, or other ranks.
        starts = loader.processes if anew else loader.made
        # Workers that are kept end after the last iteration, which no loop waits for.
        saved = max(0.0, beyond - loader.end) * (1 - starts / epochs) + min(loader.end, beyond)
        bound = total / (total - saved)
    return Beginnings(beyond / total, bound, anew)


LEAST_TURNS = 2
"""A way that took fewer turns has no spread, so it is not recommended."""

ALIKE = 1.05
"""Two ways are about as fast if neither is more than this many times faster than the other."""


@dataclass(frozen=True)
class TriedWay:
    """A way to load, and its measurements.

    Attributes:
        what: `now`, the job's own way; `thread` or `process`, as `PyTorchDataLoader` chooses; `unproven thread`,
            threads that it does not choose; `more`, more worker processes of PyTorch's `DataLoader`; `images`, an
            `ImageLoader` with the job's photos in place of its dataset.
        workers: How many threads or processes load.
        reason: Why `PyTorchDataLoader` chooses what it does, or which photos the `ImageLoader` loads.
        per_second: How many steps it took per second, the beginnings of iterations aside.
        start: How many seconds it took to the first batch of an iteration.
        gain: How many times faster than the job's own way it was, the median of the turns that they took one after the
            other.
        least_gain, most_gain: The same in the turn in which it was least, and in which it was most.
        own: What the gains are multiplied by: how fast the job's own way was in the trial, if it was slower there than
            in the job.
        turns: In how many turns it was compared with the job's own way.
        is_bound: Whether more may be gained than was in so short a trial, where few steps or a stand-in for them do not
            show it.
        error: Why it could not be tried; empty if it could.
    """

    what: str
    workers: int
    reason: str
    per_second: float = 0.0
    start: float = 0.0
    gain: float = 0.0
    least_gain: float = 0.0
    most_gain: float = 0.0
    own: float = 1.0
    turns: int = 0
    is_bound: bool = False
    error: str = ""

    @property
    def is_faster(self) -> bool:
        return self.turns >= LEAST_TURNS and self.least_gain > self.own


# A trial shows the gain of a job if the job's own way is as fast there as in the job, within the first factor, and
# turns differ by no more than the second.
_LIKE_THE_JOB, _LIKE_EACH_OTHER = 1.15, 1.6
# The stand-in for the step may be too long if steps take the first share of the time; in threads, if they compute for
# the second one, since the job's own steps also take batches out of memory that worker processes have filled.
_STEPS, _OF_SHARED_MEMORY = 0.75, 0.2
_IN_THREADS = ("thread", "unproven thread", "images")


def tried(loader: JobLoader, period: float, *, with_starts: bool) -> tuple[TriedWay, ...]:
    """Return the ways that were tried.

    With starts, the gain is for iterations as long as the job's, beginnings and ends included; otherwise for steps.
    """
    found = list[TriedWay]()
    steps = (loader.steps + loader.ahead_steps) / max(1, loader.epochs)
    own, unlike = list[float](), 1.0
    for way in loader.trial.get("ways", ()):
        known = {name: way[name] for name in ("what", "workers", "reason")}
        if way["error"] or not way["seconds"] or not all(way["seconds"]):
            why = way["error"] or loader.trial.get("error") or "it took too long to begin"
            found.append(TriedWay(**known, error=why))
            continue
        start = mean(way["starts"])
        around = start + mean(way["ends"]) if with_starts else 0.0
        took = [
            steps * seconds / batches + around for batches, seconds in zip(way["batches"], way["seconds"], strict=True)
        ]
        per_second = sum(way["batches"]) / sum(way["seconds"])
        if way["what"] == "now":
            own, unlike = took, per_second * period
        gains = [now / then for now, then in zip(own, took, strict=False)] or [0.0]
        stands_in = not loader.trial["step_alone"] and per_second * loader.trial["step_seconds"] >= _STEPS
        if loader.workers and way["what"] in _IN_THREADS:
            stands_in |= per_second * loader.trial["step_cpu"] >= _OF_SHARED_MEMORY
        uneven = max(gains) > _LIKE_EACH_OTHER * min(gains)
        is_bound = min(gains) > 1 and (stands_in or uneven or not 1 / _LIKE_THE_JOB <= unlike <= _LIKE_THE_JOB)
        found.append(
            TriedWay(
                **known,
                per_second=per_second,
                start=start,
                # The job itself is the comparison if it is faster than its own way in the trial.
                gain=median(gains) * min(1.0, unlike),
                is_bound=is_bound,
                least_gain=min(gains) * min(1.0, unlike),
                most_gain=max(gains) * min(1.0, unlike),
                own=min(1.0, unlike),
                turns=min(len(own), len(took)),
            )
        )
    return tuple(found)


def best_of(ways: Sequence[TriedWay], least: float) -> TriedWay | None:
    """Return the way to change to by a line or two: the simplest of those that are about as fast as the fastest one.

    The ways are in order, the simpler ones first. Their gain is at least `least` by the median of their turns, and
    above 1 in all.
    """
    gaining = [way for way in ways if way.what != "images" and way.gain >= least and way.is_faster]
    for safe in (True, False):
        worth = [way for way in gaining if way.what != "unproven thread" or not safe]
        if worth:
            fastest = max(way.gain for way in worth)
            return next(way for way in worth if way.gain * ALIKE >= fastest)
    return None


SURE = 2
"""How many standard errors make a difference that is not an accident."""

LEAST_STEPS = 5
"""Fewer steps than these say nothing."""

LEAST_AHEAD = 2
"""Fewer steps than these have no spread, so it is unknown how much their mean is worth."""

CORES_IN_USE = 0.8
"""Of cores that are in use for this part of the time, the step finds none at once."""

COMPUTES = 0.8
"""A step that computes for less than this part of its time waits for something."""

_OBSERVED = ("reading", "decoding", "transforming", "waiting")
_HANDING_OVER = ("pickling", "receiving")


@dataclass(frozen=True)
class Costs:
    """The cost of one batch, in seconds.

    Attributes:
        period: From one batch to the next, on average.
        wait: The part of it in which the loop waits.
        step: The rest of it.
        step_alone: A step whose batch was there before, while no worker had anything to do. None if this was not
            measured.
        step_cpu: The CPU time of the main process in a step.
        parts: The time of a worker by its work: `reading`, `decoding`, `transforming`, `waiting`, `other`, `collating`,
            `pickling`, and `receiving`, which the loop's process does.
        cpu: The CPU time of the dataset's calls and of collating.
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
    used: float
    got: float

    @property
    def making(self) -> dict[str, float]:
        """The parts without what hands a batch over."""
        return {kind: seconds for kind, seconds in self.parts.items() if kind not in _HANDING_OVER}

    def most(self, workers: int) -> str:
        # While the main process receives a batch, no other process can do that.
        handing = self.parts.get("pickling", 0.0) + max(1, workers) * self.parts.get("receiving", 0.0)
        parts = {**self.making, "pickling": handing}
        return max(parts, key=parts.__getitem__)


@dataclass(frozen=True)
class LoaderVerdict:
    """The verdict on a loader, and what was measured and tried.

    Attributes:
        limit: The limit of the job. Its kind is ``"none"`` if too few steps were measured.
        share: The share of the time, 0 to 1, in which the loop waits.
        start_share: The share of all time that goes to the beginning and the end of iterations.
        costs: The cost of a batch. None if too few steps were measured.
        most: The part of the loader's work that takes the most time.
        starts: Whether the start and the end of workers are a share of it that is worth a look.
        headspace: How many times faster the job's steps would be with a loader that costs nothing.
        headspace_measured: Whether this was measured. Otherwise it follows from the time spent waiting.
        headspace_range: Between which values it is, as far as the spread of the steps tells. None unless measured.
        most_headspace: Its upper bound if the step hardly waits for data, but perhaps for cores: what was measured
            while the workers rested; or, if they keep the cores in use, the case in which the step waits only for
            these. None otherwise.
        tried: The ways to load that were tried, the job's own first; empty if none was.
        best: The one of them that is worth a change; None if none is.
        keeping_bound: How many times faster the job would be at most with `persistent_workers=True`. None if beginnings
            do not matter, or that changes nothing: it has no workers, keeps them already, or no process of the job
            iterates twice.
        anew: Whether the job makes a loader for each iteration, so that it has to make one for all to keep workers.
    """

    limit: Verdict
    share: float = 0.0
    start_share: float = 0.0
    starts: bool = False
    costs: Costs | None = None
    most: str = ""
    headspace: float = 1.0
    headspace_measured: bool = False
    headspace_range: tuple[float, float] | None = None
    most_headspace: float | None = None
    tried: tuple[TriedWay, ...] = ()
    best: TriedWay | None = None
    keeping_bound: float | None = None
    anew: bool = False

    @property
    def without_waiting(self) -> float:
        """How many times faster the job would be without any waiting for data, and with unchanged steps."""
        return 1 / (1 - self.share) if self.share < 1 else math.inf


def judge(loader: JobLoader, cores: float) -> LoaderVerdict:
    if loader.steps < LEAST_STEPS or loader.waits < LEAST_STEPS or not loader.batches:
        return LoaderVerdict(Verdict("none", "", "Too few steps were measured.", _RUN_LONGER))
    costs = _costs(loader)
    share = costs.wait / costs.period
    start_share = loader.start / (loader.start + loader.wait + loader.step + loader.ahead)
    measured = costs.step_alone is not None
    # A step of a loop that need not wait, as far as is known.
    alone = min(costs.step_alone or costs.step, costs.period)
    headspace = costs.period / alone
    between = _range(loader, headspace) if measured else None
    begun = beginnings(loader, costs.period, sum(costs.parts.values()))
    starved, starts = _is_starved(share, between), begun.share >= NOTABLE
    limit = verdict(window_of_job(loader, costs, cores, starved=starved, starting=begun.share))
    found = LoaderVerdict(
        replace(limit, remedy=_RUN_LONGER) if limit.kind == "none" else limit,
        share,
        start_share,
        starts,
        costs,
        costs.most(loader.workers),
        headspace,
        measured,
        between,
    )
    # Those that the job can have beside the other work of the machine.
    usable = min(cores, max(costs.used, cores * costs.got))
    may_wait_for_cores = costs.used >= CORES_IN_USE * usable and 0 < costs.step_cpu < COMPUTES * costs.step
    if loader.workers and between is not None and not starved and between[0] >= WORTH:
        found = replace(found, most_headspace=headspace)
    elif loader.workers and not measured and may_wait_for_cores:
        found = replace(found, most_headspace=max(headspace, costs.period / costs.step_cpu))
    if not starved and not starts:
        return found
    # The trial starts new workers, and the job keeps its own, so their beginnings cannot be compared.
    ways = tried(loader, costs.period, with_starts=starts and not loader.keeps_workers)
    bound = begun.keeping_bound if starts else None
    return replace(
        found,
        tried=ways,
        # To keep the workers is a smaller change.
        best=best_of(ways, least=WORTH * max(1.0, bound or 1.0)),
        keeping_bound=bound,
        anew=begun.anew,
    )


_RUN_LONGER = "Let the job run for longer, or on a machine that is less busy."


def _is_starved(share: float, headspace: tuple[float, float] | None) -> bool:
    """Return whether a loader is worth a change, by the share of waiting and the range of the measured headspace.

    The wait includes work that the loop has to do itself, such as taking batches out of shared memory.
    """
    # Steps alone may be faster for other reasons, such as cores that workers leave to them.
    return 1 / (1 - share) >= WORTH and (headspace is None or headspace[1] >= WORTH)


def _range(loader: JobLoader, headspace: float) -> tuple[float, float]:
    """Return between which values the measured headspace is, by the spread of the steps."""
    usual = _relative_error(loader.periods, loader.period, loader.period_squares)
    ahead = _relative_error(loader.ahead_steps, loader.ahead, loader.ahead_squares)
    error = 1 + SURE * math.hypot(usual, ahead)
    return max(1.0, headspace / error), headspace * error


def _relative_error(count: int, total: float, squares: float) -> float:
    """Return the standard error of a mean, as a part of it. One value is not enough for it."""
    if count < LEAST_AHEAD or not total:
        return 1.0
    spread = max(0.0, squares / count - (total / count) ** 2) * count / (count - 1)
    return math.sqrt(spread / count) * count / total


def _costs(loader: JobLoader) -> Costs:
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
    got = loader.on_core / (loader.on_core + loader.for_core) if loader.on_core else 1.0
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
        used=(step_cpu + wait_cpu + made) / (wait + step),
        got=got,
    )
