"""What was observed, and under which limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._decision import Decision
    from ._limits import Limits
    from ._observation import Observation
    from ._window import Window

__all__ = ["LOWERED", "RAISED", "REFUTED", "STARTED", "UNDONE", "History", "Period"]

# Why the limits of a period are what they are. A step is refuted if it is undone, all or part of it, since the ops were
# seen to be in each other's way; to try it again would show the same.
STARTED, RAISED, LOWERED, UNDONE, REFUTED = "started", "raised", "lowered", "undone", "refuted"

# So many observations of a period are kept from its beginning, by which a change is judged, and from its end.
_FIRST = 64
_LAST = 64
# Workers that have not learnt of a change after so many seconds are not waited for: an op in them may never end.
_PATIENCE = 60.0
# So many periods are kept.
_PERIODS = 24


class Period:
    """A time under unchanged limits.

    Attributes:
        limits: These limits.
        move: Why they are what they are.
        observations: What was observed, the first ones and the last ones. If the second one lags, the limits are in
            force from there on.
        kept: Whether the step that led here was found to be worth it.
        looks: How many looks have found nothing to do.
        steady: What happened until the last of them; None before that.
        reason: Why there was nothing to do.
    """

    def __init__(self, limits: Limits, move: str) -> None:
        self.limits = limits
        self.move = move
        self.observations: list[Observation] = []
        self.kept = move not in (RAISED, LOWERED)
        self.looks = 0
        self.steady: Window | None = None
        self.reason = ""

    def add(self, observation: Observation) -> None:
        """Append an observation; of a long period, only the first and the last ones are kept.

        Of those before all workers know the limits, these are the first, which may have been made just before the
        change, and the last.
        """
        if observation.lags and self._is_new() and observation.time - self.observations[0].time < _PATIENCE:
            del self.observations[1:]
        self.observations.append(observation)
        if len(self.observations) > _FIRST + _LAST:
            del self.observations[_FIRST]

    def _is_new(self) -> bool:
        return len(self.observations) == 1 or (len(self.observations) == 2 and self.observations[1].lags)  # noqa: PLR2004

    def note_kept(self) -> None:
        """Note that the step was worth it."""
        self.kept = True

    def note_look(self, window: Window, reason: str, *, steady: bool) -> None:
        """Note that a look at this window has found nothing to do, and why."""
        self.looks += 1
        self.reason = reason
        if steady:
            self.steady = window


class History:
    """The periods since the start, the last one still going on. It is bounded."""

    def __init__(self, limits: Limits) -> None:
        self._periods = [Period(limits, STARTED)]

    @property
    def periods(self) -> Sequence[Period]:
        """The periods that are kept, oldest first."""
        return self._periods

    def add(self, observation: Observation) -> None:
        """Note an observation."""
        self._periods[-1].add(observation)

    def note(self, decision: Decision) -> None:
        """Note what was decided by the last observation."""
        if decision.kept:
            self._periods[-1].note_kept()
        if decision.seen is not None:
            self._periods[-1].note_look(decision.seen, decision.reason, steady=decision.settled)
        if decision.move:
            self._change(decision.limits, decision.move)

    def _change(self, limits: Limits, move: str) -> None:
        """Begin a period with other limits, at the moment of the last observation."""
        period = Period(limits, move)
        if self._periods[-1].observations:
            period.add(self._periods[-1].observations[-1])
        self._periods = [*self._periods[1 - _PERIODS :], period]
