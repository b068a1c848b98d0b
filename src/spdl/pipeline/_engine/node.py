"""A stage at run time: what every kind of stage has, and the questions that the scheduler asks it."""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spdl.pipeline._declare.op import LeftOpen
from spdl.pipeline._declare.records import StageInfo
from spdl.pipeline._engine.channel import ADMITTED, MARK, Channel, Entry, Order, Ticket
from spdl.pipeline._report.counters import BLOCKED, StageCounters
from spdl.pipeline._report.failures import Tally
from spdl.pipeline._report.page import IDLE
from spdl.pipeline._report.perf_stats import NO_TASKS, TaskRecord
from spdl.pipeline._state.origins import Root
from spdl.pipeline._state.partial import Restored
from spdl.pipeline._world import Thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.source import Source

# An op that returns one of these has not finished: a generator runs step by step, the others on the event loop.
LAZY_TYPES = frozenset([GeneratorType, CoroutineType, AsyncGeneratorType])


class Attempt(NamedTuple):
    """One run of an op on an item. It holds a slot."""

    root: Root
    item: Any
    ticket: Ticket | None
    number: int


class KeepsItems(Protocol):
    """Knows the last epoch in which a user object kept items past a result, here or in an earlier run; see `Kept`."""

    def last_epoch(self) -> int | None: ...
    def resume(self, last: int | None) -> None: ...


