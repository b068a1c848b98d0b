"""The counters of a pipeline at one moment."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Observation", "StageCounts"]


class StageCounts(NamedTuple):
    """What a stage has counted since the start.

    Attributes:
        done: Items that it is done with, failed ones included.
        busy: Seconds in ops that have ended, summed over concurrent ones.
        held: Seconds in which a slot was free, but too many results waited for an earlier one.
        blocked: Seconds in which a slot was free, but a result would have had no place.
        running: On how many items it works now.
    """

    done: int
    busy: float
    held: float
    blocked: float
    running: int


class Observation(NamedTuple):
    """The counters at one moment. All seconds are totals since the start.

    Attributes:
        time: Seconds on any clock.
        cpu: CPU seconds of the process.
        coreless: Seconds in which its threads waited for a core, summed over them.
        read: Items that the consumer has read.
        waited: Seconds that the consumer has waited for items.
        waits: Whether the consumer waits now.
        source: Seconds in the ``next()`` of the busiest source.
        stages: The stages' counts.
        short: Seconds in which something was not made since it might not have fitted into the bytes in flight.
        lags: Whether workers of a region have yet to begin, or to learn the limits in force.
    """

    time: float
    cpu: float
    coreless: float
    read: int
    waited: float
    waits: bool
    source: float
    stages: tuple[StageCounts, ...]
    short: float = 0.0
    lags: bool = False
