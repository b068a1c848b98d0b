"""The decision: from what was observed to the limits that come next. It knows no clock and no threads."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from ._history import LOWERED, RAISED, UNDONE
from ._resources import scarcest
from ._steps import describe, lower_limits, raise_limits, why
from ._window import finest_stage, first_windows, recent_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._history import History, Period
    from ._limits import Budgets, Limits
from ._window import Window

__all__ = ["Decision", "decide"]

# A resource is the limit if what it has left would make the pipeline faster by no more than this.
_ENOUGH = 1.05
# How much faster a step tries to make the pipeline, first and if that has failed.
_FACTORS = (2.0, 1.5)
# A step that goes as far as another resource allows goes a little further: items come unevenly, and a stage that could
# just keep up does not.
_ROOM = 1.15
# A step is kept if it has made the pipeline faster by such a share of what was to be gained, within bounds. More
# threads for less are not worth their contention. It is judged once the gain differs from that by so many standard
# errors.
_SHARE = 0.2
_LEAST_GAIN, _MOST_GAIN = 0.02, 0.08
# Giving back must not cost more than this.
_LOSS = 0.03
_ERRORS = 2.0
# It is judged in any case once the comparison is so exact, or after so many seconds.
_EXACT = 0.1
_LATEST = 2.5
# The two rates have another cause than the limits if they are further apart than this.
_SAME = 0.3
# Seconds that tell for sure.
_STEADY = 1.5


class Decision(NamedTuple):
    """What to do now.

    Attributes:
        limits: The limits that come next; the ones in force if nothing is to change.
        move: What kind of change this is, one of those of `History`; empty if nothing is to change.
        reason: Why, in one sentence.
        settled: Whether nothing more is to be gained.
    """

    limits: Limits
    move: str
    reason: str
    settled: bool


def decide(history: History, limits: Limits, budgets: Budgets) -> Decision:
    """Return the limits that come next.

    A step raises the limits that hold the pipeline up by as much as the stages' own times call for, to make it twice as
    fast or as fast as the scarcest of the other resources allows. It is kept if the pipeline became faster, and undone
    if not.

    Args:
        history: What was observed until now.
        limits: The limits in force.
        budgets: How far they may go.
    """
    periods = history.periods
    period = periods[-1]
    if not period.observations or not any(stage.done for stage in period.observations[-1].stages):
        return _wait(limits, "Nothing has come through yet.")
    stage = finest_stage(period.observations[-1])
    if period.move in (RAISED, LOWERED) and len(periods) > 1:
        gain, kept = _judge(periods[-2], period, budgets, stage)
        if kept is None:
            return _wait(limits, "The effect of the last step is being measured.")
        if not kept:
            reason = f"The last step changed the rate by {gain:+.0%}, which is not worth it, so it is undone."
            return Decision(periods[-2].limits, UNDONE, reason, settled=False)
    return _look(periods, limits, budgets, stage)


def _look(periods: Sequence[Period], limits: Limits, budgets: Budgets, stage: int) -> Decision:
    """Decide by a short first look, by a longer second one, and then only if something has changed since."""
    period = periods[-1]
    first = next(first_windows(period, stage), None)
    if first is None:
        return _wait(limits, "The rate is being measured.")
    decision = _next(periods, limits, budgets, stage, first)
    if decision.move:
        return decision
    second = next(first_windows(period, stage, _STEADY), None)
    if second is None:
        return decision
    decision = _next(periods, limits, budgets, stage, second)
    if decision.move:
        return decision
    recent = recent_window(period, stage, _STEADY)
    if recent is not None and _has_changed(second, recent, limits, budgets):
        decision = _next(periods, limits, budgets, stage, recent)
    return decision._replace(settled=not decision.move)


def _wait(limits: Limits, reason: str) -> Decision:
    return Decision(limits, "", reason, settled=False)


def _judge(base: Period, tried: Period, budgets: Budgets, stage: int) -> tuple[float, bool | None]:
    """Return by how much a step has changed the rate, and whether to keep it; None if that is not clear yet."""
    before = recent_window(base, stage, 0.0)
    if before is None or before.rate <= 0:
        return 0.0, True
    if tried.move == LOWERED:
        least = -_LOSS
    else:
        usage = scarcest(base.limits, budgets, before)[0]
        least = max(_LEAST_GAIN, min(_MOST_GAIN, _SHARE * (1 / max(usage, 1e-9) - 1)))
    gain = 0.0
    for after in first_windows(tried, stage):
        if tried.move == LOWERED and scarcest(tried.limits, budgets, after)[0] > 1 / _ENOUGH:
            # What limits it still does, so it cannot be slower for this.
            return 0.0, True
        gain = after.rate / before.rate - 1
        error = _ERRORS * (before.error**2 + after.error**2) ** 0.5
        # Waiting longer makes only the second of the two rates more exact.
        exact = error <= _EXACT or after.error <= before.error
        if abs(gain - least) >= error or (after.seconds >= _STEADY and exact) or after.seconds >= _LATEST:
            return gain, gain >= least
    return gain, None


def _has_changed(before: Window, now: Window, limits: Limits, budgets: Budgets) -> bool:
    """Return whether the pipeline has become slower, or what limited it does so no more."""
    slower = now.rate < (1 - _SAME) * before.rate
    return slower or scarcest(limits, budgets, now)[0] < (1 - _SAME) * scarcest(limits, budgets, before)[0]


def _next(periods: Sequence[Period], limits: Limits, budgets: Budgets, stage: int, window: Window) -> Decision:
    usage, scarce = scarcest(limits, budgets, window)
    if usage > 1 / _ENOUGH:
        return _give_back(periods, limits, budgets, window, scarce)
    failed = _failed(periods, limits, stage, window.rate)
    if failed and window.seconds < _STEADY:
        return _wait(limits, "More was tried, and was no faster; it is looked at once more.")
    if failed >= len(_FACTORS):
        return _give_back(periods, limits, budgets, window, "More was tried, and was no faster.")
    raised = raise_limits(limits, budgets, window, min(_FACTORS[failed], _ROOM / max(usage, 1e-9)))
    if raised == limits:
        return _give_back(periods, limits, budgets, window, "More slots would stay empty: no stage that may have more uses those that it has.")
    changes = describe(limits, raised, budgets)
    return Decision(raised, RAISED, f"{changes}: {why(limits, budgets, window)}", settled=False)


def _failed(periods: Sequence[Period], limits: Limits, stage: int, rate: float) -> int:
    """Return how often more was tried from these limits in vain, while the pace was what it is now."""
    failed = 0
    for base, tried, undone in zip(periods, periods[1:], periods[2:], strict=False):
        if tried.move == RAISED and undone.move == UNDONE and base.limits == limits == undone.limits:
            before = recent_window(base, stage, 0.0)
            failed += before is not None and abs(before.rate / max(rate, 1e-9) - 1) <= _SAME
    return failed


def _give_back(periods: Sequence[Period], limits: Limits, budgets: Budgets, window: Window, reason: str) -> Decision:
    """Return the decision to leave the limits as they are, or to give back what is not used."""
    lowered = lower_limits(limits, budgets, window) if window.seconds >= _STEADY else limits
    if lowered == limits or _lowered_in_vain(periods, limits):
        return _wait(limits, reason)
    return Decision(
        lowered, LOWERED, f"{describe(limits, lowered, budgets)}: the others are idle. {reason}", settled=False
    )


def _lowered_in_vain(periods: Sequence[Period], limits: Limits) -> bool:
    return any(
        tried.move == LOWERED and undone.move == UNDONE and undone.limits == limits
        for tried, undone in itertools.pairwise(periods)
    )
