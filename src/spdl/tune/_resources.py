"""The resources that a pipeline cannot have more of, and how much of them it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._limits import Budgets, Limits
    from ._window import Window

__all__ = ["ENOUGH", "scarcest", "used_cores"]

# A resource is the limit if what it has left would make the pipeline faster by no more than this.
ENOUGH = 1.035
# Where others use the cores as well, threads that wait for one are worth it up to so many for each: the system shares
# the cores out among threads. But threads also wait where items come in bursts and the cores are not all in use; then
# they wait less than this many times as long as they run.
_CROWDED = 1.5
_LONG = 4.0


def used_cores(budgets: Budgets, window: Window) -> float:
    """Return how much of the cores is used, or of what others leave of them."""
    used = window.cores / budgets.cores
    if window.cores <= 0:
        return used
    return max(used, min(window.wanted / _CROWDED / budgets.cores, window.wanted / window.cores / (1 + _LONG)))


def scarcest(limits: Limits, budgets: Budgets, window: Window) -> tuple[float, str]:
    """Return how much of the scarcest resource is used that cannot be raised, and a sentence on it."""
    found = [
        (1 - window.waiting, "The consumer is the limit: it hardly waits."),
        (
            used_cores(budgets, window),
            f"The CPU is the limit: there is work for {window.wanted:.1f} cores, and there are {budgets.cores:g}.",
        ),
        (window.short, "The bytes in flight are the limit: there is no room for another item most of the time."),
        (window.source, "The source is the limit: its next() takes nearly all the time."),
    ]
    for usage, slots, each in zip(window.usage(limits), limits.concurrency, budgets.stages, strict=True):
        if each.pinned or slots >= each.most:
            found.append(
                (usage, f"Stage {each.name!r} is the limit: its concurrency is {each.in_words(slots)}, and {each.why}.")
            )
    if budgets.threads_pinned or limits.num_threads >= budgets.num_threads:
        threads = window.threads(budgets) / limits.num_threads
        found.append((threads, f"The threads are the limit: there are {limits.num_threads}, and may not be more."))
    return max(found)
