"""What the beginnings and the ends of iterations cost a job, and how much of it kept workers save at most."""

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
    """What beginnings and ends cost.

    Attributes:
        are_notable: Whether the start and the end of workers are a share of the job's time that is worth a look.
        beyond_batches: What they cost besides the making of the first batches, in seconds, all iterations together.
        keeping_bound: How many times faster the job would be at most with `persistent_workers=True`. None if that
            changes nothing: there are no workers, they are kept already, or no process of the job iterates twice.
        anew: Whether the job makes a loader for each iteration, so that it has to make one for all to keep workers.
    """

    are_notable: bool
    beyond_batches: float
    keeping_bound: float | None
    anew: bool


def beginnings(loader: Loader, period: float, batch: float) -> Beginnings:
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
    return Beginnings(beyond >= NOTABLE * total, beyond, bound, anew)
