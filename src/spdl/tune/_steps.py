"""The steps that limits take, up and down, and the resources that no step can get more of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from spdl.observe._verdict.verdict import Limit, next_limit

if TYPE_CHECKING:
    from spdl.tune._limits import Budgets, Limits

    from ._pace import Measured


# A resource is the limit if what it has left would make the pipeline faster by no more than this.
ENOUGH = 1.035
# If others use the cores as well, waiting threads are worth it up to this number for each core: the system shares the
# cores out among threads. But threads also wait if items come in bursts and the cores are not all in use; then
# they wait less than this many times as long as they run.
_CROWDED = 1.5
_LONG = 4.0
# A stage should use this much of its slots: some of the rest wait for an item at any moment.
_USED = 0.9
# A stage that uses no more of its slots than this, when there is nothing more to gain, gives the others back.
_IDLE = 0.4
# A stage that uses less of its slots than this does not hold the others up: what takes time lies between its ops, as
# with ops of microseconds. For that, this number of slots for each core is enough, if the consumer waits for this
# share of the time.
_HALF_FULL = 0.6
_PER_CORE = 2
_STARVED = 0.5
# The pace is uneven if the last stage has no place for its results for such a share of the time, and the consumer waits
# for results for as much. Then a buffer that is this many times as deep may help.
_UNEVEN = 0.05
_DEEPER = 4
# So few slots are not worth giving back.
_FEW = 2
# No number of slots helps against these.
_NOT_BY_SLOTS = ("slow consumer", "memory budget", "hang")


def scarcest(limits: Limits, budgets: Budgets, its: Measured) -> Limit:
    """Return what limits the pipeline once all is raised that may be: the next limit, as the verdict has it.

    The tuner also knows that it may not add threads, and which cores other programs use.
    """
    window = its.window
    free = [
        stage
        for stage, slots, each in zip(window.stages, limits.concurrency, budgets.stages, strict=True)
        if not each.pinned and slots < each.most
    ]
    found = [
        next_limit(window, *free, cores=False),
        Limit(_used_cores(budgets, its), "CPU"),
        Limit(window.short_of_bytes, "memory budget"),
    ]
    if budgets.threads_pinned or limits.num_threads >= budgets.num_threads:
        busy = sum(busy for busy, stage in zip(its.busy, budgets.stages, strict=True) if stage.on_threads)
        found.append(Limit(busy / limits.num_threads, "threads"))
    return max(found)


_WORDS = {
    "slow consumer": "The consumer is the limit: it works for {share:.0%} of the time.",
    "serial source": "The source is the limit: its next() takes {share:.0%} of the time.",
    "CPU": "The CPU is the limit: there is work for {wanted:.1f} cores, and there are {cores:g}.",
    "memory budget": "The bytes in flight are the limit: there is no room for another item {share:.0%} of the time.",
    "threads": "The threads are the limit: there are {threads}, and may not be more.",
}


def in_words(limit: Limit, limits: Limits, budgets: Budgets, its: Measured) -> str:
    """Return a sentence on what limits the pipeline now that all is raised that may be."""
    for slots, each in zip(limits.concurrency, budgets.stages, strict=True):
        if not limit.kind and each.name == limit.name:
            return f"Stage {each.name!r} is the limit: its concurrency is {each.in_words(slots)}, and {each.why}."
    words = _WORDS[limit.kind]
    return words.format(share=limit.share, wanted=its.wanted, cores=budgets.cores, threads=limits.num_threads)


def _used_cores(budgets: Budgets, its: Measured) -> float:
    """Return how much of the cores is used, or of what others leave of them."""
    cores = its.window.cores_used
    if cores <= 0:
        return 0.0
    return max(cores / budgets.cores, min(its.wanted / _CROWDED / budgets.cores, its.wanted / cores / (1 + _LONG)))


def raised_by(limits: Limits, budgets: Budgets, its: Measured, factor: float) -> Limits:
    """Return the limits of the next step up, which the verdict on the pipeline decides.

    Args:
        limits: The limits in force.
        budgets: How far they may go.
        its: The measurements under them.
        factor: How many times faster the step should make the pipeline.
    """
    found, raised = its.verdict, limits
    if found.kind not in _NOT_BY_SLOTS:
        raised = raise_slots(limits, budgets, its, factor)
    return raise_buffer(limits, budgets, its) if raised == limits else raised


def raise_slots(limits: Limits, budgets: Budgets, its: Measured, factor: float) -> Limits:
    """Return the limits that would make the pipeline faster by a factor, if nothing else held it up."""
    pressure = _pressure(its)
    most = [
        min(each.most, limits.num_threads) if each.on_threads and budgets.threads_pinned else each.most
        for each in budgets.stages
    ]
    wanted = [
        slots if each.pinned else max(slots, min(limit, each.rounded_up(_slots(slots * share * factor, slots))))
        for slots, share, each, limit in zip(limits.concurrency, pressure, budgets.stages, most, strict=True)
    ]
    if wanted == list(limits.concurrency):
        wanted = _raise_one(limits, budgets, its, most)
    threads = max(limits.num_threads, budgets.needed_threads(wanted, limits.num_threads))
    return replace(limits, concurrency=tuple(wanted), num_threads=threads)


def _pressure(its: Measured) -> list[float]:
    return [min(1.0, stage.occupancy + stage.held) for stage in its.window.stages]


def _slots(busy: float, now: int) -> int:
    # A quarter of a slot more is ignored: the measured mean is never exact.
    return max(now, ceil(busy / _USED - 0.25))


def _raise_one(limits: Limits, budgets: Budgets, its: Measured, most: Sequence[int]) -> list[int]:
    """Return the concurrencies, with one of them raised: no stage is full on average.

    It is the stage that the verdict names, or the fullest.
    """
    pressure, slots = _pressure(its), list(limits.concurrency)
    free = [index for index, each in enumerate(budgets.stages) if not each.pinned and slots[index] < most[index]]
    if not free:
        return slots
    named = [index for index in free if budgets.stages[index].name == its.verdict.stage]
    fullest = max(named or free, key=pressure.__getitem__)
    wanted = its.window.consumer_waits >= _STARVED and slots[fullest] < _PER_CORE * budgets.cores
    if pressure[fullest] >= _HALF_FULL or wanted:
        more = budgets.stages[fullest].rounded_up(slots[fullest] + max(1, slots[fullest] // 2))
        slots[fullest] = min(most[fullest], more)
    return slots


def is_handing_over(its: Measured) -> bool:
    """Return whether handing items over takes most of the time: the consumer waits, and no stage has much to do."""
    held = max(stage.held for stage in its.window.stages)
    return its.window.consumer_waits >= _STARVED and max(its.usage) + held < _HALF_FULL


def fill_buffer(limits: Limits, budgets: Budgets) -> Limits:
    """Return the limits with as many places in front of the consumer as it may have: it then takes several at once."""
    return limits if budgets.buffer_pinned else replace(limits, buffer_size=budgets.buffer_size)


def raise_buffer(limits: Limits, budgets: Budgets, its: Measured) -> Limits:
    """Return the limits with more places in front of the consumer, if at times it waits and at others is waited for."""
    if budgets.buffer_pinned or min(its.window.stages[-1].blocked, its.window.consumer_waits) < _UNEVEN:
        return limits
    return replace(limits, buffer_size=min(budgets.buffer_size, _DEEPER * limits.buffer_size))


def lower(limits: Limits, budgets: Budgets, its: Measured) -> Limits:
    """Return the limits without what is not used."""
    lowered = tuple(
        min(slots, each.rounded_up(ceil(usage * slots / _USED) + 1))
        if not each.pinned and usage <= _IDLE and slots > _FEW
        else slots
        for slots, usage, each in zip(limits.concurrency, its.usage, budgets.stages, strict=True)
    )
    if lowered == limits.concurrency:
        return limits
    return replace(limits, concurrency=lowered, num_threads=budgets.needed_threads(lowered, limits.num_threads))


def why(its: Measured) -> str:
    """Return what speaks for more: the verdict."""
    found = its.verdict
    return f"{found.name}. {f'{found.stage!r}: ' if found.stage else ''}{found.evidence}"


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