class Node:
    """A stage of a running pipeline. Everything in it is guarded by the engine's lock.

    It takes items from its input channel and puts results into its output channel, which is the next stage's input or
    the sink. Subclasses say what a turn of their kind of stage does.
    """

    __slots__ = (
        "cancelled",
        "column",
        "concurrency",
        "counters",
        "engine",
        "feeders",
        "finished",
        "info",
        "input",
        "left_open",
        "name",
        "next",
        "op",
        "order",
        "output",
        "overtaking",
        "plain",
        "queue",
        "running",
        "tally",
        "wants_room",
    )

    # Its name in messages.
    info: StageInfo
    # True for declared stages; nodes that carry items between stages are not declared.
    is_stage = True
    # True if the event loop's thread serves it, and no worker does.
    on_loop = False
    # True if workers run its ops, for which they need a permit. A worker whose op never returns can be replaced.
    on_workers = True
    # True if its free slots count as places in its queue. Waiting items are taken only when the loop or the executor
    # runs: with the queue's own places alone, source and stage would hand over two items at a time.
    slots_are_places = False
    # True if `offer` may take an item that would wait in the queue otherwise.
    offers = False
    # True if its concurrency may be changed.
    adjustable = False
    # How many workers of a region it runs in. Its concurrency is of all of them, the declared one of each.
    copies = 1
    # True if its ops run in threads of such workers.
    on_threads_of_copies = False
    # CPU seconds of other processes that work for it, and seconds in which threads of its workers had no core.
    cpu_elsewhere = 0.0
    coreless_elsewhere = 0.0
    # True if it runs an op on its items.
    has_tasks = True
    # True if a user object carries its items, so that the engine cannot know which of them are in it.
    hides_items = False
    # True if its results are new objects, and not items that it was given.
    makes_items = False
    # True if its counters show how many items it took, and how long it waited for them.
    counts_gets = True

    def __init__(self, engine: Engine, name: str, op: Any, concurrency: int) -> None:
        self.engine = engine
        self.name = name
        self.op = op
        # The column in which a thread notes on the page that it has begun to run the op.
        self.column = IDLE
        # The number of items it may work on at once, and the number it works on: each of these holds a slot.
        self.concurrency = int(concurrency)
        self.running = 0
        # Whether it works on several items at once, or has done so, or may do so later.
        self.overtaking = self.concurrency > 1
        # Whether the user left the number open.
        self.left_open = isinstance(concurrency, LeftOpen)
        self.counters = StageCounters()
        # The queue of its items. A stage that merges has several such channels; this is the first.
        self.input = Channel()
        # The destination of its results, and which stage takes them from there; None is the consumer.
        self.output = Channel()
        self.next: Node | None = None
        # The entries of the input.
        self.queue = self.input.entries
        # The stage or source upstream; several if it merges.
        self.feeders: list[Node | Source] = []
        # Keeps its results in the order of its input, if the stage is ordered.
        self.order: Order | None = None
        # The failures that count together with its own, if its items can fail.
        self.tally: Tally | None = None
        # A plain node's op returns one result: workers run it without a detour.
        self.plain = False
        # Whether no more results will come; whether it was given up.
        self.finished = False
        self.cancelled = False
        # Whether it is served by the event loop and found no room: the thread that makes room tells the loop.
        self.wants_room = False

    def identify(self, info: StageInfo) -> None:
        self.info = info

    def take_column(self, column: int) -> None:
        self.column = column

    # ---- connecting it, and changing its limits ----

    def read_from(self, feeder: Node | Source, channel: Channel) -> None:
        """Take items from a channel that ``feeder`` fills. For a stage that merges, it is called several times."""
        self.feeders.append(feeder)
        self.input = channel
        self.queue = channel.entries
        self.counters.read_from(channel.counters)

    def write_to(self, channel: Channel, following: Node | None) -> None:
        self.output = channel
        self.next = following

    def keeps_order(self) -> bool:
        """Return whether its results come in the order of its items, apart from those that it drops."""
        return self.order is not None or not self.overtaking

    def inputs(self) -> list[Channel]:
        return [self.input]

    def set_concurrency(self, concurrency: int) -> None:
        self.concurrency = concurrency
        if concurrency > 1:
            self.may_overtake()

    def may_overtake(self) -> None:
        self.overtaking = True

    def count_bytes(self) -> None:
        """Ask the budget of bytes before each op. Called before anything runs."""
        # Workers take the items of plain nodes without asking.
        self.plain = False

    def begin(self, now: float) -> None:
        self.counters.begin(now)
        self.output.counters.begin(now)

    def prepare_tuning(self) -> None:
        """Prepare to be looked at often. Called before anything runs, if a tuner does."""

    def lags(self) -> bool:
        """Return whether workers with work have not begun yet, or full ones do not know their new limits yet."""
        return False

    def for_workers(self) -> Node | None:
        """Return the node that workers serve for it, if there is one."""
        return None if self.on_loop else self

    def regroup(self, restored: Restored) -> None:
        """Prepare to make batches of an earlier run again. Called before anything runs, if there are any."""

    def start_afresh(self) -> None:
        """Forget items that another pipeline has left in a user object. Called before anything runs."""

    def note_state(self) -> None:
        """Note a user object's own state. Called before anything runs; runs user code."""

    def changed_counts(self) -> bool:
        """Return whether it is known to have made more or fewer items than it got."""
        return bool(self.counters.failed or self.counters.dropped)

    def inexact(self) -> str | None:
        """Return why a state would not be exact, as far as this stage knows; None if it would be."""
        return None

    def inexact_elsewhere(self) -> str | None:
        """Return why a state would not be exact if the stage ran in a region and had got something."""
        return None

    def keeps_items(self) -> KeepsItems | None:
        """Return the record of items that a user object keeps past a result; None if it never says so."""
        return None

    def begins_threads(self) -> bool:
        """Return whether `warm` begins threads. Others are warmed first: they may fork."""
        return False

    def warm(self) -> None:
        """Do what must be done before the engine has threads."""

    def threads(self) -> list[Thread]:
        """Return its own threads that should be started with the workers. Called with the lock held."""
        return []

    def engines_inside(self) -> list[Engine]:
        """Return the engines that do its work in other threads of this process."""
        return []

    def interrupt(self) -> None:
        """Make its own threads look again. Takes no lock, and may be called from anywhere at any time."""

    # ---- the scheduler's questions ----

    def ready(self) -> bool:
        """Return whether a worker could take a turn now."""
        raise NotImplementedError

    def offer(self, root: Root, value: Any) -> bool:
        """Take an item on its way to the empty queue, if no more than that should be done now."""
        raise NotImplementedError

    def turn(self) -> None:
        """Take one turn. Called and returns with the lock held; releases it around the user's code."""
        raise NotImplementedError

    def start(self, root: Root | None = None, hand: list[Any] | None = None) -> Node:
        """Take an item and run the op on it. Called and returns with the lock held.

        Args:
            root: The origin of the item in hand. None takes the first one of the queue.
            hand: The item, which is taken out. If there is a hand, even an empty one, plain nodes that follow run their
                ops on the result at once, as far as limits allow.

        Returns:
            The last node that has run its op.
        """
        raise NotImplementedError

    def wants_server(self) -> bool:
        return False

    async def serve(self) -> None:
        """Do work on the event loop, as long as there is some."""
        raise NotImplementedError

    def admits(self) -> bool:
        """Return whether it may take an item that is there: a slot is free, and a result would have a place to go."""
        if self.cancelled:
            return False
        running, concurrency, output = self.running, self.concurrency, self.output
        if (
            running < concurrency
            and running + len(output.entries) < output.capacity + concurrency
            and output.guard is None
            and (self.order is None or self.order.has_place(concurrency))
        ):
            # What the rule says in most cases, without three calls.
            return True
        verdict = output.verdict(running, self.under_way(), concurrency, self.order)
        if verdict >= 0:
            self.counters.wait(verdict)
        return verdict == ADMITTED

    def places_in_slots(self) -> int:
        """Return how many results may wait in the slots that made them, for a place in the output."""
        return self.concurrency

    def under_way(self) -> int:
        return self.running

    def slots_in_use(self) -> int:
        return self.running

    def in_ops(self) -> int:
        return self.running

    def has_room(self, reserved: int) -> bool:
        """Return whether a result has a place to go apart from ``reserved`` ones, and note the wait if not."""
        if self.output.has_place(reserved, self.places_in_slots()):
            return True
        self.counters.wait(BLOCKED)
        return False

    def has_place(self) -> bool:
        """Return whether the source may put one more item into the queue."""
        places = 0
        if self.slots_are_places and not self.cancelled:
            # Not those whose results would have no place: nothing can start in them.
            room = self.output.capacity + self.concurrency
            places = max(0, min(self.concurrency, room - len(self.output.entries)) - self.running)
        guard = self.input.guard
        return len(self.queue) < self.input.capacity + places and (guard is None or guard.admits(self.input))

    # ---- taking items ----

    def dequeue(self) -> Entry:
        feeder = self.feeders[0]
        if feeder.wants_room:
            feeder.room_made()
        if not self.on_loop:
            self.engine.remove_turns()
        queue = self.queue
        self.counters.queue.fill += len(queue)
        return queue.popleft()

    def at_mark(self) -> bool:
        return bool(self.queue) and self.queue[0] is MARK

    def pass_mark(self) -> None:
        """Pass the end of an epoch on, once all before it has left. Called with the lock held."""
        waiting = len(self.queue)
        self.dequeue()
        self.counters.mark_taken(waiting, self.input.excess())
        self.engine.emit_mark(self)

    def queued(self) -> int:
        return len(self.queue)

    def capacity(self) -> int:
        """Return how many may wait there apart from those that hold slots of the stages before."""
        return sum(channel.capacity for channel in self.inputs())

    def slot_taken(self) -> None:
        """Count an item that was taken from the queue and is worked on now."""
        self.running += 1
        full = self.running >= self.concurrency
        self.counters.item_taken(len(self.queue), self.input.excess(), all_slots_taken=full)

    def slot_freed(self) -> None:
        self.running -= 1
        self.counters.slot_freed(len(self.queue))

    # ---- room, for stages that the event loop serves ----

    def want_room(self) -> None:
        self.wants_room = True

    def stop_wanting_room(self) -> None:
        self.wants_room = False

    def room_made(self) -> None:
        """Called with the lock held when a full channel may have room again."""
        if self.engine.event_loop is not None:
            self.engine.event_loop.wake()

    # ---- its end ----

    def is_finished(self) -> bool:
        return self.finished

    def drained(self) -> bool:
        return not self.queue and not self.running

    def end_input(self) -> bool:
        """Called when no input will follow. Return True if nothing remains to be done, False if a turn is now due."""
        return True

    def finish_stage(self, now: float) -> None:
        self.finished = True
        self.counters.end_wait(now)

    def give_up_work(self) -> bool:
        """Give up the stage; return False if it was given up before. Called with the lock held."""
        if self.cancelled:
            return False
        self.cancelled = True
        # Nothing starts in it any more, by whichever way items come.
        self.plain = False
        self.engine.drops.extend(self.discard())
        return True

    def discard(self) -> list[Any]:
        """Give up all that waits here; the caller drops what is returned once it has released the lock."""
        dropped: list[Any] = list(self.queue)
        if not self.on_loop:
            self.engine.remove_turns(len(dropped))
        self.queue.clear()
        return dropped

    def let_go(self) -> list[Any]:
        """Return the user's objects, and forget them. Called with the lock held, when nothing runs any more."""
        op, self.op = self.op, None
        dropped = self.discard()
        # Tasks of the event loop that the end has cancelled do not give their slots back.
        self.running = 0
        return [op, *dropped]

    def num_processes(self) -> int:
        """Return how many other processes it hands items over to, or its op runs in; 0 if none."""
        return 0

    def num_copies(self) -> int:
        """Return how many workers of a region run it; 0 if it is in no region."""
        return 0

    def awaits_calls(self) -> bool:
        """Return whether calls run in an executor, or wait there."""
        return False

    def goes_on_elsewhere(self) -> bool:
        """Return whether it continues by itself, without a worker. Called with the lock held, where no op runs."""
        return self.on_loop and bool(self.queue) and self.admits()

    def await_calls(self, seconds: float) -> int:  # noqa: ARG002 - only executors' stages have any.
        """Withdraw what waits in an executor; return how many calls still run there after that many seconds."""
        return 0

    def excess_of_failures(self, verdict: str) -> RuntimeError:
        """Return the failure of the pipeline if too many items have failed."""
        return RuntimeError(f"The pipeline stage ({self.info}) {verdict}.")

    def report_failure(
        self,
        root: Root | None,
        error: Exception,
        report: Callable[[], object],
        *,
        cut_off: Node | None = None,
        limited: bool = True,
    ) -> None:
        """Report an item that has failed, which was counted. Called with the lock held, and without it for the report.

        The pipeline fails if that was one too many, unless it is not ``limited``, and if the report is interrupted.
        """
        engine = self.engine
        if limited and self.tally is not None and (verdict := self.tally.verdict()) is not None:
            excess = self.excess_of_failures(verdict)
            excess.__cause__ = error
            engine.fail(self, root, excess, cut_off=cut_off)
        engine.release_to_user()
        interrupt: BaseException | None = None
        try:
            report()
        except BaseException as raised:  # noqa: BLE001 - a KeyboardInterrupt of the user's callback, say.
            interrupt = raised
        engine.lock.acquire()
        # The exception holds the op's frames, and these hold user objects, which are dropped without the lock.
        engine.drops.append(error)
        if interrupt is not None:
            engine.fail(self, root, interrupt, cut_off=cut_off)

    # ---- what it has counted ----

    def task_record(self) -> TaskRecord:
        return self.counters.task_record() if self.has_tasks else NO_TASKS


class JoiningNode(Node):
    """A stage that takes items from several others, and has a queue for each."""

    __slots__ = ("inlets",)

    has_tasks = counts_gets = False

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(engine, name, None, concurrency=1)
        self.inlets: list[Channel] = []

    def read_from(self, feeder: Node | Source, channel: Channel) -> None:
        super().read_from(feeder, channel)
        self.inlets.append(channel)

    def inputs(self) -> list[Channel]:
        return self.inlets

    def keeps_order(self) -> bool:
        return False

    def queued(self) -> int:
        return sum(len(inlet.entries) for inlet in self.inlets)

    def drained(self) -> bool:
        return not self.queued()

    def discard(self) -> list[Any]:
        dropped: list[Any] = [entry for inlet in self.inlets for entry in inlet.entries]
        if not self.on_loop:
            self.engine.remove_turns(len(dropped))
        for inlet in self.inlets:
            inlet.entries.clear()
        return dropped
