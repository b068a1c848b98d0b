"""The source at run time: an iterator, and the token that says who may pull it."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from spdl.pipeline._metrics.sampling import Sampling

from .edge import Edge
from .interruptible import Interruptible
from .node import EDGE_CAPACITY
from .sentinel import MARK

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable

    from spdl.pipeline._declare.stage_info import StageInfo

    from .dedicated import DedicatedThread
    from .engine import Engine
    from .node import Entry, Node

__all__ = ["SOURCE", "Source"]

SOURCE = "src"

# Where pulls take less than this in the mean, waking a worker for one costs more than the worker gains: it needs the
# GIL, and beside a training loop that keeps it, asking for it delays both. It is what a wake-up takes.
_SHORT = 20e-6


class Source:
    """The iterator that feeds the first stage.

    Whoever holds the token (``pulling``) pulls one item without the lock. ``iter()`` and ``next()`` calls are thus
    serialised, but may come from different threads.
    """

    __slots__ = (
        "behind",
        "busy_seconds",
        "continuous",
        "dedicated",
        "ended",
        "ended_at",
        "engine",
        "exhausted",
        "first",
        "following_root",
        "index",
        "info",
        "iterable",
        "iterator",
        "name",
        "on_loop",
        "out",
        "pass_began_at",
        "position",
        "pulled_at",
        "pulling",
        "pulling_since",
        "sample_at",
        "sampling",
        "unwanted",
        "wants_room",
        "weight",
    )

    # What messages call it; the plan says.
    info: StageInfo

    def __init__(
        self,
        engine: Engine,
        index: int,
        name: str,
        iterable: Iterable[Any] | AsyncIterable[Any],
        *,
        continuous: bool,
    ) -> None:
        self.engine = engine
        self.index = index
        self.name = name
        self.iterable = iterable
        # Whether it is iterated over and over, with the end of an epoch between.
        self.continuous = continuous
        self.iterator: Any = None
        # Where items go: the first stage's queue, or the sink if there is no stage.
        self.first: Node | None = None
        self.out = engine.sink.entries
        # How many items were handed out, and what stands for the next one in the lineage.
        self.position = 0
        self.following_root = index
        # The position where the latest pass over a continuous source began, once there was one before it.
        self.pass_began_at = -1
        self.on_loop = hasattr(iterable, "__aiter__")
        self.pulling = False
        self.pulling_since = 0.0
        # When the last pull ended, the position from which it is next noted how long the pull was put off, and for how
        # many that stands.
        self.pulled_at = 0.0
        self.sample_at = 0
        self.weight = 1
        self.sampling = Sampling()
        # What lies behind it. No item is pulled before it has a place, so none is late.
        self.behind = Edge()
        # Pulls it in a thread of its own, if it was asked for.
        self.dedicated: DedicatedThread | None = None
        # No more pulls: it ran out, it failed, or the pipeline does not want more.
        self.ended = False
        # What it feeds was given up.
        self.unwanted = False
        self.ended_at = 0.0
        # It ran out by itself or was closed, so there is nothing to close.
        self.exhausted = False
        self.busy_seconds = 0.0
        # Served by the event loop or a thread of its own, which found no room: whoever makes room tells it.
        self.wants_room = False

    def pullable(self) -> bool:
        """Whether a worker may take the token now."""
        if self.pulling or self.ended or self.on_loop or self.dedicated:
            return False
        first = self.first
        if first is None or first.slots_are_places:
            return self.has_place()
        return len(self.out) < EDGE_CAPACITY

    def has_place(self) -> bool:
        """Whether there is a place for one more item."""
        if self.first is not None:
            return self.first.has_place() if self.first.slots_are_places else len(self.out) < EDGE_CAPACITY
        sink = self.engine.sink
        if len(sink.entries) < sink.size:
            return True
        sink.full = True
        return len(sink.entries) < sink.size

    def wants_worker(self) -> bool:
        """Whether an idle worker is to be woken to pull it."""
        if not self.pullable():
            return False
        first = self.first
        if self.engine.permits or first is None or first.on_loop or not first.on_workers:
            return True
        # No op can begin before one ends, and whoever ran that comes here itself. That is soon enough for short pulls.
        return self.busy_seconds > _SHORT * self.position

    def next(self) -> Any:
        """Pull one item. Called by the token's holder without the lock.

        Raises:
            StopIteration: At the end.
        """
        if self.iterator is None:
            try:
                self.iterator = iter(self.iterable)  # type: ignore[arg-type]
            except StopIteration as error:
                # It would look like the end of an empty source.
                raise RuntimeError("The source's `__iter__` raised StopIteration.") from error
        return next(self.iterator)

    def note_wait(self, now: float) -> None:
        """Note how long this pull was put off, since the item before had no place behind it."""
        if not self.pulled_at:
            return
        self.behind.put_times.add(now - self.pulled_at, self.weight)
        self.weight = self.sampling.weight(now, self.position)
        self.sample_at = self.position + self.sampling.stride(self.weight) if self.weight > 1 else 0

    def admit(self) -> int:
        """Give the item just pulled its place in the lineage. Called with the lock held."""
        root = self.following_root
        self.following_root = root + len(self.engine.sources)
        self.position += 1
        self.engine.lineage.open.add(root)
        return root

    def put(self, value: Any) -> None:
        """Put the item just pulled in front of the first stage. Called with the lock held."""
        self._pass_on((self.admit(), value))

    def end_epoch(self) -> None:
        """Pass on that a pass over a continuous source has ended. Called with the lock held."""
        if self.iterator is self.iterable and self.position == self.pass_began_at:
            error = RuntimeError(
                f"The continuous source {type(self.iterable).__name__!r} is its own iterator and gave nothing when it "
                "was iterated again: it does not start anew, as a generator does not. Give an iterable that does, such "
                "as an object whose `__iter__` makes a generator."
            )
            self.exhausted = True
            self.engine.fail(self, None, error)
            return
        self.pass_began_at = self.position
        # Its finalizer is the user's, so it is dropped without the lock.
        self.engine.rubbish.append(self.iterator)
        self.iterator = None
        self._pass_on(MARK)

    def _pass_on(self, entry: Entry) -> None:
        if self.first is None:
            self.engine.sink.put(entry, self.pulled_at)
        else:
            self.out.append(entry)
            if len(self.out) == 1:
                self.behind.filled_at = self.pulled_at
            self.engine.arrived(self.first)

    def room_made(self) -> None:
        """Learn that there may be a place again where there was none. Called with the lock held."""
        if self.dedicated is not None:
            self.dedicated.wake()
        elif self.engine.lane is not None:
            self.engine.lane.wake()

    def interrupt(self) -> None:
        """Wake whoever waits in or for the source, as far as that is possible. Needs no lock."""
        if self.dedicated is not None:
            self.dedicated.wake()
        iterator = self.iterator
        # An iterator of the user's may lie about its `__class__`, or fail to tell.
        if issubclass(type(iterator), Interruptible):
            iterator.interrupt()

    def finished(self) -> bool:
        """Whether nothing more will come."""
        # After a failure, or where it was given up, nobody waits for a source, which may block for ever: what it
        # yields is discarded.
        return self.ended and (not self.pulling or self.unwanted or bool(self.engine.failures))

    def end(self) -> None:
        """Pull no more. Called with the lock held."""
        if not self.ended:
            self.ended = self.engine.ending = True
            if self.engine.lane is not None:
                self.engine.lane.wake()
            self.ended_at = perf_counter()

    def close(self) -> None:
        """Close the iterator after an early end. Called by the token's holder without the lock."""
        iterator, self.iterator = self.iterator, None
        if not self.exhausted and iterator is not None and hasattr(iterator, "close"):
            iterator.close()
