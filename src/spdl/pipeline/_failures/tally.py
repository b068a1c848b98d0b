"""The failures that count against one limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import is_fraction

if TYPE_CHECKING:
    from spdl.pipeline._declare.policy import MaxFailures
    from spdl.pipeline._metrics.counters import StageCounters

__all__ = ["Tally"]

# A share of failures says nothing before this many items were tried.
_ENOUGH = 100


class Tally:
    """The failures that one limit applies to: a stage's, or those of all stages without a limit of their own.

    Guarded by the engine's lock.
    """

    __slots__ = ("_stages", "limit")

    def __init__(self, limit: MaxFailures) -> None:
        self.limit = limit
        self._stages: list[StageCounters] = []

    def add(self, stage: StageCounters) -> None:
        """Count a stage's failures against this limit."""
        self._stages.append(stage)

    def verdict(self) -> str | None:
        """Return the end of a sentence that says that there are too many failures, or None if there are not."""
        limit = self.limit
        failures = sum(stage.failed for stage in self._stages)
        if is_fraction(limit):
            tried = failures + sum(stage.completed for stage in self._stages)
            if tried < _ENOUGH or failures * limit.denominator <= limit.numerator * tried:
                return None
            share, threshold = 100 * failures / tried, float(100 * limit)
            return (
                f"failed {failures} times out of {tried} invocations ({share:.1f}%), which exceeds the threshold "
                f"({threshold:.1f}%)"
            )
        if 0 <= limit < failures:
            return f"failed {failures} times, which exceeds the threshold ({limit})"
        return None
