"""What the stores of this process did while a pipeline ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdl._counted import counted_now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl._counted import Counted

__all__ = ["StoreCounts", "StoresMeanwhile", "trouble"]

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


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """What a store of `spdl.store` has counted since a pipeline's start, whoever read from it.

    Attributes:
        name: The store's repr.
        counts: The counters by their names, which are those of `spdl.store.StoreStatistics` and
            `spdl.store.CacheStatistics` that only grow, such as ``requests``, ``bytes``, ``retries``, ``hedges``,
            ``waited_seconds``, ``disk_hits``.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> with PipelineBuilder().add_source(range(4)).add_sink().build(num_threads=1).auto_stop() as pipeline:
        ...     statistics = list(pipeline) and pipeline.statistics()
        >>> statistics.stores  # Nothing was read from a store.
        ()
        >>> StoreCounts("HTTPStore('https://example.com')", {"requests": 12, "retries": 1}).counts["retries"]
        1
    """

    name: str
    counts: dict[str, float]


class StoresMeanwhile:
    """Compares what the stores have counted at the beginning and at the end."""

    __slots__ = ("_after", "_before")

    def __init__(self) -> None:
        self._before: dict[int, Counted] | None = None
        self._after: dict[int, Counted] | None = None

    def begin(self) -> None:
        """Note what has been counted before."""
        self._before = counted_now()

    def end(self) -> None:
        """Count no further. It takes no lock."""
        self._after = counted_now()

    def counts(self) -> tuple[StoreCounts, ...]:
        """Return what each store that did something has counted since, now or at the end."""
        if self._before is None:
            return ()
        after = counted_now() if self._after is None else self._after
        found = []
        for number, (name, counters) in after.items():
            before = self._before[number].counters if number in self._before else {}
            since = {each: max(0, count - before.get(each, 0)) for each, count in counters.items()}
            if any(since.values()):
                found.append(StoreCounts(name, since))
        return tuple(found)


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
        f"Reading is slowed down: {_percent(retries / requests)} of the {requests:,.0f} requests of {store.name} were "
        f"tried again{why}."
    )


def _twice(store: StoreCounts) -> tuple[float, str] | None:
    counts = store.counts
    requests, hedges = counts.get("requests", 0), counts.get("hedges", 0)
    if requests < _ENOUGH or hedges < _MANY_TWICE * requests:
        return None
    return hedges / requests, (
        f"Reading is slowed down: {_percent(hedges / requests)} of the {requests:,.0f} requests of {store.name} were "
        f"so late that they were sent twice."
    )


def _uncached(store: StoreCounts) -> tuple[float, str] | None:
    misses, uncached = store.counts.get("misses", 0), store.counts.get("uncached", 0)
    if misses < _ENOUGH or uncached < _MANY_UNCACHED * misses:
        return None
    return uncached / misses, (
        f"Reading is slowed down: {store.name} could not keep {_percent(uncached / misses)} of the {misses:,.0f} "
        f"objects that it read: they are too large for its max_bytes, the disk is full, or they have no etag."
    )


def _percent(share: float) -> str:
    return f"{100 * min(1.0, share):.0f} %"
