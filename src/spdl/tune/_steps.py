"""The steps that limits take: up by as much as the stages' times call for, and down to what is used."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._limits import Budgets, Limits
    from ._window import Window

__all__ = ["describe", "fill_buffer", "is_handing_over", "lower_limits", "raise_buffer", "raise_limits", "why"]

# So much of its slots a stage is to use: of the rest, some wait for an item at any moment.
_USED = 0.9
# A stage that uses no more of its slots than this, once nothing more is to be gained, gives the others back.
_IDLE = 0.4
# A stage that uses less of its slots than this does not hold the others up: what takes time lies between its ops, as
# with ops of microseconds. For that, so many slots for each core are enough, if the consumer waits for so much of the
# time.
_HALF_FULL = 0.6
_PER_CORE = 2
_STARVED = 0.5
# The pace is uneven if the last stage has no place for its results for such a share of the time, and the consumer waits
# for results for as much. Then a buffer that is so many times as deep may help.
_UNEVEN = 0.05
_DEEPER = 4
# So few slots are not worth giving back.
_FEW = 2


def raise_limits(limits: Limits, budgets: Budgets, window: Window, factor: float) -> Limits:
    """Return the limits that would make the pipeline faster by a factor, if nothing else held it up."""
    pressure = [min(1.0, usage + held) for usage, held in zip(window.usage(limits), window.held, strict=True)]
    wanted = [
        slots
        if each.pinned
        else min(
            _most(each.most, limits, budgets, on_threads=each.on_threads),
            each.rounded_up(_slots(slots * share * factor, slots)),
        )
        for slots, share, each in zip(limits.concurrency, pressure, budgets.stages, strict=True)
    ]
    raised = tuple(map(max, wanted, limits.concurrency))
    if raised == limits.concurrency:
        raised = _raise_fullest(limits, budgets, window, pressure)
    threads = max(limits.num_threads, budgets.needed_threads(raised, limits.num_threads))
    return replace(limits, concurrency=raised, num_threads=threads)


def _most(most: int, limits: Limits, budgets: Budgets, *, on_threads: bool) -> int:
    return min(most, limits.num_threads) if on_threads and budgets.threads_pinned else most


def _slots(busy: float, now: int) -> int:
    # A quarter of a slot more is none: the mean of what was measured is never exact.
    return max(now, ceil(busy / _USED - 0.25))


def _raise_fullest(limits: Limits, budgets: Budgets, window: Window, pressure: Sequence[float]) -> tuple[int, ...]:
    """Return the concurrencies with the fullest stage's raised, where no stage is full on average."""
    free = [
        index
        for index, each in enumerate(budgets.stages)
        if not each.pinned and limits.concurrency[index] < _most(each.most, limits, budgets, on_threads=each.on_threads)
    ]
    if not free:
        return limits.concurrency
    fullest = max(free, key=pressure.__getitem__)
    wanted = window.waiting >= _STARVED and limits.concurrency[fullest] < _PER_CORE * budgets.cores
    if pressure[fullest] < _HALF_FULL and not wanted:
        return limits.concurrency
    each = budgets.stages[fullest]
    slots = limits.concurrency[fullest]
    more = min(
        _most(each.most, limits, budgets, on_threads=each.on_threads), each.rounded_up(slots + max(1, slots // 2))
    )
    return (*limits.concurrency[:fullest], more, *limits.concurrency[fullest + 1 :])


def is_handing_over(limits: Limits, window: Window) -> bool:
    """Return whether handing items over takes most of the time: the consumer waits, and no stage has much to do."""
    return window.waiting >= _STARVED and max(window.usage(limits)) + max(window.held) < _HALF_FULL


def fill_buffer(limits: Limits, budgets: Budgets) -> Limits:
    """Return the limits with as many places in front of the consumer as it may have: it then takes several at once."""
    return limits if budgets.buffer_pinned else replace(limits, buffer_size=budgets.buffer_size)


def raise_buffer(limits: Limits, budgets: Budgets, window: Window) -> Limits:
    """Return the limits with more places in front of the consumer, if at times it waits and at others is waited for."""
    if budgets.buffer_pinned or min(window.blocked[-1], window.waiting) < _UNEVEN:
        return limits
    return replace(limits, buffer_size=min(budgets.buffer_size, _DEEPER * limits.buffer_size))


def lower_limits(limits: Limits, budgets: Budgets, window: Window) -> Limits:
    """Return the limits without what is not used."""
    lowered = tuple(
        min(slots, each.rounded_up(ceil(usage * slots / _USED) + 1))
        if not each.pinned and usage <= _IDLE and slots > _FEW
        else slots
        for slots, usage, each in zip(limits.concurrency, window.usage(limits), budgets.stages, strict=True)
    )
    if lowered == limits.concurrency:
        return limits
    return replace(limits, concurrency=lowered, num_threads=budgets.needed_threads(lowered, limits.num_threads))


def why(limits: Limits, budgets: Budgets, window: Window) -> str:
    """Return what speaks for more."""
    full = [
        f"{each.name!r} uses {usage:.0%} of its slots"
        for usage, each in zip(window.usage(limits), budgets.stages, strict=True)
        if usage + 1e-9 >= max(window.usage(limits)) - 0.1
    ]
    return f"the consumer waits {window.waiting:.0%} of the time, and stage {' and '.join(full)}."


def describe(before: Limits, after: Limits, budgets: Budgets) -> str:
    """Return in words what changes."""
    changes = [
        f"concurrency of {each.name!r} {old // each.copies} -> {each.in_words(new)}"
        for each, old, new in zip(budgets.stages, before.concurrency, after.concurrency, strict=True)
        if old != new
    ]
    if before.num_threads != after.num_threads:
        changes.append(f"threads {before.num_threads} -> {after.num_threads}")
    if before.buffer_size != after.buffer_size:
        changes.append(f"buffer {before.buffer_size} -> {after.buffer_size}")
    return ", ".join(changes)
