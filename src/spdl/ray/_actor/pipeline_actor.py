"""The actor: a whole pipeline in a process of Ray's, which gives its results when it is asked for them."""

from __future__ import annotations

import os
import pickle
import threading
import time
from math import inf
from typing import TYPE_CHECKING

from spdl.pipeline import build_pipeline
from spdl.pipeline._declare.records import PipelineConfig, SourceConfig
from spdl.pipeline._engine.weigh import weigh
from spdl.pipeline._pipeline.named_results import NamedResults
from spdl.ray._actor.feed import Feed, InOrder

from .messages import Report, Result, runs_of

if TYPE_CHECKING:
    from spdl.pipeline import PipelineStatistics
    from spdl.ray._leases import Range

    from .messages import Job, Work

__all__ = ["SpdlPipeline"]

# A call takes what is there, up to so many results or bytes. All of them are one object of Ray, which is kept as long
# as one of them is.
_MOST_RESULTS = 1_024
_MOST_BYTES = 8 << 20

# For so many seconds a call waits for more than one result, but for the first of an epoch. It costs 3 milliseconds of
# CPU time in all processes together, as much as a small batch may take.
_GATHERS = 0.02

# Seconds that ops have to end in order, and after which the process ends anyhow.
_STOP_SECONDS = 2.0
_END_SECONDS = 4.0


class SpdlPipeline:
    """What Ray makes an actor of.

    Args:
        payload: A `Job`, pickled.
    """

    def __init__(self, payload: bytes) -> None:
        job: Job = pickle.loads(payload)  # noqa: S301 - from our driver.
        config = job.config
        source = config.src
        assert isinstance(source, SourceConfig)
        self._feed = Feed(source.source)
        fed = SourceConfig(self._feed, continuous=True, dedicated_thread=source.dedicated_thread)
        self._pipeline = build_pipeline(
            PipelineConfig(fed, config.pipes, config.sink),
            num_threads=job.num_threads,
            max_failures=job.max_failures,
        )
        feed = self._feed
        self._results = NamedResults(self._pipeline, hurried=lambda: feed.starved)
        feed.connect(learn=self._results.learn, tell_starved=self._results.wake)
        self._in_order = InOrder() if job.ordered else None
        # How many flushes were asked for, and how many are over.
        self._asked = self._flushed = 0
        # Whether the driver was told that the pipeline waits for a grant.
        self._told = False
        # Whether a result of this epoch was returned.
        self._gathers = False

    def begin(self) -> tuple[int, str]:
        """Start the pipeline. Return the number of this process, and the name of the machine."""
        self._pipeline.start()
        return os.getpid(), os.uname().nodename

    def grant(self, work: Work) -> None:
        """Take work. It is called in a thread of its own, so a call that waits for results does not hold it up."""
        feed = self._feed
        if work.begin is not None:
            self._gathers = False
            feed.put(work.begin)
        for grant in work.grants:
            if self._in_order is not None:
                self._in_order.expect(grant.start, grant.stop)
            feed.put(grant)
            if self._in_order is not None:
                # Batches do not go beyond a range, so that they are the same whoever makes them.
                self._flush()
        if work.flush:
            self._flush()
        self._told = False

    def _flush(self) -> None:
        self._asked += 1
        self._feed.flush()

    def pull(self) -> Report:
        """Return results, soon after the first of them is there.

        It also returns when the pipeline has begun to wait for work, and when there is nothing that it could wait for.
        """
        results: list[Result] = []
        done: list[Range] = []
        left = _MOST_BYTES
        deadline = inf
        while len(results) < _MOST_RESULTS and left > 0:
            named = self._results.read(self._has_nothing, deadline)
            if named is None:
                break
            # Of those that are gone, the feed forgets the positions.
            parts = [(self._feed.position_of(position), *path) for position, *path in named.parts]
            gone = self._gone(named.gone)
            if named.ends_pass:
                self._flushed += 1
                done += gone
                continue
            if not results:
                deadline = time.monotonic() + (_GATHERS if self._gathers else 0.0)
                self._gathers = True
            results.append(Result(named.value, gone, parts, self._flushed))
            left -= weigh(named.value) + 1
        done += self._gone(self._results.take_gone())
        self._told = self._feed.starved
        return Report(self._feed.epoch, results, done, self._flushed, self._feed.fed, self._feed.end)

    def _has_nothing(self) -> bool:
        if not self._feed.starved:
            return False
        idle = self._flushed == self._asked and self._feed.under_way() == self._results.num_gone()
        return idle or not self._told

    def _gone(self, positions: list[int]) -> list[Range]:
        there = [self._feed.forget(position) for position in positions]
        if self._in_order is None:
            return runs_of(there)
        return self._in_order.pass_on(there, self._feed.end)

    def statistics(self) -> PipelineStatistics:
        """Return what the pipeline has counted."""
        return self._pipeline.statistics()

    def stop(self) -> None:
        """Stop the pipeline, which ends the call that goes on."""
        threading.Thread(target=_end_anyhow, name="spdl_ray_end", daemon=True).start()
        self._feed.close()
        self._pipeline.stop(timeout=_STOP_SECONDS)


def _end_anyhow() -> None:
    time.sleep(_END_SECONDS)
    os._exit(1)
