"""A stage at run time: its queue, its limit, its counters, and the rule that says when it has work."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl.pipeline._metrics.histogram import Histogram
from spdl.pipeline._metrics.sampling import AT_LEAST_ONE_OF, SHORT, Sampling

from .edge import Edge
from .sentinel import MARK

if TYPE_CHECKING:
    from spdl.pipeline._declare.stage_info import StageInfo
    from spdl.pipeline._metrics.task_record import TaskRecord

    from .engine import Engine
    from .lineage import Root
    from .order import Order
    from .source import Source

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
        "before",
        "behind",
        "busy_seconds",
        "cancelled",
        "completed",
        "cpu_seconds",
        "dropped",
        "emitted",
        "engine",
        "failed",
        "feeders",
        "fill",
        "finished",
        "got_at",
        "info",
        "limit",
        "name",
        "next",
        "op",
        "order",
        "other_seconds",
        "out",
        "overdue",
        "plain",
        "queue",
        "retried",
        "room",
        "running",
        "sample_at",
        "sampling",
        "slots",
        "steps",
        "times",
        "waiting_for",
        "waiting_since",
        "waits",
        "wants_room",
        "weight",
    )

    # What messages call it; the plan says.
    info: StageInfo
    # Whether it was declared; what carries items between stages was not.
    is_stage = True
    # Whether the event loop's thread serves it, and no worker does.
    on_loop = False
    # Whether workers run its ops, for which they need a permit: one whose op never returns can be replaced.
    on_workers = True
    # Whether its free slots count as places in its queue. What waits is taken as soon as the loop or the executor runs:
    # with the queue's own places alone, source and stage would hand over two items at a time.
    slots_are_places = False
    # Whether `offer` may take an item that would wait in the queue otherwise.
    offers = False
    # Whether the number of items it works on at once may be changed.
    adjustable = False
    # Whether it runs anything on its items.
    has_tasks = True
    # Whether its counters tell how many items it took, and how long it waited for them.
    counts_gets = True

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
        # Tasks besides one for each item that was completed: a generator's results, an aggregator's flushes.
        self.steps = 0
        self.busy_seconds = self.cpu_seconds = 0.0
        # What of the first is no time of tasks that succeeded, and the histogram of those.
        self.other_seconds = 0.0
        self.times = Histogram()
        # The next task is measured once so many are completed, and stands for so many; 0 and 1 if all of them are.
        self.sample_at = 0
        self.weight = 1
        self.sampling = Sampling()
        # When the last item was taken.
        self.got_at = 0.0
        # What lies in front of it, and behind it.
        self.before = self.behind = Edge()
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
        self.behind.capacity = capacity

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
        now = perf_counter()
        self.before.took(len(self.queue), now, self.got_at)
        self.got_at = now
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
        """Count an item that was taken from the queue and is worked on now."""
        self.running += 1
        now = perf_counter()
        edge = self.before
        edge.taken += 1
        if edge.taken >= edge.sample_at:
            self._note_wait(now, edge.weight)
            edge.choose_next(now)
        # As `Edge.took` does. A call of `max` would cost as much as all of this.
        since = self.got_at
        if since < edge.filled_at:  # noqa: PLR1730
            since = edge.filled_at
        edge.occupied_seconds += now - since
        if edge.late:
            edge.catch_up(len(self.queue), now)
        self.got_at = now
        if self.waiting_since and (self.waiting_for or self.queue or self.running >= self.limit):
            self.waits[self.waiting_for] += now - self.waiting_since
            self.waiting_since = 0.0

    def slot_freed(self) -> None:
        """Count an item less that is worked on."""
        self.running -= 1
        if not self.waiting_since and not self.queue:
            self.waiting_for = STARVED
            self.waiting_since = perf_counter()

    # ---- measuring tasks, and waits for items ----

    def note_get(self, now: float, weight: int) -> None:
        """Note how long a free slot has waited for the item that is taken now, and claim the measurement."""
        if weight > 1:
            # The next one is chosen when this one has ended.
            self.sample_at += AT_LEAST_ONE_OF
        self._note_wait(now, weight)

    def _note_wait(self, now: float, weight: int) -> None:
        waited = 0.0
        if self.waiting_since and self.waiting_for == STARVED:
            # A slot that was free all the time has waited only since the item before this one.
            waited = now - max(self.waiting_since, self.got_at)
        self.before.get_times.add(waited, weight)

    def note_long(self, seconds: float) -> None:
        """Note a task that took long, though it was not to be measured; the next ones are."""
        self.times.add(seconds)
        self.weight = 1
        self.sample_at = 0

    def note_task(self, seconds: float, weight: int, now: float) -> None:
        """Note a measured task, standing for so many, and choose the next one."""
        if seconds >= SHORT:
            # All of these are noted.
            self.note_long(seconds)
        else:
            self.times.add(seconds, weight)
            self.choose_next(now)

    def choose_next(self, now: float) -> None:
        """Choose which task is measured next: the quicker they follow each other, the fewer are."""
        done = self.completed + self.steps
        self.weight = self.sampling.weight(now, done)
        self.sample_at = done + self.sampling.stride(self.weight) if self.weight > 1 else 0

    def task_record(self) -> TaskRecord:
        """What was counted of its tasks until now."""
        from spdl.pipeline._metrics.task_record import NO_TASKS, TaskRecord  # noqa: PLC0415 - declaring pipelines needs none.

        if not self.has_tasks:
            return NO_TASKS
        seconds = self.busy_seconds - self.other_seconds
        return TaskRecord(self.completed + self.steps, self.failed + self.retried, seconds, self.times.counts.copy())
