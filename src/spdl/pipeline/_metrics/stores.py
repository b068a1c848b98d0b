"""What the stores of this process did while a pipeline ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdl._counted import counted_now

if TYPE_CHECKING:
    from spdl._counted import Counted

__all__ = ["StoreCounts", "StoresMeanwhile"]


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
