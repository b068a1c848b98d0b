"""The record of a verdict: the limit, the reason, the remedy, and its greatest gain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spdl.observe._window.window import StageWindow, Window


KINDS = {
    "none": 0,  # nothing is saturated
    "slow consumer": 0,  # the training loop is slower than the loader
    "GIL": 10,  # the ops hold the GIL, so threads do not run side by side
    "CPU": 11,  # the ops compute, and their slots or the cores are all in use
    "oversubscription": 12,  # more threads want to compute than there are cores
    "I/O": 13,  # the ops wait for a disk, the network or another process
    "serial source": 14,  # the source's next() takes all the time
    "held back by order": 15,  # finished items wait for an earlier one
    "batching": 16,  # making batches takes all the time
    "transfer": 17,  # copying to the device takes all the time
    "retries": 18,  # ops fail and are tried again
    "hang": 19,  # nothing moves, and an op does not end
    "memory budget": 20,  # the bytes of the items in flight leave no room for another one
    "pickling": 21,  # items and results are on their way between processes for longer than the ops work on them
    "lock": 22,  # the ops take turns at a lock, or wait for other threads
    "start": 24,  # the beginnings of iterations take more time than the waiting in them
    "unclear": 23,  # a stage is in use all the time, and what its ops wait for was not seen
}
"""The kinds of verdicts, with the exit status of `spdl why`. 0 is no limit in the loader; all commands have 1 and 2."""

# ---- what all that judge take for granted: verdicts, `spdl advise` and `spdl profile` ----

HARDLY_WAITS = 0.05
"""A consumer that waits for less than this share of the time is the limit itself."""

WORTH = 1.1
"""A change that makes a job less than this many times faster is not worth it: runs differ by as much."""

OF_A_LOCK = (
    "Give each thread its own handle, connection or decoder, hold the lock for less, or run the op in processes: each "
    "has a lock of its own."
)
"""What helps where threads take turns at a lock."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The limit of a pipeline, and its remedy.

    Attributes:
        kind: One of `KINDS`.
        stage: The name of the stage or source; empty if there is none.
        evidence: How one can tell.
        remedy: The change to make.
        settings: The numbers that the remedy sets, by name, if it sets any.
        bound: How many times faster the pipeline is then at most, by the next limit; None if that is unknown.

    Example:
        >>> from spdl.observe import Verdict
        >>> Verdict("I/O", "fetch", "Its 2 slots wait.", "`concurrency=8`.", {"concurrency": 8}, 4.0).sentence()
        "I/O. 'fetch': Its 2 slots wait. `concurrency=8`. At most 4.00x as fast."
    """

    kind: str
    stage: str
    evidence: str
    remedy: str
    settings: Mapping[str, int] = field(default_factory=dict)
    bound: float | None = None

    @property
    def predicted_gain(self) -> float | None:
        """The bound, under its former name."""
        return self.bound

    @property
    def name(self) -> str:
        """The kind, as the beginning of a sentence."""
        return f"{self.kind[0].upper()}{self.kind[1:]}"

    def sentence(self) -> str:
        """Return all of it in words."""
        where = f"{self.stage!r}: " if self.stage else ""
        gain = ""
        if self.bound is not None and f"{self.bound:.2f}" != "1.00":
            gain = f" At most {self.bound:.2f}x as fast."
        elif self.bound is not None and self.settings:
            # Another part is as slow.
            gain = " By itself it makes nothing faster."
        return f"{self.name}. {where}{self.evidence} {self.remedy}{gain}"


# No more ops at once are recommended: there may be a limit that was not seen.
MOST_CONCURRENCY = 64
# Recommended numbers go this far beyond the needs of the next limit.
_MARGIN = 1.3
# A prediction may be off by so much.
_OFF = 1.25
# Halvings that find a part to a thousandth.
_STEPS = 10


class Limit(NamedTuple):
    """A part of a pipeline that limits it, if nothing else does: 0 to 1 of it is in use. A stage has no kind."""

    share: float
    kind: str
    name: str = ""


def next_limit(
    window: Window, *raised: StageWindow, source: bool = True, consumer: bool = True, cores: bool = True
) -> Limit:
    """Return what limits a pipeline once the stages ``raised`` no longer do, of what remains as it is."""
    # Two stages may be equal.
    found = [Limit(it.occupancy, "", it.name) for it in window.stages if not any(it is each for each in raised)]
    if source:
        found += [Limit(each.busy, "serial source", each.name) for each in window.sources]
    if consumer:
        # While it does not wait, it works.
        found.append(Limit(1 - window.consumer_waits, "slow consumer"))
    if cores:
        found.append(Limit((window.cores_used + cores_elsewhere(window)) / window.cores, "CPU"))
    return max(found, default=Limit(0.0, "none"))


def gain_bound(window: Window, *raised: StageWindow, **unchanged: bool) -> float:
    """Return how many times faster the pipeline could be: what the `next_limit` allows."""
    share = next_limit(window, *raised, **unchanged).share
    return max(1.0, 1 / share) if share > 0 else math.inf


# Threads that ops have started count from this share of the CPU time of the process on.
_BY_OTHERS = 0.25


def by_others(window: Window) -> float:
    return window.cores_used_by_others if window.cores_used_by_others >= _BY_OTHERS * window.cores_used else 0.0


def cores_elsewhere(window: Window) -> float:
    return sum(stage.rate * stage.seconds * stage.cpu for stage in window.stages if stage.processes)


CORES_ARE_SHORT = 0.5
"""Cores are short if this number of threads of the process wait for one."""
# Other programs have them while the process uses this share of the cores that it may use and wants to.
_NOT_ALL = 0.75


def others_have_cores(window: Window) -> bool:
    # The process alone would use them.
    used, waited = window.cores_used + cores_elsewhere(window), window.cores_waited_for
    return waited >= CORES_ARE_SHORT and used <= _NOT_ALL * min(window.cores, used + waited)


def is_starved(window: Window) -> bool:
    """Return whether the process is so short of cores that waits of its threads for each other say nothing."""
    return window.cores_waited_for >= max(CORES_ARE_SHORT, window.cores_used)


def sure_gain(window: Window, gain: float) -> float | None:
    """Return a gain that takes more cores, or None if other programs may use too many of them.

    Its share of cores that others use as well depends on them, so only idle cores count.
    """
    used = window.cores_used + cores_elsewhere(window)
    sure = max(1.0, (used + window.cores_idle) / used) if used > 0 else math.inf
    return promised(gain, sure)


def promised(gain: float, sure: float) -> float | None:
    """Return a possible gain, if a certain gain is about the same; None otherwise."""
    if gain <= sure:
        return gain
    return sure if gain <= _OFF * sure else None


def needed(bound: float, concurrency: int) -> int:
    wanted = min(bound * _MARGIN, MOST_CONCURRENCY) * concurrency
    return max(concurrency + 1, min(MOST_CONCURRENCY, math.ceil(wanted)))


def limits_for(window: Window, stage: StageWindow, concurrency: int, gain: float) -> dict[str, int]:
    """Return the concurrency to set, and the number of threads if more ops would run at once then than there are."""
    limits = {"concurrency": concurrency}
    others = (each for each in window.stages if each is not stage and each.served_by == "threads")
    threads = concurrency + sum(math.ceil(min(1.0, each.occupancy * gain) * each.concurrency) for each in others)
    if stage.served_by == "threads" and threads > window.num_threads:
        limits["num_threads"] = threads
    return limits


def in_words(limits: Mapping[str, int]) -> str:
    return " and ".join(f"`{name}={limit}`" for name, limit in limits.items())


def slots(stage: StageWindow) -> str:
    slot = "slot" if stage.arguments is None else stage.arguments.slot
    return f"only {slot}" if stage.concurrency == 1 else f"{stage.concurrency} {slot}s"


def in_use(stage: StageWindow) -> str:
    if stage.pool:
        return f"The {stage.pool} workers of its executor are in use all the time while items wait for them"
    verb = "is" if stage.concurrency == 1 else "are"
    return f"Its {slots(stage)} {verb} in use {percent(stage.occupancy)} of the time"


def watch_longer(window: Window) -> str:
    if window.profiled:
        return "Measure more items (`--num-inputs`), or on a machine that is less busy."
    if not window.looked and window.ending is None:
        return "`spdl why PID` looks at the threads, and says more."
    if window.ending is None and others_have_cores(window):
        return "Ask again when other programs leave it the cores."
    if window.ending is None:
        return "Watch for longer (`--seconds`)."
    if window.ending.state == "killed":
        return "No more can be seen of it: start it again, and watch it while it runs."
    return "No more can be seen of it: watch the next one while it runs."


def percent(share: float) -> str:
    return f"{100 * min(1.0, share):.0f} %"


def duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.0f} microseconds"  # noqa: PLR2004


def gain_of_threads(now: int, then: int, waits: float) -> float:
    """Return how many times more ops several threads end if there are more of them, cores enough, and one GIL.

    It is taken that each op needs the GIL for some part of its work, at moments that depend on nothing: the mean value
    analysis of a closed network with one queue (Reiser and Lavenberg, 1980). Each thread ``waits`` for its turn now for
    that share of the time.
    """
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        part = (low + high) / 2
        low, high = (part, high) if _rate_and_waits(now, part)[1] < waits else (low, part)
    part = (low + high) / 2
    return _rate_and_waits(then, part)[0] / _rate_and_waits(now, part)[0]


def _rate_and_waits(threads: int, part: float) -> tuple[float, float]:
    """Return how many ops end in the time of one, and the share of the time that each thread waits."""
    rate = waiting = queue = 0.0
    for count in range(1, threads + 1):
        in_turn = part * (1 + queue)
        takes = in_turn + 1 - part
        rate, waiting, queue = count / takes, (in_turn - part) / takes, count * in_turn / takes
    return rate, waiting
