"""One worker of a region, as the pipeline sees it: the connection to it, and the items that it has."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from .messages import Load

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._metrics.extract import Extract

    from .messages import Name, Report
    from .sent import Sent
    from .worker import Worker

__all__ = ["Peer"]

# Seconds that a worker has to end when nobody wants more of it, before it is killed.
_GRACE = 3.0
# One that imports what it needs has begun no work that could be finished, and may import for long.
_GRACE_TO_BEGIN = 0.2

# So many seconds of work cross at once: what an item costs on its way is little beside it then. The thread that tells
# when more is wanted waits up to 5 ms for an op in Python. With less work than that, a worker would run out of items.
_HAND_OVER_SECONDS = 0.006


class Peer:
    """A worker. Its fields are guarded by the engine's lock; what ends it is called by the region's thread.

    Args:
        worker: The process, interpreter or thread.
        number: The worker's number in the region.
        most: How many items cross at once, at most.

    Attributes:
        batch: How many items should cross at once.
        sent: The items that it has, by their numbers.
        waiting: How many of them its stages have not taken yet.
        sending: Whether a thread sends something to it.
        names: What the results are called that have come and were not passed on; ``values`` holds these.
        report: What else has come with them.
        paused: Whether nothing more is received, since these find no room.
        busy: Whether a thread passes them on.
        begun: Whether it has told anything: before that it imports what it needs, which may take seconds.
        parted: Whether the connection to it is being closed. Its room can be looked for only before.
        gone: Whether it has ended.
        ends_owed: To how many ends of epochs it has yet to come, of those that it was told of.
    """

    def __init__(self, worker: Worker, number: int, most: int) -> None:
        self._worker = worker
        self.channel = worker.channel
        self.number = number
        self.most = most
        self.batch = 1
        self.sent: dict[int, Sent] = {}
        self.waiting = 0
        self.sending = False
        self.names: deque[Name] = deque()
        self.values: deque[Any] = deque()
        self.report: Report | None = None
        self.paused = self.busy = self.begun = self.parted = self.gone = False
        # Its last epoch has ended, or its pipeline has failed: it ends by itself.
        self.ending = False
        self.ends_owed = 0
        self.told: list[Extract] | None = None
        # What it has told of the CPU, and the concurrencies that it was told, by the places of stages.
        self._load = Load(0.0, 0.0)
        self._limits: dict[int, int] = {}
        self._next_number = 0
        # Items that were taken since it was last seen how long they take, and the work on them.
        self._taken = 0
        self._seconds = 0.0
        # How long an item takes there, as seen so far.
        self.item_seconds = _HAND_OVER_SECONDS

    # ---- what is sent ----

    def add(self, sent: Sent) -> int:
        """Note that it gets an item, and return the item's number."""
        number = self._next_number
        self._next_number = number + 1
        self.sent[number] = sent
        self.waiting += 1
        return number

    def begin_sending(self) -> None:
        """Note that a thread sends something to it."""
        self.sending = True

    def end_sending(self) -> None:
        """Note that the thread is done with it."""
        self.sending = False

    def owes_end(self) -> None:
        """Note that it is told of the end of an epoch or of the input."""
        self.ends_owed += 1

    def news_of(self, limits: dict[int, int]) -> dict[int, int]:
        """Return the concurrencies that it has yet to be told, and note that it is told."""
        news = {place: each for place, each in limits.items() if self._limits.get(place) != each}
        self._limits.update(news)
        return news

    def give_back(self, number: int) -> Sent:
        """Take back an item that could not be sent."""
        self.waiting -= 1
        return self.sent.pop(number)

    # ---- what has come ----

    def received(self, report: Report, values: list[Any]) -> None:
        """Note what has come."""
        self.begun = True
        self.report = report
        self.names.extend(report.names)
        self.values.extend(values)

    def takes(self, count: int, seconds: float) -> None:
        """Note that its stages have taken so many more items, and how long the slowest has worked."""
        self.waiting -= count
        self._taken += count
        self._seconds += seconds
        if self._taken and self._seconds:
            # What passes between two reports would say more of the machine than of the stages: if that is busy, the
            # more items cross at once, the better.
            self.item_seconds += (self._seconds / self._taken - self.item_seconds) / 4
            self._taken = 0
            self._seconds = 0.0
            self.batch = max(1, min(self.most, int(_HAND_OVER_SECONDS / max(self.item_seconds, 1e-9))))

    def tells(self, counters: list[Extract]) -> list[Extract] | None:
        """Note what it tells of its stages, and return what it has told before."""
        before, self.told = self.told, counters
        return before

    def uses(self, load: Load) -> Load:
        """Note what it tells of the CPU, and return how much more that is than it has told before."""
        before, self._load = self._load, load
        return Load(load.cpu - before.cpu, load.coreless - before.coreless)

    def came_to_end(self) -> None:
        """Note that it has come to such an end, and all results before it with it."""
        self.ends_owed -= 1

    def pause(self, *, paused: bool) -> None:
        """Note whether what has come finds no room."""
        self.paused = paused

    def occupy(self, *, busy: bool) -> None:
        """Note whether a thread passes on what has come."""
        self.busy = busy

    def processed(self) -> None:
        """Note that all that has come was passed on."""
        self.report = None

    def expect_end(self) -> None:
        """Note that it will end by itself."""
        self.ending = True

    def part(self) -> None:
        """Note that the connection to it will be closed."""
        self.parted = True

    def mark_gone(self) -> list[Sent]:
        """Note that it has ended, and return the items that it had, in order."""
        self.gone = True
        items = list(self.sent.values())
        self.sent.clear()
        self.waiting = 0
        return items

    # ---- the worker itself ----

    def grace(self) -> float:
        """Return how many seconds it has to end."""
        return _GRACE if self.begun else _GRACE_TO_BEGIN

    def end(self, grace: float) -> str:
        """Close the connection and wait for its end; return how it ended, in words."""
        return self._worker.end(grace)

    def close(self) -> None:
        """Have it end by itself. The region's thread waits for it."""
        self._worker.close()

    def engines(self) -> list[Engine]:
        """Return the engine that runs its stages, if that is in this process's threads."""
        return self._worker.engines()
