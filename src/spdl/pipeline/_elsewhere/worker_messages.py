"""The messages between a pipeline and the workers of its regions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl.pipeline._declare.op import FailedItem, ItemContext
from spdl.pipeline._declare.records import StageConfig

if TYPE_CHECKING:
    from spdl.pipeline._elsewhere.worker_channel import ThreadEnd, WorkerEnd
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._report.sample import Extract
    from spdl.pipeline._stages.process_work import Raised

    AnyRaised: TypeAlias = "Raised | RaisedHere"

# The worker's name for a result, by the numbers of the items it was sent: the number, if it is the item's only result;
# the number and the results' numbers, if it is a result of a generator (of a result of another one, and so on); or a
# list of the numbers of all items that went into it.
Name: TypeAlias = "int | tuple[int, ...] | list[int]"


class Job(NamedTuple):
    """All that a worker needs to begin.

    Attributes:
        stage_id: The number of the first stage.
        most: How many results cross at once, at most.
        initializer: Called before anything else, and what with.
        instrumentation: The factory of hooks, the class of queues, and the seconds between reports.
        defaults: The process's classes of hooks and of queues, each if it was chosen.
        tell_every: Counters are reported after that many seconds.
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
    """Comes before items, with their origins if an op asks. The worker tells when it has taken ``tell_at``."""

    numbers: list[int]
    tell_at: int
    contexts: list[ItemContext] | None


class EpochMark(NamedTuple):
    """The epoch ends here, and the input too if it is the last one."""

    last: bool


class NewLimits(NamedTuple):
    """New concurrencies, by the places of the stages."""

    concurrency: dict[int, int]


class RaisedHere(NamedTuple):
    """An exception that has left no process."""

    error: BaseException

    def unpack(self) -> BaseException:
        return self.error


class Failure(NamedTuple):
    """An item that was given up: its record has no positions. It has no stage if it could not cross."""

    stage: int | None
    items: list[int]
    failed: FailedItem
    raised: AnyRaised


class Fault(NamedTuple):
    """The failure that ended the pipeline in the worker, with its cause, which pickling would lose."""

    stage: int | None
    raised: AnyRaised
    cause: AnyRaised | None

    @classmethod
    def of(cls, stage: int | None, error: BaseException, wrap: Callable[[BaseException], AnyRaised]) -> Fault:
        """Return the message about a failure. ``wrap`` makes exceptions fit to leave the worker."""
        return cls(stage, wrap(error), None if error.__cause__ is None else wrap(error.__cause__))

    def unpack(self) -> BaseException:
        error = self.raised.unpack()
        if self.cause is not None:
            error.__cause__ = self.cause.unpack()
        return error


class CpuLoad(NamedTuple):
    """CPU seconds of a worker since it was ready for items, and seconds in which its threads waited for a core."""

    cpu: float
    coreless: float


class Report(NamedTuple):
    """Comes before results.

    Attributes:
        failures: The items that were given up.
        done: The numbers of finished items: nothing made from them is still in the worker.
        taken: How many more items the stages have taken.
        seconds: How long the slowest stage has worked since the last report, divided by its slots.
        counters: The counters of each stage, from time to time.
        load: With the counters, what the worker uses of the CPU, if that is asked for.
        ended: Whether an epoch has ended here.
        faults: The failures of the pipeline, after which the worker ends.
        lines: Lines for the log, with their levels.
    """

    names: list[Name]
    failures: list[Failure]
    done: list[int]
    taken: int
    seconds: float
    counters: list[Extract] | None
    load: CpuLoad | None
    ended: bool
    faults: list[Fault]
    lines: list[tuple[int, str]]


def run_worker(end: WorkerEnd, payload: Job | bytes) -> None:
    """Run a worker's process. Its work builds pipelines, so its module is imported only here."""
    _begin().begin_process(end, payload)


def run_worker_here(end: ThreadEnd, job: Job, engines: list[Engine]) -> None:
    """Run a worker in this thread, and tell which engine it is."""
    _begin().begin_threads(end, job, engines)


def _begin() -> Any:
    return import_module("spdl.pipeline._elsewhere.region_worker")
