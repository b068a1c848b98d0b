"""The state that all threads of a running pipeline share, and the rules that move items through it."""

from __future__ import annotations

from itertools import pairwise
from threading import Lock, Thread, current_thread, get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ._failure import PipelineFailure, annotate
from ._node import EDGE_CAPACITY
from ._sink import Sink
from ._source import SOURCE, Source

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable

    from ._lane import Lane
    from ._lineage import Root
    from ._node import Entry, Node

__all__ = ["Engine"]


class Engine:
    """Nodes, source and sink of one pipeline, the lock that guards them, and the workers' whereabouts.

    The rules, each of which was found by measuring what goes wrong without it:

    * A free worker takes the ready work nearest the sink, and carries the item on from stage to stage.
    * Nobody overtakes: an item enters a stage through its queue unless that queue is empty.
    * Whoever leaves ready work behind wakes one idle worker, unless one is already on its way; the woken one does
      the same. So there are never more workers awake than there is work.
    * The right to pull the source is a token.
    """

    __slots__ = (
        "__weakref__",
        "done",
        "failures",
        "forked",
        "gates",
        "idle",
        "inside",
        "lane",
        "lock",
        "nodes",
        "num_threads",
        "permits",
        "pipeline_id",
        "ranked",
        "rubbish",
        "sink",
        "source",
        "started_at",
        "stopped_at",
        "stopping",
        "threads",
        "waiting",
        "waking",
    )

    def __init__(self, pipeline_id: int, num_threads: int, sink_size: int) -> None:
        self.pipeline_id = pipeline_id
        self.num_threads = num_threads
        self.lock = Lock()
        self.sink = Sink(sink_size)
        self.source: Source = None  # type: ignore[assignment] # set by `connect`
        self.nodes: list[Node] = []
        # What workers serve, nearest the sink first.
        self.ranked: list[Node] = []
        # Turns that wait in queues that workers serve, whether ready or not.
        self.waiting = 0
        # How many more synchronous ops may run now.
        self.permits = num_threads
        # The gates of idle workers, and whether one was opened whose worker has not arrived yet.
        self.idle: list[Lock] = []
        self.waking = False
        self.threads: list[Thread] = []
        self.lane: Lane | None = None
        self.failures: list[tuple[str, BaseException]] = []
        # What was taken out of queues under the lock and must be dropped without it.
        self.rubbish: list[Any] = []
        self.stopping = False
        self.done = False
        # The consumers' threads that are in one of the engine's critical sections.
        self.inside: list[int] = []
        # This is a copy in a forked child; the threads stayed in the parent.
        self.forked = False
        self.started_at = self.stopped_at = 0.0

    def connect(self, source: Iterable[Any] | AsyncIterable[Any], nodes: list[Node]) -> None:
        """Put the stages in a row."""
        self.nodes = nodes
        self.ranked = [node for node in reversed(nodes) if not node.on_loop]
        self.source = Source(self, source, nodes[0] if nodes else None)
        for node, following in pairwise(nodes):
            node.connect(following, following.queue, EDGE_CAPACITY)
            following.feeder = node
        if nodes:
            nodes[0].feeder = self.source
            nodes[-1].connect(None, self.sink.entries, self.sink.size)

    # ---- moving items; all of it is called with the lock held ----

    def enqueue(self, node: Node, entry: Entry) -> None:
        """Put an entry into a stage's queue."""
        node.queue.append(entry)
        if not node.on_loop:
            self.waiting += 1
        elif self.lane is not None and node.running < node.limit:
            self.lane.wake()

    def dequeue(self, node: Node) -> Entry:
        """Take the head of a stage's queue."""
        node.fill += len(node.queue)
        if node.feeder is not None and node.feeder.wants_room and self.lane is not None:
            self.lane.wake()
        if not node.on_loop:
            self.waiting -= 1
        return node.queue.popleft()

    def emit(self, node: Node, entry: Entry) -> None:
        """Pass a result on."""
        if node.next is not None:
            self.enqueue(node.next, entry)
        else:
            self.sink.put(entry)

    def room_in_sink(self) -> None:
        """Learn that the consumer made room where somebody had found none."""
        self.sink.full = False
        self.progressed()
        if self.lane is not None:
            self.lane.wake()

    def select(self) -> Node | None:
        """The ready stage nearest the sink."""
        if self.permits:
            for node in self.ranked:
                if node.ready():
                    return node
        return None

    def progressed(self) -> None:
        """Wake one idle worker if there is work that nobody is on the way to."""
        if not self.idle or self.waking:
            return
        if (self.waiting and self.select() is not None) or self.source.pullable():
            self.wake_worker()

    def wake_worker(self) -> None:
        """Open the gate of the worker that became idle last."""
        try:
            gate = self.idle.pop()
        except IndexError:  # A request to stop took it.
            return
        self.waking = True
        gate.release()

    def release_to_user(self) -> None:
        """Release the lock before code of the user's runs, seeing to what is left behind."""
        self.progressed()
        self.lock.release()

    def settle(self) -> None:
        """Pass the end of the input on, stage by stage, as far as they are drained."""
        # After a failure nobody waits for the source, which may block for ever: what it yields is discarded.
        if not self.source.ended or (self.source.pulling and not self.failures):
            return
        for node in self.nodes:
            if node.finished:
                continue
            if node.cancelled:
                if node.running:
                    return
            elif not node.drained() or not node.end_input():
                return
            node.finished = True
            if node.waiting_since:
                node.waits[node.waiting_for] += perf_counter() - node.waiting_since
                node.waiting_since = 0.0
        self.finish()

    def concluded(self) -> None:
        """See to what an outcome that no worker carried on leaves behind."""
        self.settle()
        self.progressed()

    def finish(self) -> None:
        """Note that nothing more will come, and tell everybody."""
        if self.done:
            return
        self.done = True
        self.stopped_at = perf_counter()
        self._wake_all()

    def _wake_all(self) -> None:
        # Each step is atomic and may run in a signal handler or a finalizer, inside a critical section of anyone's.
        while self.idle:
            try:
                self.idle.pop().release()
            except IndexError:
                break
        while self.sink.readers:
            self.sink.wake_reader()
        lane = self.lane
        if lane is not None:
            lane.stop_or_wake()

    # ---- failing and stopping ----

    def fail(self, node: Node | None, root: Root | None, error: BaseException) -> None:
        """End the pipeline at a stage (None: the source): what is downstream of it still finishes its work."""
        name = SOURCE if node is None else node.name
        annotate(error, name, root)
        self.failures.append((name, error))
        self.source.end()
        for upstream in self.nodes:
            if node is None:
                break
            upstream.cancelled = True
            upstream.limit = 0
            self.rubbish += upstream.discard()
            if upstream is node:
                break

    def request_stop(self) -> None:
        """Ask all threads to end. Takes no lock, so it may be called from anywhere at any time."""
        self.stopping = True
        if not self.stopped_at:
            self.stopped_at = perf_counter()
        self._wake_all()

    def failure(self) -> PipelineFailure | None:
        """What the consumer is to be told."""
        return PipelineFailure(self.failures) if self.failures else None

    # ---- threads ----

    def start(self) -> None:
        """Start the workers."""
        from ._worker import serve  # noqa: PLC0415 - the worker's loop knows the engine, not the other way round.

        self.started_at = perf_counter()
        for node in self.nodes:
            node.waiting_since = self.started_at
        if self.source.on_loop or any(node.on_loop for node in self.nodes):
            self.start_lane()
        useful = sum(node.limit for node in self.ranked)
        for number in range(min(self.num_threads, useful) + 1):
            thread = Thread(
                target=serve, args=(self,), name=f"spdl_worker_thread_{self.pipeline_id}_{number}", daemon=True
            )
            self.threads.append(thread)
        for thread in list(self.threads):
            thread.start()

    def start_lane(self) -> Lane:
        """The event loop, started when first needed. Called before the workers start, or with the lock held."""
        from ._lane import Lane  # noqa: PLC0415 - it imports asyncio, half of what importing the package would cost.

        if self.lane is None:
            self.lane = Lane(self)
            self.lane.start()
            # A request to stop takes no lock: it may have looked for a loop before there was one.
            if self.stopping:
                self.lane.stop_or_wake()
        return self.lane

    def is_mine(self) -> bool:
        """Whether the current thread belongs to the engine, or is the consumer inside a critical section."""
        current = current_thread()
        return (
            current in self.threads
            or (self.lane is not None and current is self.lane.thread)
            or get_ident() in self.inside
        )
