"""The check that a run, or an epoch, has produced anything at all."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._metrics.counters import StageCounters

    from .quarantine import Quarantine

__all__ = ["EpochCounts"]


class _Counts(NamedTuple):
    """Numbers of items that a stage has given up, dropped and passed on."""

    failed: int
    dropped: int
    emitted: int


def _counts_of(stage: StageCounters) -> _Counts:
    return _Counts(stage.failed, stage.dropped, stage.emitted)


class EpochCounts:
    """The counts of each stage at the ends of epochs. Guarded by the engine's lock.

    Stages nearer the source may be epochs ahead of the sink, so each is asked when the mark passes it.
    """

    __slots__ = ("_before", "_passed", "_resumed")

    def __init__(self) -> None:
        # Of so many epochs, items may have come out or been dropped in an earlier run.
        self._resumed = 0
        # The counts of the stages at marks that have not reached the sink yet, and at the last mark that has.
        self._passed: dict[StageCounters, deque[_Counts]] = {}
        self._before: dict[StageCounters, _Counts] = {}

    def resume(self, epochs: int) -> None:
        """Note that an earlier run has begun the first epochs."""
        self._resumed = epochs

    def passes(self, stage: StageCounters) -> None:
        """Note that a stage passes on the end of an epoch."""
        self._passed.setdefault(stage, deque()).append(_counts_of(stage))

    def failure(self, stages: Sequence[tuple[str, StageCounters]], quarantine: Quarantine) -> RuntimeError | None:
        """Return what to raise at the end of the run, or of the epoch that has reached the sink, if every item failed.

        A loop over nothing looks like success: a wrong path or a broken op would train on no data at all.

        Args:
            stages: The names and counters of all stages, the last one at the sink.
            quarantine: The failed items.
        """
        culprit, failed, others = None, 0, 0
        last = stages[-1][1] if stages else None
        for name, stage in stages:
            passed = self._passed.get(stage)
            counts = passed.popleft() if passed else _counts_of(stage)
            before = self._before.get(stage, _Counts(0, 0, 0))
            self._before[stage] = counts
            failed += counts.failed - before.failed
            others += counts.dropped - before.dropped
            if counts.failed > before.failed:
                culprit = name
            if stage is last:
                others += counts.emitted - before.emitted
        resumed, self._resumed = self._resumed, max(0, self._resumed - 1)
        if culprit is None or others or resumed:
            return None
        # Another stage's failures in the next epoch may have pushed it out of what is remembered.
        errors = [item.error for item in quarantine.items() if item.stage == culprit]
        reason = f": {errors[-1]}" if errors else "."
        return RuntimeError(
            f"Nothing came out of the pipeline: all {failed} items failed, the last one in stage {culprit!r}{reason}"
        )
