"""The failures of a running pipeline."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .error_text import annotate
from .pipeline_failure import PipelineFailure
from .quarantine import Quarantine
from .tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._declare.policy import MaxFailures

__all__ = ["FailureCollector"]


class FailureCollector:
    """The failures of one run. The lists only grow until `let_go`; they are guarded by the engine's lock.

    Attributes:
        stages: The name of each failed stage and what it raised, in the order of the failures.
        tally: The failed items of stages that have no limit of their own.
        quarantine: The most recent failed items.
        teller: In a worker, what tells of failed items where their positions are known; it is called with the stage,
            the last attempt and the exception.
    """

    __slots__ = ("_notes", "quarantine", "stages", "tally", "teller")

    def __init__(self, max_failures: MaxFailures) -> None:
        self.stages: list[tuple[str, BaseException]] = []
        # What writes the notes that are still missing.
        self._notes: list[Callable[[], None]] = []
        self.tally = Tally(max_failures)
        self.quarantine = Quarantine()
        self.teller: Callable[[Any, Any, Exception], None] | None = None

    def __bool__(self) -> bool:
        return bool(self.stages)

    def tell(self, teller: Callable[[Any, Any, Exception], None]) -> None:
        """Have failed items told elsewhere, which writes them down and counts them. Called before the start."""
        self.teller = teller

    def add(self, name: str, error: BaseException) -> None:
        """Note that a stage, or the engine itself, has failed."""
        self.stages.append((name, error))

    def add_stage(self, name: str, info: object, origin: Callable[[], str] | None, error: BaseException) -> None:
        """Note that a stage has failed.

        Args:
            name: The stage's name.
            info: What messages call it.
            origin: Returns the source item in words, if there is one. It may take long, so the consumer calls it.
            error: What the stage raised.
        """
        self._notes.append(partial(_annotate, error, str(info), origin))
        self.add(name, error)

    def let_go(self) -> list[object]:
        """Return what holds the exceptions, whose frames hold what is the user's. Nobody can ask for them any more."""
        holders = [*self.stages, *self._notes]
        self.stages.clear()
        self._notes.clear()
        return holders

    def as_exception(self) -> PipelineFailure | None:
        """Return what the consumer is to be told; None if nothing failed. Called without the engine's lock.

        The notes of the exceptions, with the stage and the source item, are written now: the class of an exception may
        be the user's, and so may be what adds a note.
        """
        # Another consumer may be told at the same time. Nobody is told before the notes are there.
        for write in self._notes.copy():
            write()
            with suppress(ValueError):
                self._notes.remove(write)
        return PipelineFailure(self.stages) if self.stages else None


def _annotate(error: BaseException, stage: str, origin: Callable[[], str] | None) -> None:
    annotate(error, stage, None if origin is None else origin())
