"""Where a worker runs, and what follows from that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spdl.pipeline._regions.messages import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._regions.messages import AnyRaised

    from .lines import Lines

__all__ = ["Place", "WorkersEnd", "fault_of"]


class WorkersEnd(Protocol):
    """The worker's end of a connection, as `spdl.pipeline._transport.channel` describes it."""

    def send(self, items: Sequence[object], timeout: float | None = None) -> None: ...

    def receive(self, timeout: float | None = None) -> list[Any]: ...

    def await_end(self) -> object: ...

    def close(self) -> None: ...


class Place(NamedTuple):
    """A process, an interpreter, or threads of the pipeline's process.

    Attributes:
        alone: Whether there is nothing else, so that defaults and numbers of pipelines are the worker's to set.
        grace: Seconds that ops have to end in order when nobody wants their results any more. None waits for them.
        lines: What the worker logs, to be logged where the pipeline is.
        wrap: Makes exceptions fit to leave the worker.
        began: Called with the engine before it starts.
    """

    alone: bool
    grace: float | None
    lines: Lines
    wrap: Callable[[BaseException], AnyRaised]
    began: Callable[[Engine], object]


def fault_of(stage: int | None, error: BaseException, wrap: Callable[[BaseException], AnyRaised]) -> Fault:
    """Return what tells that the pipeline has failed in the worker."""
    cause = error.__cause__
    return Fault(stage, wrap(error), None if cause is None else wrap(cause))
