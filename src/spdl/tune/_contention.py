"""Stages whose ops are in each other's way: what speaks for it, and what follows."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, sqrt
from typing import TYPE_CHECKING

from ._decision import Decision
from ._history import RAISED, REFUTED
from ._resources import scarcest
from ._steps import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._history import Period
    from ._limits import Budgets
    from ._window import Window

__all__ = ["in_each_others_way", "put_back", "without_refuted"]

# Ops are in each other's way if they last longer by such a power of the ratio of their numbers: at 0 they are not at
# all, at 1 they take turns.
_HALFWAY = 0.7
# The deviation of the logarithm of an op's duration, which is not known; and so many deviations of the mean tell.
_DEVIATION = 0.5
_DEVIATIONS = 3.0
# The cores are nearly all in use from this share of them.
_BUSY = 0.75
_FULL = 0.93


def in_each_others_way(periods: Sequence[Period], budgets: Budgets, then: Window, now: Window) -> dict[int, bool]:
    """Return for each stage that was raised whether its ops have become so slow that more of them do no more.

    What they wait for a core does not count. Stages of which too few ops have ended are left out. All are on a
    system that does not tell how long threads wait for a core, if the cores are nearly all in use. If they are all in
    use, that is why ops are slow.
    """
    if periods[-1].move != RAISED or (now.cores > _BUSY * budgets.cores and now.wanted <= now.cores):
        return {}
    before, after = (period.limits for period in periods[-2:])
    if now.cores > _FULL * budgets.cores:
        return {index: False for index, new in enumerate(after.concurrency) if new > before.concurrency[index]}
    was_used, used = then.usage(before), now.usage(after)
    # The fullest stage, if nothing else is the limit, has work for all of its slots: where it does not use them, its
    # threads wait between ops.
    alone = scarcest(after, budgets, now)[0] < _BUSY
    found = {}
    for index, (old, new) in enumerate(zip(before.concurrency, after.concurrency, strict=True)):
        if new > old and (doubt := _doubt(then.ended(index), now.ended(index))) < new / old:
            slower = now.service[index] * _on_cores(now) / (then.service[index] * _on_cores(then))
            if alone and used[index] >= max(used):
                slower *= max(1.0, was_used[index] / used[index])
            found[index] = slower >= max(doubt, (new / old) ** _HALFWAY)
    return found


def _doubt(then: float, now: float) -> float:
    """Return by how much the mean durations of so many ops differ at most without a cause."""
    return (
        exp(_DEVIATIONS * _DEVIATION * sqrt(1 / max(then, 1e-9) + 1 / max(now, 1e-9))) if min(then, now) >= 1 else inf
    )


def _on_cores(window: Window) -> float:
    """Return the share of the ops' time in which they do not wait for a core."""
    return max(0.01, 1.0 - (window.wanted - window.cores) / max(1e-9, sum(window.busy)))


def put_back(periods: Sequence[Period], budgets: Budgets, blocked: dict[int, bool]) -> Decision | None:
    """Return the decision to keep a step but for stages whose ops are in each other's way; None if there are none."""
    before, after = (period.limits for period in periods[-2:])
    if not any(blocked.values()) or all(blocked.values()):
        return None
    slots = [before.concurrency[index] if blocked.get(index) else each for index, each in enumerate(after.concurrency)]
    limits = replace(after, concurrency=tuple(slots), num_threads=budgets.needed_threads(slots, after.num_threads))
    return Decision(limits, REFUTED, f"{describe(after, limits, budgets)}: more of these ops are in each other's way.")


def without_refuted(periods: Sequence[Period], budgets: Budgets) -> Budgets:
    """Return the budgets without what was refuted since the pipeline changed last."""
    most: dict[int, int] = {}
    for base, tried, undone in zip(periods, periods[1:], periods[2:], strict=False):
        if undone.move == REFUTED:
            slots = zip(base.limits.concurrency, tried.limits.concurrency, undone.limits.concurrency, strict=True)
            most |= {index: old for index, (old, new, back) in enumerate(slots) if back == old < new}
        if undone.steady is not None and undone is not periods[-1]:
            # It had settled, and then something changed.
            most.clear()
    return budgets.cap(most)
