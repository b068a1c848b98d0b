"""The verdict as ``Pipeline.statistics()`` says it, by counters alone, and what makes reading from stores slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.observe._window.seen import since_the_start
from spdl.observe._window.window_of import window_of

from .decide import verdict
from .gains import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._metrics.head import PageHead
    from spdl.pipeline._metrics.sample import Sample
    from spdl.pipeline._metrics.stores import StoreCounts

__all__ = ["sentence", "trouble"]

# With these, nothing waits for what is read.
_NOT_OF_READING = ("slow consumer", "CPU", "memory budget")
# Fewer requests than this say nothing.
_ENOUGH = 20
# From this share on, requests that were sent again or twice, or what a cache could not keep, are spoken of.
_MANY_AGAIN = 0.03
_MANY_TWICE = 0.03
_MANY_UNCACHED = 0.1

_KINDS = {
    "throttled": "the server was too busy (429, 503)",
    "broken": "the server or the network failed",
    "cut": "the answer was cut",
    "wrong": "the answer was not what was asked for",
    "late": "nothing was heard for too long",
}


def sentence(head: PageHead, sample: Sample, stores: Sequence[StoreCounts]) -> str:
    """Return what limits a pipeline, by what it has counted since its start, and how one can tell."""
    if not any(source.emitted for source in sample.sources):
        return "Nothing has run yet."
    found = verdict(window_of(head, since_the_start(head, sample)))
    return found.sentence() + ("" if found.kind in _NOT_OF_READING else trouble(stores))


def trouble(stores: Sequence[StoreCounts]) -> str:
    """Return a sentence on what makes reading from the stores slow, with a space before it, or ''."""
    found = [each for store in stores for each in (_again(store), _twice(store), _uncached(store)) if each is not None]
    return f" {max(found)[1]}" if found else ""


def _again(store: StoreCounts) -> tuple[float, str] | None:
    """Return how much of its work a store did in vain, and a sentence on it, if that is much."""
    counts = store.counts
    requests, retries = counts.get("requests", 0), counts.get("retries", 0)
    if requests < _ENOUGH or retries < _MANY_AGAIN * requests:
        return None
    kind = max(_KINDS, key=lambda kind: counts.get(kind, 0))
    times = f"{counts[kind]:,.0f} time{'s' if counts[kind] != 1 else ''}" if counts.get(kind) else ""
    why = f"; {times} {_KINDS[kind]}" if times else ""
    return retries / requests, (
        f"Reading is slowed down: {percent(retries / requests)} of the {requests:,.0f} requests of {store.name} were "
        f"tried again{why}."
    )


def _twice(store: StoreCounts) -> tuple[float, str] | None:
    counts = store.counts
    requests, hedges = counts.get("requests", 0), counts.get("hedges", 0)
    if requests < _ENOUGH or hedges < _MANY_TWICE * requests:
        return None
    return hedges / requests, (
        f"Reading is slowed down: {percent(hedges / requests)} of the {requests:,.0f} requests of {store.name} were "
        f"so late that they were sent twice."
    )


def _uncached(store: StoreCounts) -> tuple[float, str] | None:
    misses, uncached = store.counts.get("misses", 0), store.counts.get("uncached", 0)
    if misses < _ENOUGH or uncached < _MANY_UNCACHED * misses:
        return None
    return uncached / misses, (
        f"Reading is slowed down: {store.name} could not keep {percent(uncached / misses)} of the {misses:,.0f} "
        f"objects that it read: they are too large for its max_bytes, the disk is full, or they have no etag."
    )
