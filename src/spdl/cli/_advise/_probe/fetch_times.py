"""What it takes to make a batch: calling the dataset, and collating."""

from __future__ import annotations

from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from .call_times import CallTimes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FetchTimes", "TimedCollate"]


class FetchTimes:
    """The times of a process that makes batches for the loaders of one line.

    Attributes:
        batches: How many batches it made.
        fetch_seconds, fetch_cpu: The time and the CPU time for these, without collating.
        collate_seconds, collate_cpu: Those of collating.
        calls: What the dataset's calls spend their time on.
    """

    def __init__(self) -> None:
        self.batches = 0
        self.fetch_seconds = self.fetch_cpu = self.collate_seconds = self.collate_cpu = 0.0
        self.calls = CallTimes()
        self._collated: tuple[float, float] = (0.0, 0.0)

    def fetch(self, function: Callable[[Any, Any], Any], fetcher: Any, index: Any) -> Any:
        """Make a batch.

        Args:
            function: The fetcher's own method.
            fetcher: The fetcher.
            index: What it is told.
        """
        began, cpu = perf_counter(), thread_time()
        self._collated = (0.0, 0.0)
        # The first batch imports modules and opens files.
        observed = self.batches > 0 and self.calls.begin(began)
        try:
            batch = function(fetcher, index)
        finally:
            if observed:
                self.calls.end()
        self.batches += 1
        seconds, cpu_seconds = self._collated
        self.fetch_seconds += perf_counter() - began - seconds
        self.fetch_cpu += thread_time() - cpu - cpu_seconds
        self.collate_seconds += seconds
        self.collate_cpu += cpu_seconds
        return batch

    def collate(self, function: Callable[[Any], Any], samples: Any) -> Any:
        """Make a batch of the dataset's samples."""
        self.calls.end()
        began, cpu = perf_counter(), thread_time()
        try:
            return function(samples)
        finally:
            self._collated = (perf_counter() - began, thread_time() - cpu)

    def as_record(self) -> dict[str, Any]:
        """Return the times as JSON can hold them."""
        return {
            "batches": self.batches,
            "fetch_seconds": self.fetch_seconds,
            "fetch_cpu": self.fetch_cpu,
            "collate_seconds": self.collate_seconds,
            "collate_cpu": self.collate_cpu,
            "observed_seconds": self.calls.seconds,
            "observed": dict(self.calls.by_kind),
        }


class TimedCollate:
    """Stands in for the function that collates, where a fetcher calls it."""

    def __init__(self, times: FetchTimes, function: Callable[[Any], Any]) -> None:
        self._times = times
        self._function = function

    def __call__(self, samples: Any) -> Any:
        return self._times.collate(self._function, samples)
