"""A stage at run time: its queue, its limit, its counters, and the rule that says when it has work."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from ._sentinel import MARK

if TYPE_CHECKING:
    from ._engine import Engine
    from ._lineage import Root
    from ._order import Order
    from ._source import Source
    from ._stage_info import StageInfo

__all__ = ["BLOCKED", "EDGE_CAPACITY", "HELD", "STARVED", "Entry", "Node"]

# What waits in a queue: where the item came from (a Root) and the item, or the MARK between two epochs.
Entry: TypeAlias = tuple[Any, Any]

# Items that may wait between two stages besides those that hold a slot of the upstream stage. The reference's queues
# have the same size, so memory budgets made for it hold.
EDGE_CAPACITY = 2

# Why a stage with a free slot does not use it: indices into `Node.waits`.
STARVED, BLOCKED, HELD = 0, 1, 2


class Node:
    """A stage of a running pipeline. Everything in it is guarded by the engine's lock.

    An op starts only when its result has a place to go: ``running + len(out) < room``, where ``out`` is the queue of
    the next stage (or the sink) and ``room`` its capacity plus this stage's limit, since a finished item that cannot
    move on keeps its slot.

    Subclasses say what a turn of their kind of stage does.
    """

    __slots__ = (
        "busy_seconds",
        "cancelled",
        "completed",
        "cpu_mask",
        "cpu_seconds",
        "dropped",
        "emitted",
        "engine",
        "failed",
        "feeders",
        "fill",
        "finished",
        "info",
        "limit",
        "name",
        "next",
        "op",
        "order",
        "out",
        "overdue",
        "plain",
        "queue",
        "retried",
        "room",
        "running",
        "slots",
        "waiting_for",
        "waiting_since",
        "waits",
        "wants_room",
    )

    # What messages call it; the plan says.
    info: StageInfo
    # Whether it was declared; what carries items between stages was not.
    is_stage = True
    # Whether the event loop's thread serves it, and no worker does.
    on_loop = False
    # Whether its free slots count as places in its queue. What waits is taken as soon as the loop or the executor runs:
    # with the queue's own places alone, source and stage would hand over two items at a time.
    slots_are_places = False
    # Whether `offer` may take an item that would wait in the queue otherwise.
    offers = False
    # Whether the number of items it works on at once may be changed.
    adjustable = False

    def __init__(self, engine: Engine, name: str, op: Any, limit: int) -> None:
        self.engine = engine
        self.name = name
        self.op = op
        # How many items it may work on at once; 0 once it was cancelled, though it had so many slots.
        self.limit = limit
        self.slots = limit
        self.running = 0
        self.queue: deque[Entry] = deque()
        self.next: Node | None = None
        # What puts items into the queue: the stage or the source before this one; several if it merges.
        self.feeders: list[Node | Source] = []
        self.out: deque[Entry] = deque()
        self.room = 0
        # What keeps its results in the order of its input, if anything does.
        self.order: Order | None = None
        # A plain node's op returns one result: workers run it without a detour.
        self.plain = False
        self.finished = False
        self.cancelled = False
        self.completed = self.emitted = self.failed = self.dropped = self.retried = self.overdue = self.fill = 0
        self.busy_seconds = self.cpu_seconds = 0.0
        # The thread's CPU clock is read at every op whose number has none of these bits.
        self.cpu_mask = 0
        # Served by the event loop, and it found no room: whoever makes room tells the loop.
        self.wants_room = False
        self.waits = [0.0, 0.0, 0.0]
        self.waiting_for = STARVED
        self.waiting_since = 0.0

    def connect(self, following: Node | None, out: deque[Entry], capacity: int) -> None:
        """Say where the results go: to a queue of the next stage's, or to the sink."""
        self.next = following
        self.out = out
        self.room = capacity + self.limit

    def room_made(self) -> None:
        """Learn that there may be room again where there was none. Called with the lock held."""
        if self.engine.lane is not None:
            self.engine.lane.wake()

    def for_workers(self) -> Node | None:
        """What workers serve of it, if anything."""
        return None if self.on_loop else self

    def warm(self) -> None:
        """Do what must be done before the engine has threads."""

    def await_calls(self, seconds: float) -> int:  # noqa: ARG002 - only executors' stages have any.
        """Withdraw what waits in an executor; return how many calls still run there after so many seconds."""
        return 0

    def wants_server(self) -> bool:
        """Whether the event loop is to start a `serve` now. Called with the lock held."""
        return False

    async def serve(self) -> None:
        """Do work on the event loop, as long as there is some."""
        raise NotImplementedError

    def inlet(self, index: int) -> deque[Entry]:  # noqa: ARG002 - stages that merge have several.
        """The queue that the feeder with this index puts its results into."""
        return self.queue

    def at_mark(self) -> bool:
        """Whether what waits first is the end of an epoch."""
        return bool(self.queue) and self.queue[0] is MARK

    def pass_mark(self) -> None:
        """Pass the end of an epoch on, once all before it has left. Called with the lock held."""
        self.engine.dequeue(self)
        self.engine.emit_mark(self)

    def queued(self) -> int:
        """How many items wait in front of it."""
        return len(self.queue)

    def ready(self) -> bool:
        """Whether a worker could take a turn now."""
        raise NotImplementedError

    def offer(self, root: Root, value: Any) -> bool:
        """Take an item on its way to the empty queue, if no more than that is to be done now."""
        raise NotImplementedError

    def turn(self) -> None:
        """Take one turn. Called and returns with the lock held; releases it around the user's code."""
        raise NotImplementedError

    def has_place(self) -> bool:
        """Whether the source may put one more item into the queue."""
        places = EDGE_CAPACITY
        if self.slots_are_places:
            # Not those whose results would have no place: nothing can start in them.
            places += max(0, min(self.limit, self.room - len(self.out)) - self.running)
        return len(self.queue) < places

    def drained(self) -> bool:
        """Whether nothing is left in here."""
        return not self.queue and not self.running

    def end_input(self) -> bool:
        """Learn that no input will follow. True if nothing remains to be done, False if a turn is now due."""
        return True

    def discard(self) -> list[Any]:
        """Give up all that waits here; the caller drops what is returned once it has released the lock."""
        rubbish: list[Any] = list(self.queue)
        if not self.on_loop:
            self.engine.waiting -= len(rubbish)
        self.queue.clear()
        return rubbish

    def has_room(self, reserved: int) -> bool:
        """Whether a result has a place to go besides ``reserved`` ones; notes the wait if not."""
        if reserved + len(self.out) < self.room:
            return True
        if self.next is None:
            # The consumer takes from the sink without the lock and looks at this flag afterwards, so it is set
            # before the second look: one of the two sees the other.
            self.engine.sink.full = True
            if reserved + len(self.out) < self.room:
                return True
        self.wait(BLOCKED)
        return False

    def wait(self, reason: int) -> None:
        """Note that a free slot stays free from now on."""
        if self.waiting_since and self.waiting_for == reason:
            return
        now = perf_counter()
        if self.waiting_since:
            self.waits[self.waiting_for] += now - self.waiting_since
        self.waiting_for = reason
        self.waiting_since = now

    def slot_taken(self) -> None:
        """Count an item that is worked on now."""
        self.running += 1
        if self.waiting_since and (self.waiting_for or self.queue or self.running >= self.limit):
            self.waits[self.waiting_for] += perf_counter() - self.waiting_since
            self.waiting_since = 0.0

    def slot_freed(self) -> None:
        """Count an item less that is worked on."""
        self.running -= 1
        if not self.waiting_since and not self.queue:
            self.waiting_for = STARVED
            self.waiting_since = perf_counter()
