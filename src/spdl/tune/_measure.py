"""Measures windows of a period."""

from __future__ import annotations

import itertools
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from ._window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._history import Period
    from ._limits import Limits
    from ._observation import Observation

__all__ = ["Pace", "any_window", "pace_of", "recent_window", "whole_window"]

# A window has to be so long, and to have so many items. After the last of these times it is taken as it is.
_SHORT = 0.25
_ITEMS = 16
_LONG = 6.0
# Ops that run at once may end at once as well: so many times their duration tell a rate.
_SERVICES = 5
# After a change, what was under way before has to leave first.
_SETTLING = 0.1
# A window is cut in so many parts, whose rates show how uneven the pace is.
_PARTS = 6


class Pace(NamedTuple):
    """How the progress of a pipeline is measured.

    What the stages do is added up, an item of each counting as much as its ops usually take. So a step that only lets
    one stage take the cores from another shows as no progress.

    Attributes:
        finest: The stage that is done with the most items: it shows soonest whether a window is long enough.
        weights: What an item of each stage counts.
    """

    finest: int
    weights: tuple[float, ...]


def pace_of(observation: Observation) -> Pace:
    """Return how to measure progress, by what the stages have done in all."""
    done = [stage.done for stage in observation.stages]
    finest = len(done) - 1 - done[::-1].index(max(done))
    weights = [stage.busy / stage.done if stage.done else 0.0 for stage in observation.stages]
    if not any(weights):
        weights[finest] = 1.0
    return Pace(finest, tuple(weights))


def _progress(before: Observation, after: Observation, pace: Pace) -> float:
    return sum(
        weight * (late.done - early.done)
        for weight, early, late in zip(pace.weights, before.stages, after.stages, strict=True)
    )


def whole_window(period: Period, pace: Pace, seconds: float = 0.0) -> Window | None:
    """Return all of a period but its beginning, if that is long enough, and at least so many seconds."""
    observations = period.observations
    begin = _begin(period)
    if begin + 1 >= len(observations) or observations[-1].time - observations[begin].time < seconds:
        return None
    return _judged(observations[begin:], period.limits, pace)


def recent_window(period: Period, pace: Pace, seconds: float) -> Window | None:
    """Return the last window of a period that is long enough, and at least so many seconds; None if there is none."""
    observations = period.observations
    for begin in range(len(observations) - 2, _begin(period) - 1, -1):
        if observations[-1].time - observations[begin].time < seconds:
            continue
        if (window := _judged(observations[begin:], period.limits, pace)) is not None:
            return window
    return None


def any_window(period: Period, pace: Pace) -> Window | None:
    """Return the last window of a period that is long enough; if there is none, all of it but its beginning."""
    window = recent_window(period, pace, 0.0)
    observations = period.observations[_begin(period) :]
    if window is None and len(observations) > 1:
        items = observations[-1].stages[pace.finest].done - observations[0].stages[pace.finest].done
        window = _measure(observations, period.limits, pace, observations[-1].time - observations[0].time, items)
    return window


def _begin(period: Period) -> int:
    """Return the first observation that is not of the time of settling."""
    observations = period.observations
    if not observations:
        return 0
    late = int(len(observations) > 1 and observations[1].lags)
    start = observations[late]
    for index in range(late, len(observations)):
        if observations[index].time - start.time >= _SETTLING + _service_time(start, observations[index]):
            return index
    return len(observations)


def _service_time(first: Observation, last: Observation) -> float:
    """Return the mean duration of the slowest stage's ops."""
    return max(
        (
            (after.busy - before.busy) / (after.done - before.done)
            for before, after in zip(first.stages, last.stages, strict=True)
            if after.done > before.done
        ),
        default=0.0,
    )


def _judged(observations: Sequence[Observation], limits: Limits, pace: Pace) -> Window | None:
    first, last = observations[0], observations[-1]
    seconds = last.time - first.time
    items = last.stages[pace.finest].done - first.stages[pace.finest].done
    if seconds < _LONG:
        least = max(_ITEMS, 2 * limits.concurrency[pace.finest])
        if items < least or seconds < max(_SHORT, _SERVICES * _service_time(first, last)):
            return None
    return _measure(observations, limits, pace, seconds, items)


def _measure(observations: Sequence[Observation], limits: Limits, pace: Pace, seconds: float, items: int) -> Window:
    first, last = observations[0], observations[-1]
    sampled = sum((after.time - before.time) * after.waits for before, after in itertools.pairwise(observations)) / max(
        1e-9, seconds
    )
    counted = min(1.0, (last.waited - first.waited) / seconds)
    pairs = list(zip(first.stages, last.stages, strict=True))
    return Window(
        seconds=seconds,
        items=items,
        rate=_progress(first, last, pace) / seconds,
        error=_error(observations, pace),
        cores=(last.cpu - first.cpu) / seconds,
        wanted=(last.cpu - first.cpu + last.coreless - first.coreless) / seconds,
        # A wait is counted when it has ended, which is too late for long ones; short ones are rarely seen.
        waiting=max(sampled, counted) if last.read > first.read or last.waits else sampled,
        source=min(1.0, (last.source - first.source) / seconds),
        short=min(1.0, (last.short - first.short) / seconds),
        busy=tuple(_busy(observations, index, slots, seconds) for index, slots in enumerate(limits.concurrency)),
        service=tuple((after.busy - before.busy) / max(1, after.done - before.done) for before, after in pairs),
        held=tuple(min(1.0, (after.held - before.held) / seconds) for before, after in pairs),
        blocked=tuple(min(1.0, (after.blocked - before.blocked) / seconds) for before, after in pairs),
    )


def _busy(observations: Sequence[Observation], stage: int, slots: int, seconds: float) -> float:
    first, last = observations[0].stages[stage], observations[-1].stages[stage]
    if last.done - first.done >= 4 * slots:
        return (last.busy - first.busy) / seconds
    # Ops count when they have ended: of few long ones, those that are seen to run tell more.
    return sum(each.stages[stage].running for each in observations[1:]) / (len(observations) - 1)


def _error(observations: Sequence[Observation], pace: Pace) -> float:
    first, last = observations[0], observations[-1]
    if len(observations) <= _PARTS or last.stages[pace.finest].done == first.stages[pace.finest].done:
        return 1.0 / sqrt(max(1, last.stages[pace.finest].done - first.stages[pace.finest].done))
    cuts = [observations[round(index * (len(observations) - 1) / _PARTS)] for index in range(_PARTS + 1)]
    rates = [
        _progress(before, after, pace) / max(1e-9, after.time - before.time)
        for before, after in itertools.pairwise(cuts)
    ]
    mean = sum(rates) / _PARTS
    return sqrt(sum((rate - mean) ** 2 for rate in rates) / (_PARTS - 1) / _PARTS) / max(1e-12, mean)
