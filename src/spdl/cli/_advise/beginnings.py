"""What the beginnings and the ends of iterations cost a job, and what they would cost otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spdl.cli._advise.measured import Loader

__all__ = ["Beginnings", "beginnings"]

NOTABLE = 0.1
"""Beginnings that take this share of the time, besides that of their first batches, are looked at."""


@dataclass(frozen=True)
class Beginnings:
    """What beginnings and ends cost, in seconds, all iterations of a job together.

    Attributes:
        now: What they cost.
        first_batches: The part of it that it takes to make the first batches, which no change of the workers saves.
        with_threads: What they would cost with spdl's threads, which start in a millisecond.
        with_kept_workers: What they would cost with `persistent_workers=True`. None if that changes nothing: there are
            no workers, they are kept already, or no process of the job iterates twice.
        anew: Whether the job makes a loader for each iteration, so that it has to make one for all to keep workers.
        steps: What the steps of the job cost, waiting included.
    """

    now: float
    first_batches: float
    with_threads: float
    with_kept_workers: float | None
    anew: bool
    steps: float

    @property
    def are_notable(self) -> bool:
        """Whether the start and the end of workers are a share of the job's time that is worth a look."""
        return self.beyond_batches >= NOTABLE * (self.now + self.steps)

    @property
    def beyond_batches(self) -> float:
        """What they cost besides the making of the first batches."""
        return self.now - self.first_batches

    def gain(self, beginnings: float, step_gain: float = 1.0) -> float:
        """Return how many times faster the job would be.

        Args:
            beginnings: What all beginnings would cost, in seconds.
            step_gain: How many times faster its steps would be.
        """
        return (self.now + self.steps) / (beginnings + self.steps / step_gain)


def beginnings(loader: Loader, period: float, batch: float, batch_in_thread: float) -> Beginnings:
    """Return what the beginnings of a loader's iterations cost.

    Args:
        loader: The measurements.
        period: How long a step takes, waiting included.
        batch: How long a worker takes for a batch.
        batch_in_thread: How long a thread would.
    """
    now, epochs = loader.start, max(1, loader.epochs)
    batches = min(now, epochs * batch)
    # In a loop without workers, the rest is what the dataset does at its first batch: it opens files.
    first_batches = batches if loader.workers else now
    with_threads = min(now, epochs * batch_in_thread) if loader.workers else now
    with_kept_workers, anew = None, False
    if loader.workers and not loader.description.get("persistent_workers") and epochs > loader.processes:
        anew = loader.made >= epochs
        # Workers of each loader start once. Of one line, there may be some for other datasets, or other ranks.
        starts = loader.processes if anew else loader.made
        each = now / epochs
        with_kept_workers = starts * each + (epochs - starts) * min(each, batch)
    return Beginnings(
        now, first_batches, with_threads, with_kept_workers, anew, period * (loader.steps + loader.ahead_steps)
    )
