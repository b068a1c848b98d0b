"""The actor: a whole pipeline, the feed of its source, and its messages to and from the driver."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import inf
from queue import SimpleQueue
from typing import Any, NamedTuple

from spdl._ranges import Range, Ranges
from spdl.pipeline import PipelineStatistics, build_pipeline
from spdl.pipeline._declare.records import PipelineConfig, SourceConfig
from spdl.pipeline._engine.budget import weigh
from spdl.pipeline._engine.source_kinds import Placed
from spdl.pipeline._for_loaders import NamedResults, Part
from spdl.pipeline._state.passes import Leg, OnePass, Pass, Seeker, TooShortError, load_state, offers, seeker_in


class ActorJob(NamedTuple):
    """The parts of an actor: the pipeline, and how it is built."""

    config: PipelineConfig[Any]
    num_threads: int
    max_failures: Any
    # Whether results are used up in the order of positions.
    ordered: bool


class Begin(NamedTuple):
    """The pass of the grants that follow: its number, and the source's state before it."""

    epoch: int
    state: Any


class Grant(NamedTuple):
    """A range to work on, and the results of its items that the consumer has already."""

    start: int
    stop: int
    parts: Sequence[Part]


class ActorWork(NamedTuple):
    begin: Begin | None
    """The pass of the grants, if it is another one than before."""
    grants: list[Grant]
    flush: bool
    """Whether nothing follows that would go into the same batches."""


class ActorResult(NamedTuple):
    value: Any
    done: list[Range]
    """The positions that are finished once the consumer has it."""
    parts: list[Part]
    """The results of items that it was made of, if any."""
    stretch: int
    """How many flushes came before it."""


class ActorReport(NamedTuple):
    epoch: int
    results: list[ActorResult]
    """The oldest first."""
    done: list[Range]
    """Further positions that are finished, once the consumer has these results and all before."""
    flushed: int
    fed: int
    """How many positions the pipeline has taken, or that are beyond the source's end, in all."""
    end: int | None
    """The position at which the source ended, if it was seen to end."""


class InOrder:
    """Holds positions back until all before them in their range have come. One thread expects, another passes on."""

    def __init__(self) -> None:
        self._expected: deque[Range] = deque()
        self._ranges: deque[Range] = deque()
        self._early = Ranges()

    def expect(self, start: int, stop: int) -> None:
        """Note a range whose positions will all come, after the ranges that were noted before."""
        self._expected.append((start, stop))

    def pass_on(self, positions: list[int], end: int | None) -> list[Range]:
        """Return the ranges that are complete up to some position, with these positions, which have come.

        From `end` on nothing will come, if there is one.
        """
        for position in positions:
            self._early.add(position, position + 1)
        while self._expected:
            self._ranges.append(self._expected.popleft())
        if end is not None:
            self._ranges = deque((start, min(stop, end)) for start, stop in self._ranges if start < end)
        found: list[Range] = []
        while self._ranges:
            start, stop = self._ranges[0]
            at = next((last for first, last in self._early.within(start, stop) if first == start), start)
            found += self._early.remove(start, at)
            if at < stop:
                self._ranges[0] = at, stop
                break
            self._ranges.popleft()
        return found


class _Flush:
    """Stands for the end of the items that go into the same batches."""


class _Close:
    """Stands for the end of everything."""


def length_of(source: Any) -> int | None:
    """Return how many items a pass over a source has; None if only a pass can tell."""
    if offers(source, "advance_state") or offers(source, "set_epoch") or not hasattr(type(source), "__len__"):
        # A sampler that was resumed has fewer in its next pass than it says.
        return None
    return len(source)


