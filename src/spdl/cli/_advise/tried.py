"""What came of the ways to load that were tried."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.cli._advise.measured import Loader

__all__ = ["Tried", "best_of", "tried"]

LEAST_TURNS = 2
"""A way that took fewer turns has no spread, so it is not recommended."""

ALIKE = 1.05
"""Two ways are about as fast if neither is more than this many times faster than the other."""


@dataclass(frozen=True)
class Tried:
    """A way to load, as it was tried.

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
    error: str = ""

    @property
    def is_faster(self) -> bool:
        """Whether it was faster than the job's own way in each of several turns."""
        return self.turns >= LEAST_TURNS and self.least_gain > 1


def tried(loader: Loader, *, with_starts: bool) -> tuple[Tried, ...]:
    """Return the ways that were tried.

    Args:
        loader: The measurements.
        with_starts: Whether the gain is that of iterations as long as the job's, their beginnings included. Otherwise
            it is that of steps.
    """
    found = list[Tried]()
    steps = (loader.steps + loader.ahead_steps) / max(1, loader.epochs)
    own = list[float]()
    for way in loader.trial.get("ways", ()):
        known = {name: way[name] for name in ("what", "workers", "reason")}
        if way["error"] or not way["seconds"] or not all(way["seconds"]):
            why = way["error"] or loader.trial.get("error") or "it took too long to begin"
            found.append(Tried(**known, error=why))
            continue
        start = mean(way["starts"])
        took = [
            steps * seconds / batches + (start if with_starts else 0.0)
            for batches, seconds in zip(way["batches"], way["seconds"], strict=True)
        ]
        if way["what"] == "now":
            own = took
        gains = [now / then for now, then in zip(own, took, strict=False)] or [0.0]
        per_second = sum(way["batches"]) / sum(way["seconds"])
        found.append(
            Tried(
                **known,
                per_second=per_second,
                start=start,
                gain=median(gains),
                least_gain=min(gains),
                most_gain=max(gains),
                turns=min(len(own), len(took)),
            )
        )
    return tuple(found)


def best_of(ways: Sequence[Tried], least: float) -> Tried | None:
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
