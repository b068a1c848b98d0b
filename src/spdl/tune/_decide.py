"""The decision: from what was observed to the limits that come next. It knows no clock and no threads."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ._contention import in_each_others_way, put_back, without_refuted
from ._decision import Decision
from ._history import LOWERED, RAISED, REFUTED, UNDONE
from ._measure import any_window, pace_of, recent_window, whole_window
from ._resources import ENOUGH, scarcest
from ._steps import describe, fill_buffer, is_handing_over, lower_limits, raise_buffer, raise_limits, why

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._history import History, Period
    from ._limits import Budgets, Limits
    from ._measure import Pace
    from ._window import Window

__all__ = ["decide"]

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
# A time so long in which they are shows it.
_TELLING = 0.7
# The two rates have another cause than the limits if they are further apart than this.
_SAME = 0.3
# What was tried at another rate, by this factor, does not count.
_OTHER = 2.0
# Seconds that tell for sure.
_STEADY = 1.5
# Seconds of the looks at what there is to gain. If the last one finds nothing, nothing is looked for any more.
_LOOKS = (0.0, _STEADY, 3.0)


def decide(history: History, limits: Limits, budgets: Budgets) -> Decision:
    """Return the limits that come next.

    A step raises the limits that hold the pipeline up by as much as the stages' own times call for, to make it twice as
    fast or as fast as the scarcest of the other resources allows. It is kept if the pipeline became faster, and undone
    if not.

    Args:
        history: What was observed until now, and what was found by earlier decisions.
        limits: The limits in force.
        budgets: How far they may go.
    """
    periods = history.periods
    period = periods[-1]
    if nothing := _nothing_seen(periods):
        return _wait(limits, nothing)
    pace = pace_of(period.observations[-1])
    if period.steady is not None:
        return _watch(periods, period.steady, limits, budgets, pace)
    budgets = without_refuted(periods, budgets)
    if not period.kept:
        return _judge(periods, limits, budgets, pace)
    # Ever longer looks; where more was tried in vain, the second is the last.
    window = whole_window(period, pace, _LOOKS[period.looks])
    if window is None:
        return _wait(limits, period.reason or "The rate is being measured.")
    decision = _next(periods, limits, budgets, pace, window)
    if decision.move:
        return decision
    last = len(_LOOKS) - 1 - (_failed(periods, limits, pace, window.rate) >= len(_FACTORS))
    return decision._replace(seen=window, settled=period.looks >= last)


def _wait(limits: Limits, reason: str) -> Decision:
    return Decision(limits, "", reason)


def _nothing_seen(periods: Sequence[Period]) -> str:
    """Return why nothing is known as yet; an empty text if something is."""
    observations = periods[-1].observations
    if not observations or not any(stage.done for stage in observations[-1].stages):
        return "Nothing has come through yet."
    if len(periods) == 1 and all(each.lags for each in observations):
        return "The workers of a region have yet to begin."
    return ""


def _watch(periods: Sequence[Period], steady: Window, limits: Limits, budgets: Budgets, pace: Pace) -> Decision:
    """Leave everything as it is unless something has changed since the limits settled."""
    recent = recent_window(periods[-1], pace, _STEADY)
    if recent is not None and _has_changed(steady, recent, limits, without_refuted(periods, budgets)):
        # What was refuted may be worth it now.
        decision = _next(periods, limits, budgets, pace, recent)
        return decision if decision.move else decision._replace(settled=True)
    return Decision(limits, "", periods[-1].reason, settled=True)


def _judge(periods: Sequence[Period], limits: Limits, budgets: Budgets, pace: Pace) -> Decision:
    """Keep the last step or undo it, or wait if its effect is not clear yet."""
    base, tried = periods[-2:]
    measured = _wait(limits, "The effect of the last step is being measured.")
    before, after = any_window(base, pace), whole_window(tried, pace)
    if before is None or before.rate <= 0:
        return measured._replace(kept=True)
    if after is None:
        return measured
    if tried.move == LOWERED:
        return _judge_lowering(periods, limits, budgets, (before, after), pace)
    usage = scarcest(base.limits, budgets, before)[0]
    least = max(_LEAST_GAIN, min(_MOST_GAIN, _SHARE * (1 / max(usage, 1e-9) - 1)))
    gain = after.rate / before.rate - 1
    if base.limits.buffer_size < limits.buffer_size and before.cores and after.cores:
        # Fewer turns of the consumer save CPU time, which shows sooner than the rate, whatever else the machine does.
        gain = max(gain, after.rate / after.cores / (before.rate / before.cores) - 1)
    error = _error(before, after)
    # The rates of few items do not tell, but the ops' durations do: they grow where ops wait for each other.
    blocked = in_each_others_way(periods, budgets, whole_window(base, pace) or before, after)
    useless = bool(blocked) and all(blocked.values())
    useful = bool(blocked) and not useless
    refuted = useless and gain < least and after.seconds >= _TELLING
    again = _failed(periods, base.limits, pace, None) > 0
    if not refuted and not _is_clear(gain - least, before, after, again=again):
        return measured
    if gain >= least + error * useless or (abs(gain - least) < error and useful):
        return put_back(periods, budgets, blocked) or measured._replace(kept=True)
    reason = f"The last step changed the rate by {gain:+.0%}, which is not worth it, so it is undone."
    return Decision(base.limits, REFUTED if refuted else UNDONE, reason)


def _judge_lowering(
    periods: Sequence[Period], limits: Limits, budgets: Budgets, windows: tuple[Window, Window], pace: Pace
) -> Decision:
    """Keep what was given back, or take it again if the pipeline is slower for it."""
    base, (before, after) = periods[-2], windows
    measured = _wait(limits, "The effect of the last step is being measured.")
    loss = 1 - after.rate / before.rate
    if scarcest(limits, budgets, after)[0] > 1 / ENOUGH:
        # What limits it still does, so it cannot be slower for this.
        return measured._replace(kept=True)
    again = _failed(periods, base.limits, pace, None) > 0
    if not _is_clear(_LOSS - loss, before, after, again=again):
        return measured
    if loss <= _LOSS:
        return measured._replace(kept=True)
    reason = f"The last step changed the rate by {-loss:+.0%}, which is not worth it, so it is undone."
    return Decision(base.limits, UNDONE, reason)


def _error(before: Window, after: Window) -> float:
    return float(_ERRORS * (before.error**2 + after.error**2) ** 0.5)


def _is_clear(gain: float, before: Window, after: Window, *, again: bool) -> bool:
    """Return whether a gain differs from 0 for sure, or there was time enough; more if it was tried before."""
    error = _error(before, after)
    if abs(gain) >= error or after.seconds >= (_SURE if again else _LATEST):
        return True
    # Waiting longer makes only the second of the two rates more exact.
    exact = error <= _EXACT or after.error <= before.error
    return exact and not again and after.seconds >= _STEADY


def _has_changed(before: Window, now: Window, limits: Limits, budgets: Budgets) -> bool:
    """Return whether the pipeline has become slower, or what limited it does so no more."""
    sure = 1 + _ERRORS * now.error
    slower = sure * now.rate < (1 - _SAME) * before.rate
    return slower or sure * scarcest(limits, budgets, now)[0] < (1 - _SAME) * scarcest(limits, budgets, before)[0]


def _next(periods: Sequence[Period], limits: Limits, budgets: Budgets, pace: Pace, window: Window) -> Decision:
    usage, scarce = scarcest(limits, budgets, window)
    if usage > 1 / ENOUGH:
        return _give_back(periods, limits, budgets, window, scarce)
    failed = _failed(periods, limits, pace, window.rate)
    if failed and window.seconds < _STEADY:
        return _wait(limits, "More was tried, and was no faster; it is looked at once more.")
    if failed >= len(_FACTORS):
        return _give_back(periods, limits, budgets, window, "More was tried, and was no faster.")
    raised = limits
    if not failed and is_handing_over(limits, window):
        raised = fill_buffer(limits, budgets)
    if raised == limits:
        raised = raise_limits(limits, budgets, window, min(_FACTORS[failed], _ROOM / max(usage, 1e-9)))
    if raised == limits:
        raised = raise_buffer(limits, budgets, window)
    if raised == limits:
        return _give_back(
            periods,
            limits,
            budgets,
            window,
            "More slots would stay empty: no stage that may have more uses those that it has.",
        )
    changes = describe(limits, raised, budgets)
    return Decision(raised, RAISED, f"{changes}: {why(limits, budgets, window)}")


def _failed(periods: Sequence[Period], limits: Limits, pace: Pace, rate: float | None) -> int:
    """Return how often more was tried from these limits in vain, while the rate was what it is now if one is given."""
    failed = 0
    for base, tried, undone in zip(periods, periods[1:], periods[2:], strict=False):
        if tried.move == RAISED and undone.move == UNDONE and base.limits == limits == undone.limits:
            before = recent_window(base, pace, 0.0)
            same = before is not None and 1 / _OTHER <= before.rate / max(rate or before.rate, 1e-9) <= _OTHER
            failed += same
    return failed


def _give_back(periods: Sequence[Period], limits: Limits, budgets: Budgets, window: Window, reason: str) -> Decision:
    """Return the decision to leave the limits as they are, or to give back what is not used."""
    lowered = lower_limits(limits, budgets, window) if window.seconds >= _STEADY else limits
    if lowered == limits or _lowered_in_vain(periods, limits):
        return _wait(limits, reason)
    return Decision(lowered, LOWERED, f"{describe(limits, lowered, budgets)}: the others are idle. {reason}")


def _lowered_in_vain(periods: Sequence[Period], limits: Limits) -> bool:
    return any(
        tried.move == LOWERED and undone.move == UNDONE and undone.limits == limits
        for tried, undone in itertools.pairwise(periods)
    )
