"""What limits a pipeline, why, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KINDS", "Verdict"]

# The kinds of verdicts, each with what it says.
KINDS = {
    "none": "nothing is saturated",
    "unclear": "a stage is in use all the time, and what its ops wait for was not seen",
    "GIL": "the ops hold the GIL, so threads do not run side by side",
    "CPU": "the ops compute, and their slots or the cores are all in use",
    "lock": "the ops take turns at a lock, or wait for other threads",
    "oversubscription": "more threads want to compute than there are cores",
    "I/O": "the ops wait for a disk, the network or another process",
    "serial source": "the source's next() takes all the time",
    "held back by order": "finished items wait for an earlier one",
    "slow consumer": "the training loop is slower than the loader",
    "batching": "making batches takes all the time",
    "transfer": "copying to the device takes all the time",
    "pickling": "items and results are on their way between processes for longer than the ops work on them",
    "retries": "ops fail and are tried again",
    "memory budget": "the bytes of the items in flight leave no room for another one",
    "hang": "nothing moves, and an op does not end",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits a pipeline.

    Attributes:
        kind: One of `KINDS`.
        stage: The name of the stage or source; empty if it is none.
        evidence: How one can tell.
        remedy: What to do.
        settings: What the remedy sets, by name, where it is a number to set.
        bound: How many times faster the pipeline is then at most, by the next limit; None if nobody can tell.

    Example:
        >>> from spdl.observe import Verdict
        >>> Verdict("I/O", "fetch", "Its 2 slots wait.", "`concurrency=8`.", {"concurrency": 8}, 4.0).sentence()
        "I/O. 'fetch': Its 2 slots wait. `concurrency=8`. At most 4.00x as fast."
    """

    kind: str
    stage: str
    evidence: str
    remedy: str
    settings: Mapping[str, int] = field(default_factory=dict)
    bound: float | None = None

    @property
    def predicted_gain(self) -> float | None:
        """The bound, as it was called before."""
        return self.bound

    def sentence(self) -> str:
        """Return all of it in words."""
        where = f"{self.stage!r}: " if self.stage else ""
        gain = "" if self.bound is None else f" At most {self.bound:.2f}x as fast."
        return f"{self.kind[0].upper()}{self.kind[1:]}. {where}{self.evidence} {self.remedy}{gain}"
