"""The costs of a job's batches, the verdict on them, and which of the ways that were tried is worth a change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import TYPE_CHECKING

from spdl.cli._advise.window import window_of_job
from spdl.observe import Verdict, verdict
from spdl.observe._verdict.verdict import WORTH

if TYPE_CHECKING:
    from spdl.cli._advise.measured import JobLoader


NOTABLE = 0.1
"""Beginnings that take this share of the time, apart from their first batches, are looked at."""


@dataclass(frozen=True)
class Beginnings:
    """The cost of beginnings and ends.

    Attributes:
        share: Which share of the job's time goes to the start and the end of workers, without the making of the first
            batches.
        keeping_bound: How many times faster the job would be at most with `persistent_workers=True`. None if that
            changes nothing: it has no workers, keeps them already, or no process of the job iterates twice.
        anew: Whether the job makes a loader for each iteration, so that it has to make one for all to keep workers.
    """

    share: float
    keeping_bound: float | None
    anew: bool


def beginnings(loader: JobLoader, period: float, batch: float) -> Beginnings:
    """Return what the beginnings of a loader's iterations cost.

    Args:
        loader: The measurements.
        period: How long a step takes, waiting included.
        batch: How long a worker takes for a batch.
    """
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
    turns: int = 0
    is_bound: bool = False
    error: str = ""

    @property
    def is_faster(self) -> bool:
        """Whether it was faster than the job's own way in each of several turns."""
        return self.turns >= LEAST_TURNS and self.least_gain > 1


# A trial shows the gain of a job if the job's own way is as fast there as in the job, within the first factor, and
# turns differ by no more than the second.
_LIKE_THE_JOB, _LIKE_EACH_OTHER = 1.15, 1.6
# The stand-in for the step may be too long if steps take the first share of the time; in threads, if they compute for
# the second one, since the job's own steps also take batches out of memory that worker processes have filled.
_STEPS, _OF_SHARED_MEMORY = 0.75, 0.2
_IN_THREADS = ("thread", "unproven thread", "images")


def tried(loader: JobLoader, period: float, *, with_starts: bool) -> tuple[TriedWay, ...]:
    """Return the ways that were tried.

    Args:
        loader: The measurements.
        period: How long a step of the job takes, waiting included.
        with_starts: Whether the gain is for iterations as long as the job's, their beginnings and ends included.
            Otherwise it is for steps.
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
                least_gain=min(gains),
                most_gain=max(gains),
                turns=min(len(own), len(took)),
            )
        )
    return tuple(found)


def best_of(ways: Sequence[TriedWay], least: float) -> TriedWay | None:
    """Return the way to change to by a line or two: the simplest of those that are about as fast as the fastest one.

    Args:
        ways: The ways, the simpler ones first.
        least: How many times faster than the job's own it has to be, by the median of its turns. It is so in all.
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
    def step_without_waiting(self) -> float:
        """A step of a loop that need not wait, as far as is known."""
        return min(self.step_alone or self.step, self.period)

    def parts_of_workers(self) -> float:
        """Return how long a worker takes for a batch, without what hands it over."""
        return sum(seconds for kind, seconds in self.parts.items() if kind not in _HANDING_OVER)

    def most(self, workers: int) -> str:
        """Return the part that takes the most time of that many workers."""
        # While the main process receives a batch, no other process can do that.
        handing = self.parts.get("pickling", 0.0) + max(1, workers) * self.parts.get("receiving", 0.0)
        parts = {kind: seconds for kind, seconds in self.parts.items() if kind not in _HANDING_OVER}
        parts["pickling"] = handing
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
            do not matter, or it changes nothing.
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
    """Judge a loader by what was measured.

    Args:
        loader: The measurements.
        cores: How many cores each rank of the job may use.
    """
    if loader.steps < LEAST_STEPS or loader.waits < LEAST_STEPS or not loader.batches:
        return LoaderVerdict(Verdict("none", "", "Too few steps were measured.", _RUN_LONGER))
    costs = _costs(loader)
    share = costs.wait / costs.period
    start_share = loader.start / (loader.start + loader.wait + loader.step + loader.ahead)
    measured = costs.step_alone is not None
    alone = costs.step_without_waiting
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
    if loader.workers and between is not None and not starved and between[0] >= WORTH:
        found = replace(found, most_headspace=headspace)
    elif loader.workers and not measured and _takes_cores(costs, cores):
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


def _takes_cores(costs: Costs, cores: float) -> bool:
    """Return whether the step may wait for cores that the workers use."""
    in_use = costs.used >= CORES_IN_USE * usable_cores(costs, cores)
    return in_use and 0 < costs.step_cpu < COMPUTES * costs.step


def _is_starved(share: float, headspace: tuple[float, float] | None) -> bool:
    """Return whether a loader is worth a change.

    Args:
        share: The share of the time in which the loop waits. The wait includes work that the loop has to do
            itself, such as taking batches out of shared memory.
        headspace: Between which values the measured headspace is.
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


def usable_cores(costs: Costs, cores: float) -> float:
    """Return how many of the cores the job can have beside the other work of the machine."""
    return min(cores, max(costs.used, cores * costs.got))


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
