"""One worker of a region, as the pipeline sees it: its process, the connection, and the items that it has."""

from __future__ import annotations

import atexit
import multiprocessing.util  # noqa: F401 - it registers its exit hook before ours, so ours runs first.
import os
import signal
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spdl.pipeline._transport.channel import ParentEnd

from .start_worker import run_worker

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from spdl.pipeline._metrics.extract import Extract

    from .messages import Job, Name, Report
    from .sent import Sent

__all__ = ["Peer"]

# Seconds that a worker has to end when nobody wants more of it, before it is killed.
_GRACE = 3.0

# So many seconds of work cross at once: what an item costs on its way is little beside it then.
_HAND_OVER_SECONDS = 0.001


class Peer:
    """A worker. Its fields are guarded by the engine's lock; its process is the region's thread's.

    Args:
        context: Starts the process.
        payload: The work.
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
        gone: Whether its process has ended.
    """

    def __init__(self, context: BaseContext, payload: Job | bytes, number: int, most: int) -> None:
        self.number = number
        self.most = most
        self.batch = 1
        self.sent: dict[int, Sent] = {}
        self.waiting = 0
        self.sending = False
        self.names: deque[Name] = deque()
        self.values: deque[Any] = deque()
        self.report: Report | None = None
        self.paused = self.busy = self.gone = False
        # Its last epoch has ended, or its pipeline has failed: its process ends.
        self.ending = False
        self.told: list[Extract] | None = None
        self._next_number = 0
        # Items that were taken since it was last seen how long they take, and the work on them.
        self._taken = 0
        self._seconds = 0.0
        # How long an item takes there, as seen so far.
        self.item_seconds = _HAND_OVER_SECONDS
        self._owner = os.getpid()
        self.channel = ParentEnd()
        process_class: Any = context.Process  # type: ignore[attr-defined] # Typeshed has it on concrete contexts only.
        self.process = process_class(
            target=run_worker, args=(self.channel.worker_end, payload), name=f"spdl_region_{number}", daemon=False
        )
        try:
            self.process.start()
        except BaseException:
            self.channel.close()
            raise
        self.channel.started(self.process)
        _LIVE.add(self)

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

    def give_back(self, number: int) -> Sent:
        """Take back an item that could not be sent."""
        self.waiting -= 1
        return self.sent.pop(number)

    # ---- what has come ----

    def received(self, report: Report, values: list[Any]) -> None:
        """Note what has come."""
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
        """Note that its process will end by itself."""
        self.ending = True

    def mark_gone(self) -> list[Sent]:
        """Note that its process has ended, and return the items that it had, in order."""
        self.gone = True
        items = list(self.sent.values())
        self.sent.clear()
        self.waiting = 0
        return items

    # ---- its process ----

    def end(self, grace: float = _GRACE) -> str:
        """Close the connection, wait for the process, kill it if it takes long; return how it ended, in words."""
        if os.getpid() != self._owner:
            return ""
        self.channel.close()
        self.process.join(grace)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        self.process.close()
        _LIVE.discard(self)
        return _in_words(code)

    def close(self) -> None:
        """Have the process end by itself. Its own thread waits for it."""
        if os.getpid() == self._owner:
            self.channel.close()


def _in_words(code: int | None) -> str:
    if code is None or code >= 0:
        return f"it ended with status {code}"
    name = str(-code)
    with suppress(ValueError):
        name = signal.Signals(-code).name
    hint = ", as the system does where memory runs out" if -code == signal.SIGKILL else ""
    return f"it was killed by signal {name}{hint}"


_LIVE: WeakSet[Peer] = WeakSet()


def _close_all() -> None:
    for peer in list(_LIVE):
        peer.close()


atexit.register(_close_all)
