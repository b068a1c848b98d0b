"""Rates and shares between two observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._limits import Budgets, Limits

__all__ = ["Window"]


@dataclass(frozen=True, slots=True)
class Window:
    """What happened between two observations.

    Attributes:
        seconds: How long it is.
        items: How many items the stage of the most items was done with.
        rate: The progress per second; see `Pace`.
        error: The relative standard error of that rate.
        cores: How many cores the process used on average.
        wanted: How many it would have used had there been a core for each thread.
        waiting: The share of the time that the consumer waited.
        source: The share of the time that the busiest source was in its ``next()``.
        short: The share of the time in which the bytes in flight left no room for another item.
        busy: The number of ops that each stage ran on average.
        service: The mean duration of each stage's ops in seconds; 0 if none has ended.
        held: The share of the time that each stage had a free slot and was held back by the order of its results.
        blocked: The share of the time that each stage had a free slot and no place for a result.
    """

    seconds: float
    items: int
    rate: float
    error: float
    cores: float
    wanted: float
    waiting: float
    source: float
    short: float
    busy: tuple[float, ...]
    service: tuple[float, ...]
    held: tuple[float, ...]
    blocked: tuple[float, ...]

    def usage(self, limits: Limits) -> list[float]:
        """Return the share of each stage's slots that is in use."""
        return [min(1.0, busy / slots) for busy, slots in zip(self.busy, limits.concurrency, strict=True)]

    def ended(self, stage: int) -> float:
        """Return how many ops of a stage have ended, about."""
        return self.busy[stage] * self.seconds / self.service[stage] if self.service[stage] else 0.0

    def threads(self, budgets: Budgets) -> float:
        """Return how many of the pipeline's threads ran ops on average."""
        return sum(busy for busy, stage in zip(self.busy, budgets.stages, strict=True) if stage.on_threads)
