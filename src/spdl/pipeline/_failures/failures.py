"""The failures of a running pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .failure import PipelineFailure, annotate
from .quarantine import Quarantine
from .tally import Tally

if TYPE_CHECKING:
    from spdl.pipeline._declare.policy import MaxFailures

__all__ = ["Failures"]


class Failures:
    """The failures of one run. The lists only grow; they are guarded by the engine's lock.

    Attributes:
        stages: The name of each failed stage and what it raised, in the order of the failures.
        tally: The failed items of stages that have no limit of their own.
        quarantine: The most recent failed items.
    """

    __slots__ = ("quarantine", "stages", "tally")

    def __init__(self, max_failures: MaxFailures) -> None:
        self.stages: list[tuple[str, BaseException]] = []
        self.tally = Tally(max_failures)
        self.quarantine = Quarantine()

    def __bool__(self) -> bool:
        return bool(self.stages)

    def add(self, name: str, error: BaseException) -> None:
        """Note that a stage, or the engine itself, has failed."""
        self.stages.append((name, error))

    def add_stage(self, name: str, info: object, origin: str | None, error: BaseException) -> None:
        """Note that a stage has failed, and write the stage and the source item into the exception's notes."""
        annotate(error, str(info), origin)
        self.add(name, error)

    def as_exception(self) -> PipelineFailure | None:
        """Return what the consumer is to be told; None if nothing failed."""
        return PipelineFailure(self.stages) if self.stages else None
