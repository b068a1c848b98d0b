"""The source of a measurement: gives a stage its items again and again, until the measurement is long enough."""

from __future__ import annotations

import itertools
from time import perf_counter, process_time, sleep
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spdl.pipeline._engine.engine import Engine

    from .thread_times import Times, TimesOfNewThreads

__all__ = ["MOST_SECONDS", "Feed"]

# A measurement ends after this time or, if that is later, as soon as the ops that it began with have ended.
MOST_SECONDS = 1.0
# It ends earlier if it has lasted this long and this many ops have ended. More of them would change little.
_LEAST_SECONDS = 0.2
_ENOUGH_ROUNDS = 8
_ENOUGH_INPUTS = 100

# While no op has ended, the stage is polled with pauses that are this share of the time so far. So the time is known
# with the same relative precision, however long it is.
_LEAST_PAUSE, _PAUSE = 0.0002, 0.02


class Feed:
    """Gives the items to the only stage of a pipeline, in order and from the start for each measurement.

    So all measurements of a stage use the same items. The feed gives as many items as the stage works on at once, and
    waits for the first op to end. From then on it gives only items that will be done in time. Otherwise slow ops would
    take a multiple of the time, since some items wait upstream of the stage.

    Attributes:
        num_given: How many items were given so far.
        started_at: The time of the first item, by `time.perf_counter`.
        cpu_at_start: The process's CPU time at that moment.
        times: How long the pipeline's threads had been on cores, and waiting for cores, when the last item was given.
        seconds: The seconds from the first item to the last.
    """

    def __init__(self, items: Sequence[Any], concurrency: int, times: TimesOfNewThreads, *, repeat: bool) -> None:
        self._items = itertools.cycle(items) if repeat else items
        self._concurrency = concurrency
        self._times = times
        # Set later, since the source is made before the engine.
        self.engine: Engine | None = None
        self.num_given = 0
        self.started_at = self.cpu_at_start = self.seconds = 0.0
        self.times: Times | None = None

    def watch(self, engine: Engine) -> None:
        """Note the engine whose first stage gets the items."""
        self.engine = engine

    def __iter__(self) -> Iterator[Any]:
        self.started_at, self.cpu_at_start = perf_counter(), process_time()
        latency = None
        for item in self._items:
            if self.num_given >= self._concurrency:
                latency = latency or self._await_first()
                if self._is_enough(latency):
                    break
            self.num_given += 1
            yield item
        if latency is None:
            # There were few items. The times until the first op has ended stand for the whole.
            self._await_first()
        self.note_times()

    def note_times(self) -> None:
        """Read the times of the threads while they are alive."""
        self.times, self.seconds = self._times.read(), perf_counter() - self.started_at

    def num_ended(self) -> int:
        """Return how many items the op has finished, or failed on."""
        assert self.engine is not None
        counters = self.engine.nodes[0].counters
        return counters.completed + counters.failed

    def _await_first(self) -> float:
        """Wait until an op has ended or produced a result. Return how long that took."""
        engine = self.engine
        assert engine is not None
        while not (self.num_ended() or engine.nodes[0].counters.emitted or engine.stopping or engine.failures):
            sleep(max(_LEAST_PAUSE, _PAUSE * (perf_counter() - self.started_at)))
        return perf_counter() - self.started_at

    def _is_enough(self, latency: float) -> bool:
        assert self.engine is not None
        seconds, ended = perf_counter() - self.started_at, self.num_ended()
        ahead = max(0, self.num_given - ended - self._concurrency) / self._concurrency
        if seconds + latency * (1 + ahead) > MOST_SECONDS:
            return True
        done = max(ended, self.engine.nodes[0].counters.emitted)
        return seconds > _LEAST_SECONDS and done > max(_ENOUGH_INPUTS, _ENOUGH_ROUNDS * self._concurrency)
