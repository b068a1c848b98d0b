"""Observes, decides and remembers: the tuner without the pipeline that it tunes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ._decide import decide
from ._decision import Decision
from ._history import History
from ._pauses import Pauses

if TYPE_CHECKING:
    from ._limits import Budgets, Limits
    from ._observation import Observation

__all__ = ["Entry", "Session"]

# So many changes are remembered.
_ENTRIES = 200


class Entry(NamedTuple):
    """A change.

    Attributes:
        time: When it was made.
        limits: The limits from then on.
        reason: Why.
    """

    time: float
    limits: Limits
    reason: str


class Session:
    """The tuning of one pipeline.

    Attributes:
        limits: The limits in force.
        budgets: How far they may go.
        settled: Whether nothing more was to be gained when it was decided last.
        paused: Whether the consumer had read nothing when it was looked at last, though there was something.
        reason: What was decided last.
        log: The changes, oldest first.
    """

    def __init__(self, limits: Limits, budgets: Budgets) -> None:
        self.limits = limits
        self.budgets = budgets
        self.settled = False
        self.paused = False
        self.reason = "Nothing has come through yet."
        self.log: list[Entry] = []
        self._history = History(limits)
        self._pauses = Pauses()

    def observe(self, observation: Observation) -> Decision:
        """Note an observation, and return what to do."""
        active = self._pauses.without(observation)
        self.paused = active is None
        if active is None:
            return Decision(self.limits, "", self.reason, self.settled)
        self._history.add(active)
        decision = decide(self._history, self.limits, self.budgets)
        self._history.note(decision)
        self.reason = decision.reason
        self.settled = decision.settled
        if decision.move:
            self.limits = decision.limits
            self.log = [*self.log[1 - _ENTRIES :], Entry(observation.time, decision.limits, decision.reason)]
        return decision

    def pin(self, limits: Limits, budgets: Budgets) -> None:
        """Take over limits that were set by hand: what was learnt before says nothing about them."""
        self.limits = limits
        self.budgets = budgets
        self.settled = False
        self._history = History(limits)
