"""What waits between two stages, measured."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

from spdl.pipeline._metrics.histogram import Histogram
from spdl.pipeline._metrics.sampling import SHORT, Sampling

if TYPE_CHECKING:
    from .node import Node
    from .source import Source

__all__ = ["Edge"]


# Of short waits for a place, so many are all noted, and then one of so many.
_ALL_OF_FIRST = 256
_ONE_OF = 16


class Edge:
    """How long results wait for a place in a queue, and how long the queue holds something.

    Most items never lie in a queue: a worker carries them to the next stage at once. They have waited for nothing, and
    have held no place for any time. So all that is noted here is noted where an item does lie in a queue.

    Everything in it is guarded by the engine's lock, but for what the consumer notes.
    """

    __slots__ = (
        "capacity",
        "emptied_at",
        "feeder",
        "filled_at",
        "get_seconds",
        "get_times",
        "got_at",
        "late",
        "num_late",
        "occupied_seconds",
        "put_seconds",
        "put_times",
        "sample_at",
        "sampling",
        "taken",
        "taker",
        "weight",
    )

    def __init__(self) -> None:
        # What fills it, and the stage that takes from it; None is the consumer.
        self.feeder: Node | Source | None = None
        self.taker: Node | None = None
        # An entry beyond these has no place yet: it keeps the slot of the stage that made it.
        self.capacity = 0
        # When those entries were appended, the oldest first, and how long others have waited for a place.
        self.late: deque[float] = deque()
        self.num_late = 0
        self.put_seconds = 0.0
        self.put_times = Histogram()
        # How long items were waited for.
        self.get_times = Histogram()
        # The next wait is noted at this item, and stands for so many; 0 and 1 while each is. Workers that carry an item
        # on measure both the op and the wait for it, or neither.
        self.sampling = Sampling()
        self.sample_at = 0
        self.weight = 1
        # How many items were taken out of the queue; where the taker does not count it, how long they were waited for,
        # added up, and when the last one was taken; the start, before that.
        self.taken = 0
        self.get_seconds = 0.0
        self.got_at = 0.0
        # How long something waited in it until the last one was taken, when something last came into it while it was
        # empty, and when the consumer last took all there was.
        self.occupied_seconds = 0.0
        self.filled_at = 0.0
        self.emptied_at = 0.0

    def filled(self, waiting: int, now: float) -> None:
        """Learn that an entry was appended, and how many wait now."""
        if waiting == 1:
            self.filled_at = now
        elif waiting > self.capacity:
            self.late.append(now)

    def took(self, waiting: int, now: float, since: float) -> None:
        """Learn that an entry was taken that lay in the queue.

        Args:
            waiting: How many wait now.
            now: The time.
            since: When the one before was taken. Between the two the queue was not empty from then on, or from when
                something came into it.
        """
        self.occupied_seconds += now - max(since, self.filled_at)
        if self.late:
            self.catch_up(waiting, now)

    def choose_next(self, now: float) -> None:
        """Choose which wait for an item is noted next."""
        self.weight = self.sampling.weight(now, self.taken)
        self.sample_at = self.taken + self.sampling.stride(self.weight) if self.weight > 1 else 0

    def took_one(self, waiting: int, *, counts: bool = True) -> None:
        """The same for a taker that does not note when it takes.

        Args:
            waiting: As above.
            counts: Whether the taker counts neither its items nor the time for which it waits for them, and this was
                an item.
        """
        now = perf_counter()
        since, self.got_at = self.got_at, now
        self.took(waiting, now, since)
        if counts:
            seconds = max(0.0, self.filled_at - since)
            self.get_seconds += seconds
            self.get_times.add(seconds)
            self.taken += 1

    def catch_up(self, waiting: int, now: float) -> None:
        """Note how long those entries waited for a place that have one now."""
        late = self.late
        while late and len(late) > waiting - self.capacity:
            seconds = now - late.popleft()
            self.put_seconds += seconds
            self.num_late += 1
            if seconds >= SHORT or self.num_late < _ALL_OF_FIRST:
                self.put_times.add(seconds)
            elif not self.num_late % _ONE_OF:
                self.put_times.add(seconds, _ONE_OF)

    def refilled(self, now: float) -> None:
        """Learn that an entry was put into the sink, of which the consumer had taken all there was."""
        if self.late:
            self.catch_up(1, now)
        if self.filled_at:
            # The consumer notes when, a moment after it has taken it.
            emptied_at = self.emptied_at if self.emptied_at > self.filled_at else now
            self.occupied_seconds += emptied_at - self.filled_at
        self.filled_at = now
