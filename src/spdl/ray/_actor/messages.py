"""What a driver and its actors tell each other. Positions are those of the source's pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._declare.records import PipelineConfig
    from spdl.pipeline._pipeline.named_results import Part
    from spdl.ray._leases import Range

__all__ = ["Begin", "Grant", "Job", "Report", "Result", "Work", "runs_of"]


class Job(NamedTuple):
    """What an actor is made of: the pipeline, and how it is built."""

    config: PipelineConfig[Any]
    num_threads: int
    max_failures: Any
    # Whether results are used up in the order of positions.
    ordered: bool


class Begin(NamedTuple):
    """The pass that the grants behind belong to: its number, and what the source said of itself before it."""

    epoch: int
    state: Any


class Grant(NamedTuple):
    """A range to work on, and the results of its items that the consumer has already."""

    start: int
    stop: int
    parts: Sequence[Part]


class Work(NamedTuple):
    """What an actor is to do.

    Attributes:
        begin: The pass of the grants, if it is another one than before.
        grants: Ranges.
        flush: Whether nothing comes behind that would go into the same batches.
    """

    begin: Begin | None
    grants: list[Grant]
    flush: bool


class Result(NamedTuple):
    """A result of the pipeline.

    Attributes:
        value: The result itself.
        done: The positions of which nothing is left once the consumer has it.
        parts: What it was made of, where that are results of items.
        stretch: How many flushes came before it.
    """

    value: Any
    done: list[Range]
    parts: list[Part]
    stretch: int


class Report(NamedTuple):
    """What a call returns.

    Attributes:
        epoch: The pass that it is of.
        results: Results, the oldest first.
        done: Further positions of which nothing is left, once the consumer has these results and all before.
        flushed: How many flushes are over, in all.
        fed: How many positions the pipeline has taken, or that are beyond the source's end, in all.
        end: The position at which the source ended, if it was seen to end.
    """

    epoch: int
    results: list[Result]
    done: list[Range]
    flushed: int
    fed: int
    end: int | None


def runs_of(positions: list[int]) -> list[Range]:
    """Return positions as ranges, in order."""
    runs: list[Range] = []
    start = stop = -1
    for position in sorted(positions):
        if position != stop:
            if stop >= 0:
                runs.append((start, stop))
            start = position
        stop = position + 1
    if stop >= 0:
        runs.append((start, stop))
    return runs
