"""The resources that a pipeline cannot have more of, and how much of them it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._limits import Budgets, Limits
    from ._window import Window

__all__ = ["scarcest"]

# Where others use the cores as well, threads that wait for one are worth it up to so many for each: the system shares
# the cores out among threads.
_CROWDED = 1.5


def scarcest(limits: Limits, budgets: Budgets, window: Window) -> tuple[float, str]:
    """Return how much of the scarcest resource is used that cannot be raised, and a sentence on it."""
    found = [
        (1 - window.waiting, "The consumer is the limit: it hardly waits."),
        (
            max(window.cores, window.wanted / _CROWDED) / budgets.cores,
            f"The CPU is the limit: there is work for {window.wanted:.1f} cores, and there are {budgets.cores:g}.",
        ),
        (window.source, "The source is the limit: its next() takes nearly all the time."),
    ]
    for usage, slots, each in zip(window.usage(limits), limits.concurrency, budgets.stages, strict=True):
        if each.pinned or slots >= each.most:
            found.append((usage, f"Stage {each.name!r} is the limit: its concurrency is {slots}, and may not be more."))
    if budgets.threads_pinned or limits.num_threads >= budgets.num_threads:
        threads = window.threads(budgets) / limits.num_threads
        found.append((threads, f"The threads are the limit: there are {limits.num_threads}, and may not be more."))
    return max(found)
