"""The decision: from what was observed to the limits that come next. It knows no clock and no threads."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from ._history import LOWERED, RAISED, UNDONE
from ._resources import scarcest
from ._steps import describe, lower_limits, raise_limits, why
from ._window import first_windows, pace_of, recent_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._history import History, Period
    from ._limits import Budgets, Limits
    from ._window import Pace, Window

__all__ = ["Decision", "decide"]

# A resource is the limit if what it has left would make the pipeline faster by no more than this.
_ENOUGH = 1.035
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
# What is tried again is judged by a longer time.
_SURE = 4.0
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
    pace = pace_of(period.observations[-1])
    if period.move in (RAISED, LOWERED) and len(periods) > 1:
        again = _failed(periods, periods[-2].limits, pace, None) > 0
        gain, kept = _judge(periods[-2], period, budgets, pace, _SURE if again else _LATEST)
        if kept is None:
            return _wait(limits, "The effect of the last step is being measured.")
        if not kept:
            reason = f"The last step changed the rate by {gain:+.0%}, which is not worth it, so it is undone."
            return Decision(periods[-2].limits, UNDONE, reason, settled=False)
    return _look(periods, limits, budgets, pace)


def _look(periods: Sequence[Period], limits: Limits, budgets: Budgets, pace: Pace) -> Decision:
    """Decide by a short first look, by a longer second one, and then only if something has changed since."""
    period = periods[-1]
    first = next(first_windows(period, pace), None)
    if first is None:
        return _wait(limits, "The rate is being measured.")
    decision = _next(periods, limits, budgets, pace, first)
    if decision.move:
        return decision
    second = next(first_windows(period, pace, _STEADY), None)
    if second is None:
        return decision
    decision = _next(periods, limits, budgets, pace, second)
    if decision.move:
        return decision
    recent = recent_window(period, pace, _STEADY)
    if recent is not None and _has_changed(second, recent, limits, budgets):
        decision = _next(periods, limits, budgets, pace, recent)
    return decision._replace(settled=not decision.move)


def _wait(limits: Limits, reason: str) -> Decision:
    return Decision(limits, "", reason, settled=False)


def _judge(base: Period, tried: Period, budgets: Budgets, pace: Pace, latest: float) -> tuple[float, bool | None]:
    """Return by how much a step has changed the rate, and whether to keep it; None if that is not clear yet."""
    before = recent_window(base, pace, 0.0)
    if before is None or before.rate <= 0:
        return 0.0, True
    if tried.move == LOWERED:
        least = -_LOSS
    else:
        usage = scarcest(base.limits, budgets, before)[0]
        least = max(_LEAST_GAIN, min(_MOST_GAIN, _SHARE * (1 / max(usage, 1e-9) - 1)))
    gain = 0.0
    for after in first_windows(tried, pace):
        if tried.move == LOWERED and scarcest(tried.limits, budgets, after)[0] > 1 / _ENOUGH:
            # What limits it still does, so it cannot be slower for this.
            return 0.0, True
        gain = after.rate / before.rate - 1
        error = _ERRORS * (before.error**2 + after.error**2) ** 0.5
        # Waiting longer makes only the second of the two rates more exact.
        exact = error <= _EXACT or after.error <= before.error
        if (
            abs(gain - least) >= error
            or (latest == _LATEST and after.seconds >= _STEADY and exact)
            or after.seconds >= latest
        ):
            return gain, gain >= least
    return gain, None


def _has_changed(before: Window, now: Window, limits: Limits, budgets: Budgets) -> bool:
    """Return whether the pipeline has become slower, or what limited it does so no more."""
    slower = now.rate < (1 - _SAME) * before.rate
    return slower or scarcest(limits, budgets, now)[0] < (1 - _SAME) * scarcest(limits, budgets, before)[0]


def _next(periods: Sequence[Period], limits: Limits, budgets: Budgets, pace: Pace, window: Window) -> Decision:
    usage, scarce = scarcest(limits, budgets, window)
    if usage > 1 / _ENOUGH:
        return _give_back(periods, limits, budgets, window, scarce)
    failed = _failed(periods, limits, pace, window.rate)
    if failed and window.seconds < _STEADY:
        return _wait(limits, "More was tried, and was no faster; it is looked at once more.")
    if failed >= len(_FACTORS):
        return _give_back(periods, limits, budgets, window, "More was tried, and was no faster.")
    raised = raise_limits(limits, budgets, window, min(_FACTORS[failed], _ROOM / max(usage, 1e-9)))
    if raised == limits:
        return _give_back(
            periods,
            limits,
            budgets,
            window,
            "More slots would stay empty: no stage that may have more uses those that it has.",
        )
    changes = describe(limits, raised, budgets)
    return Decision(raised, RAISED, f"{changes}: {why(limits, budgets, window)}", settled=False)


def _failed(periods: Sequence[Period], limits: Limits, pace: Pace, rate: float | None) -> int:
    """Return how often more was tried from these limits in vain, while the rate was what it is now if one is given."""
    failed = 0
    for base, tried, undone in zip(periods, periods[1:], periods[2:], strict=False):
        if tried.move == RAISED and undone.move == UNDONE and base.limits == limits == undone.limits:
            before = recent_window(base, pace, 0.0)
            same = rate is None or (before is not None and abs(before.rate / max(rate, 1e-9) - 1) <= _SAME)
            failed += same
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