class GrantFeed(Placed):
    """An iterable without an end. Each iteration ends with a flush.

    The source is a sequence, or has a method ``iterate_from``. Its items have their own positions here, which count on
    from 0. One thread puts grants into it, and threads of the pipeline take the items, one at a time.
    """

    def __init__(self, source: Any) -> None:
        self.epoch = 0
        # How many positions were taken, or are beyond the source's end, which is known once it was seen.
        self.fed = 0
        self.end: int | None = None
        # Whether the pipeline waits for a grant.
        self.starved = False
        self._source = source
        self._length = length_of(source)
        self._orders: SimpleQueue[Begin | Grant | type[_Flush | _Close]] = SimpleQueue()
        self._seeker: Seeker | None = None
        self._at = self._stop = 0
        self._parts: dict[int, list[Part]] = {}
        self._taken = 0
        # The positions in the source of what is under way, by those here.
        self._positions: dict[int, int] = {}
        self._learn: Callable[[int, list[Part]], None] | None = None
        self._tell: Callable[[], None] | None = None

    def connect(self, *, learn: Callable[[int, list[Part]], None], tell_starved: Callable[[], None]) -> None:
        """Say whom to tell: of results that were consumed elsewhere, and that the pipeline waits for a grant."""
        self._learn = learn
        self._tell = tell_starved

    # ---- for the thread that is called by the driver ----

    def put(self, order: Begin | Grant) -> None:
        """Add a range, or say which pass the following ones belong to."""
        self.starved = False
        if isinstance(order, Begin):
            # Nothing is under way, so no other thread sets it now.
            self.end = None
        self._orders.put(order)

    def flush(self) -> None:
        self.starved = False
        self._orders.put(_Flush)

    def close(self) -> None:
        self._orders.put(_Close)

    def position_of(self, position: int) -> int:
        """Return the position in the source of an item that is under way."""
        return self._positions[position]

    def forget(self, position: int) -> int:
        """Return the position in the source of an item that is finished."""
        return self._positions.pop(position)

    def under_way(self) -> int:
        """Return how many items were taken and not forgotten."""
        return len(self._positions)

    # ---- for the pipeline ----

    def place_of(self, position: int) -> tuple[int, int]:
        return self.epoch, self._positions[position]

    def __iter__(self) -> Iterator[Any]:
        return OnePass(self.take)

    def take(self) -> Any:
        """Return the next item. StopIteration at a flush."""
        while True:
            if self._at >= self._stop:
                self._next_grant()
                continue
            position = self._at
            assert self._seeker is not None
            try:
                item = self._seeker.item(position)
            except TooShortError:
                if self._length is not None:
                    raise
                self._found_end(position)
                continue
            self._at = position + 1
            here = self._taken
            if self._parts and (parts := self._parts.pop(position, None)) is not None:
                assert self._learn is not None
                self._learn(here, parts)
            self._positions[here] = position
            self._taken = here + 1
            self.fed += 1
            return item

    def _next_grant(self) -> None:
        if self._orders.empty():
            self.starved = True
            if self._tell is not None:
                self._tell()
        order = self._orders.get()
        self.starved = False
        if order is _Close:
            # For the next call.
            self._orders.put(order)
            raise StopIteration
        if order is _Flush:
            raise StopIteration
        if isinstance(order, Begin):
            self._begin(order)
        elif isinstance(order, Grant):
            self._at, self._stop = order.start, order.stop
            for position, *path in order.parts:
                self._parts.setdefault(position, []).append(tuple(path))

    def _begin(self, begin: Begin) -> None:
        # Nothing is under way: a pass begins when all of the one before is delivered.
        self.epoch = begin.epoch
        load_state(self._source, begin.state)
        if self._seeker is not None:
            self._seeker.close()
        self._seeker = seeker_in(self._source, Leg(Pass(begin.epoch, 0, begin.state), [], None, False))  # noqa: FBT003

    def _found_end(self, position: int) -> None:
        self.end = position if self.end is None else min(self.end, position)
        self.fed += self._stop - position
        self._at = self._stop


# A call takes at most this many results or bytes. Together they are one object of Ray, which is kept as long
# as one of them is.
_MOST_RESULTS = 1_024
_MOST_BYTES = 8 << 20

# A call waits this many seconds for more than one result, but not for the first of an epoch. It costs 3 milliseconds of
# CPU time in all processes together, as much as a small batch may take.
_GATHERS = 0.02

# Seconds that ops have to end in order, and after which the process ends anyhow.
_STOP_SECONDS = 2.0
_END_SECONDS = 4.0


class SpdlPipeline:
    """What Ray makes an actor of. The payload is a pickled `ActorJob`."""

    def __init__(self, payload: bytes) -> None:
        job: ActorJob = pickle.loads(payload)  # noqa: S301 - from our driver.
        config = job.config
        source = config.src
        assert isinstance(source, SourceConfig)
        self._feed = GrantFeed(source.source)
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

    def grant(self, work: ActorWork) -> None:
        """Take work. It is called in a separate thread, so a call that waits for results does not hold it up."""
        feed = self._feed
        if work.begin is not None:
            self._gathers = False
            feed.put(work.begin)
        for grant in work.grants:
            if self._in_order is not None:
                self._in_order.expect(grant.start, grant.stop)
            feed.put(grant)
            if self._in_order is not None:
                # Batches do not go beyond a range, so every actor makes the same ones.
                self._flush()
        if work.flush:
            self._flush()
        self._told = False

    def _flush(self) -> None:
        self._asked += 1
        self._feed.flush()

    def pull(self) -> ActorReport:
        """Return results, soon after the first of them is there.

        It also returns when the pipeline has begun to wait for work, and when there is nothing that it could wait for.
        """
        results: list[ActorResult] = []
        done: list[Range] = []
        left = _MOST_BYTES
        deadline = inf
        while len(results) < _MOST_RESULTS and left > 0:
            named = self._results.read(self._has_nothing, deadline)
            if named is None:
                break
            # The feed forgets the positions of items that are gone.
            parts = [(self._feed.position_of(position), *path) for position, *path in named.parts]
            gone = self._gone(named.gone)
            if named.ends_pass:
                self._flushed += 1
                done += gone
                continue
            if not results:
                deadline = time.monotonic() + (_GATHERS if self._gathers else 0.0)
                self._gathers = True
            results.append(ActorResult(named.value, gone, parts, self._flushed))
            left -= weigh(named.value) + 1
        done += self._gone(self._results.take_gone())
        self._told = self._feed.starved
        return ActorReport(self._feed.epoch, results, done, self._flushed, self._feed.fed, self._feed.end)

    def _has_nothing(self) -> bool:
        if not self._feed.starved:
            return False
        idle = self._flushed == self._asked and self._feed.under_way() == self._results.num_gone()
        return idle or not self._told

    def _gone(self, positions: list[int]) -> list[Range]:
        there = [self._feed.forget(position) for position in positions]
        if self._in_order is None:
            return Ranges((position, position + 1) for position in there).runs
        return self._in_order.pass_on(there, self._feed.end)

    def statistics(self) -> PipelineStatistics:
        return self._pipeline.statistics()

    def stop(self) -> None:
        """Stop the pipeline, which ends the current call."""
        threading.Thread(target=_end_anyhow, name="spdl_ray_end", daemon=True).start()
        self._feed.close()
        self._pipeline.stop(timeout=_STOP_SECONDS)


def _end_anyhow() -> None:
    time.sleep(_END_SECONDS)
    os._exit(1)
