"""What a pipeline and the workers of its regions send each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._declare.failed_item import FailedItem
    from spdl.pipeline._declare.item_context import ItemContext
    from spdl.pipeline._declare.records import StageConfig
    from spdl.pipeline._metrics.extract import Extract
    from spdl.pipeline._nodes.executors.process_work import Raised

    AnyRaised: TypeAlias = "Raised | RaisedHere"

__all__ = ["End", "Failure", "Fault", "Job", "Limits", "Load", "Mark", "Name", "RaisedHere", "Report", "Work"]

# What a worker calls a result, by the numbers of the items it was sent: the number, if it is the item's only result;
# the number and those of results, if it is a result of a generator (of a result of another one, and so on); or a list
# of the numbers of all items that went into it.
Name: TypeAlias = "int | tuple[int, ...] | list[int]"


class Job(NamedTuple):
    """All that a worker needs to begin.

    Attributes:
        stages: The stages.
        pipeline_id: The number of the pipeline.
        stage_id: The number of the first stage.
        most: How many results cross at once, at most.
        initializer: Called before anything else, and what with.
        instrumentation: The factory of hooks, the class of queues, and the seconds between reports.
        defaults: The process's classes of hooks and of queues, each if it was chosen.
        tell_every: What is counted is told after so many seconds.
        tells_load: Whether the worker tells how much of the CPU it uses.
    """

    stages: tuple[StageConfig, ...]
    pipeline_id: int
    stage_id: int
    most: int
    initializer: Callable[..., object] | None
    initargs: tuple[Any, ...]
    instrumentation: tuple[Any, Any, float]
    defaults: tuple[list[Any], list[Any]]
    tell_every: float = 0.2
    tells_load: bool = False


class Work(NamedTuple):
    """Comes before items.

    Attributes:
        numbers: Their numbers.
        tell_at: The worker tells that it has taken items when it has taken so many.
        contexts: Where they come from, if an op asks for it.
    """

    numbers: list[int]
    tell_at: int
    contexts: list[ItemContext] | None


class Mark(NamedTuple):
    """The epoch ends here."""


class End(NamedTuple):
    """Nothing more will come."""


class Limits(NamedTuple):
    """New concurrencies, by the places of the stages."""

    concurrency: dict[int, int]


class RaisedHere(NamedTuple):
    """An exception that has left no process."""

    error: BaseException

    def unpack(self) -> BaseException:
        """Return it."""
        return self.error


class Failure(NamedTuple):
    """An item that was given up.

    Attributes:
        stage: The place of the stage; None if the item could not cross.
        items: The numbers of the items that it comes from.
        failed: What is written down, without positions.
        raised: The exception.
    """

    stage: int | None
    items: list[int]
    failed: FailedItem
    raised: AnyRaised


class Fault(NamedTuple):
    """What has failed the pipeline in the worker.

    Attributes:
        stage: The place of the stage; None if it was none.
        raised: The exception.
        cause: Its cause, which pickling would lose.
    """

    stage: int | None
    raised: AnyRaised
    cause: AnyRaised | None


class Load(NamedTuple):
    """What a worker has used of the CPU since it was ready for items.

    Attributes:
        cpu: CPU seconds of its process.
        coreless: Seconds in which its threads waited for a core, summed over them.
    """

    cpu: float
    coreless: float


class Report(NamedTuple):
    """Comes before results.

    Attributes:
        names: What the results are called.
        failures: The items that were given up.
        done: The numbers of items of which nothing is left.
        taken: How many more items the stages have taken.
        seconds: How long the slowest stage has worked since the last report, divided by its slots.
        counters: What is known of each stage, from time to time.
        load: With the counters, what the worker uses of the CPU, if that is asked for.
        ended: Whether an epoch has ended here.
        faults: What has failed the pipeline, after which the worker ends.
        lines: Lines for the log, with their levels.
    """

    names: list[Name]
    failures: list[Failure]
    done: list[int]
    taken: int
    seconds: float
    counters: list[Extract] | None
    load: Load | None
    ended: bool
    faults: list[Fault]
    lines: list[tuple[int, str]]
