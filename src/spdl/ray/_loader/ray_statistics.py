"""What a loader and the pipelines of its actors have counted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from spdl.pipeline import StageStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline import PipelineStatistics

__all__ = ["ActorStatistics", "RayStatistics", "merge_stages"]

# Of all pipelines together, these are what one of them says, or the mean of what all say.
_OF_THE_FIRST = ("name",)
_GREATEST = ("elapsed",)
_MEAN = ("queue_fill",)


@dataclass(frozen=True, slots=True)
class ActorStatistics:
    """What the pipeline of one actor has counted since the actor was started.

    Attributes:
        number: The actor's number. One that takes a lost one's place has a new number.
        pid: The number of its process.
        node: The name of its machine.
        pipeline: What `Pipeline.statistics` returns there.

    Example:
        >>> from dataclasses import fields
        >>> from spdl.ray import ActorStatistics
        >>> [field.name for field in fields(ActorStatistics)]
        ['number', 'pid', 'node', 'pipeline']
    """

    number: int
    pid: int
    node: str
    pipeline: PipelineStatistics


@dataclass(frozen=True, slots=True)
class RayStatistics:
    """What a loader and the pipelines of its actors have counted.

    Attributes:
        epoch: The number of the epoch under way.
        num_delivered: Results that the consumer has received in this epoch.
        num_lost: Actors that were lost in this epoch.
        num_returned: Positions that these had been granted and had not sent, so that others were granted them.
        actors: The actors that have answered, by their numbers. Those that start, or have just been lost, are missing.
        stages: Each stage of all of these actors together: counts, seconds and concurrency are sums, ``elapsed`` is
            that of the oldest actor, and ``queue_fill`` a mean. Lost actors do not count any more.

    Example:
        >>> from spdl.ray import RayStatistics
        >>> RayStatistics(epoch=0, num_delivered=0, num_lost=0, num_returned=0, actors=(), stages=()).actors
        ()
    """

    epoch: int
    num_delivered: int
    num_lost: int
    num_returned: int
    actors: tuple[ActorStatistics, ...]
    stages: tuple[StageStatistics, ...]


def merge_stages(actors: Sequence[ActorStatistics]) -> tuple[StageStatistics, ...]:
    """Return each stage of all actors together."""
    return tuple(map(_merge, zip(*(actor.pipeline.stages for actor in actors), strict=True)))


def _merge(stages: tuple[StageStatistics, ...]) -> StageStatistics:
    merged = {}
    for name in (field.name for field in fields(StageStatistics)):
        values = [getattr(stage, name) for stage in stages]
        if name in _OF_THE_FIRST:
            merged[name] = values[0]
        elif name in _GREATEST:
            merged[name] = max(values)
        elif name in _MEAN:
            merged[name] = sum(values) / len(values)
        elif name == "durations":
            merged[name] = _merge_durations(values)
        else:
            merged[name] = sum(values)
    return StageStatistics(**merged)


def _merge_durations(each: Sequence[tuple[tuple[float, int], ...]]) -> tuple[tuple[float, int], ...]:
    bounds = sorted({bound for durations in each for bound, _ in durations})
    known = [dict(durations) for durations in each]
    return tuple((bound, sum(counts.get(bound, 0) for counts in known)) for bound in bounds)
