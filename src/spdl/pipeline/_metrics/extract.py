"""The counters of stages that run in other processes: how these tell them, and how they are added up here."""

from __future__ import annotations

from typing import NamedTuple

from spdl.pipeline._world import perf_counter

from .counters import StageCounters
from .sample import TOLD

__all__ = ["Extract", "MirroredCounters", "extract"]


class Extract(NamedTuple):
    """A stage's record as a worker tells it.

    Attributes:
        numbers: What was counted, and the waits behind it.
        bins: Those of the durations.
        running: On how many items it works now.
        slots: On how many it may work now.
    """

    numbers: list[float]
    bins: list[int]
    running: int
    slots: int


def extract(counters: StageCounters, running: int, slots: int) -> Extract:
    """Return what a worker tells of a stage."""
    waits = counters.waited(perf_counter())
    numbers = [*(getattr(counters, name) for name in TOLD), *waits]
    return Extract(numbers, counters.times.counts.copy(), running, slots)


class MirroredCounters(StageCounters):
    """The record of a stage that runs in several workers: the sum of what these have told."""

    __slots__ = ()

    def add(self, told: Extract, before: Extract | None) -> None:
        """Add what a worker tells, apart from what it has told before. Called with the engine's lock held."""
        numbers, bins = told.numbers, told.bins
        if before is not None:
            numbers = [new - old for new, old in zip(numbers, before.numbers, strict=True)]
            bins = [new - old for new, old in zip(bins, before.bins, strict=True)]
        for name, number in zip(TOLD, numbers, strict=False):
            setattr(self, name, getattr(self, name) + number)
        self.waits = [old + new for old, new in zip(self.waits, numbers[len(TOLD) :], strict=True)]
        self.times.add_all(bins)

    def begin(self, now: float) -> None:
        """Start no clock: the workers have theirs."""
