"""The state that all threads of a running pipeline share, and the rules that move items through it."""

from __future__ import annotations

import contextlib
import itertools
from threading import Lock, RLock, Thread, current_thread, get_ident
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.policy import MaxFailures, Tally
from spdl.pipeline._failures.failure import PipelineFailure, annotate
from spdl.pipeline._failures.quarantine import Quarantine
from spdl.pipeline._metrics.reporter import Reporter

from .deferred_drops import throw_away
from .epochs import EpochCounts
from .lineage import Lineage, describe
from .sentinel import MARK
from .sink import Sink
from .source import Source
from .timer import Timer

if TYPE_CHECKING:
    from spdl.pipeline._background.task import BackgroundTaskFactory
    from spdl.pipeline._hooks.lifespan import StageLife

    from .event_loop import Lane
    from .lineage import Root
    from .node import Entry, Node

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
        "background",
        "done",
        "ending",
        "epochs",
        "exited",
        "failures",
        "forked",
        "gates",
        "idle",
        "inside",
        "lane",
        "lineage",
        "lives",
        "lock",
        "nodes",
        "num_threads",
        "permits",
        "permitted",
        "pipeline_id",
        "quarantine",
        "ranked",
        "reporter",
        "rubbish",
        "sink",
        "sources",
        "started_at",
        "stopped_at",
        "stopping",
        "tally",
        "threads",
        "timer",
        "waiting",
        "waking",
        "worker_numbers",
        "workers",
        "written_off",
    )

    def __init__(self, pipeline_id: int, num_threads: int, sink_size: int, max_failures: MaxFailures = -1) -> None:
        self.pipeline_id = pipeline_id
        self.num_threads = num_threads
        # Reentrant only because it knows its owner: nobody takes it twice.
        self.lock = RLock()
        self.sink = Sink(sink_size)
        self.lineage = Lineage()
        self.sources: list[Source] = []
        self.nodes: list[Node] = []
        # What workers serve, nearest the sink first.
        self.ranked: list[Node] = []
        # Those of them whose turns run no ops and need no permit.
        self.permitted: list[Node] = []
        # Turns that wait in queues that workers serve, whether ready or not.
        self.waiting = 0
        # How many more synchronous ops may run now.
        self.permits = num_threads
        # The gates of all workers, those of idle ones, and whether one was opened whose worker has not arrived yet.
        self.gates: list[Lock] = []
        self.idle: list[Lock] = []
        self.waking = False
        self.threads: list[Thread] = []
        self.worker_numbers = itertools.count()
        # How many were started, those aside that replace others; 0 before the start.
        self.workers = 0
        # Threads that are still in ops whose items were given up.
        self.written_off = 0
        self.timer = Timer(self)
        # The failures of stages that have no limit of their own.
        self.tally = Tally(max_failures)
        self.quarantine = Quarantine()
        self.reporter = Reporter(self)
        self.epochs = EpochCounts()
        self.lane: Lane | None = None
        # What is wrapped around the lives of stages.
        self.lives: list[StageLife] = []
        # What runs on the event loop beside the stages.
        self.background: list[BackgroundTaskFactory] = []
        self.failures: list[tuple[str, BaseException]] = []
        # What was taken out of queues under the lock and must be dropped without it.
        self.rubbish: list[Any] = []
        # A source has ended, so stages may end as well.
        self.ending = False
        self.stopping = False
        self.done = False
        # Threads of executors that run the engine's code now.
        self.inside: list[int] = []
        # The interpreter's exit has stopped it.
        self.exited = False
        # This is a copy in a forked child; the threads stayed in the parent.
        self.forked = False
        self.started_at = self.stopped_at = 0.0

    def connect(self, sources: list[Source], nodes: list[Node]) -> None:
        """Take over the graph: its sources, and its stages such that each stands behind all that feed it."""
        self.sources = sources
        self.lineage = Lineage(len(sources))
        self.quarantine.sources = len(sources)
        self.nodes = nodes
        self.ranked = [part for node in reversed(nodes) if (part := node.for_workers()) is not None]
        self.permitted = [node for node in self.ranked if not node.on_workers]

    # ---- moving items; all of it is called with the lock held ----

    def arrived(self, node: Node) -> None:
        """Learn that an entry was put into a stage's queue."""
        if not node.on_loop:
            self.waiting += 1
        elif self.lane is not None and node.running < node.limit:
            self.lane.wake()

    def has_work(self, node: Node) -> None:
        """Learn that a turn besides those of its queue waits at a node."""
        if not node.on_loop:
            self.waiting += 1
        elif self.lane is not None:
            self.lane.wake()

    def dequeue(self, node: Node) -> Entry:
        """Take the head of a stage's queue."""
        node.fill += len(node.queue)
        if node.feeders[0].wants_room:
            node.feeders[0].room_made()
        if not node.on_loop:
            self.waiting -= 1
        return node.queue.popleft()

    def made_room(self, feeder: Node | Source) -> None:
        """Learn that an entry of this feeder's was taken."""
        if feeder.wants_room:
            feeder.room_made()

    def emit(self, node: Node, entry: Entry) -> None:
        """Pass a result on."""
        if node.next is None:
            self.sink.put(entry)
        else:
            node.out.append(entry)
            waiting = len(node.out)
            if waiting == 1 or waiting > node.behind.capacity:
                node.behind.filled(waiting, perf_counter())
            self.arrived(node.next)

    def pullable(self) -> Source | None:
        """A source that a worker may pull now; several take turns."""
        sources = self.sources
        if len(sources) == 1:
            return sources[0] if sources[0].pullable() else None
        for index, source in enumerate(sources):
            if source.pullable():
                # The next look begins behind this one.
                self.sources = sources[index + 1 :] + sources[: index + 1]
                return source
        return None

    def room_in_sink(self) -> None:
        """Learn that the consumer made room where somebody had found none."""
        try:
            self.sink.full = False
            self.progressed()
            if self.lane is not None:
                self.lane.wake()
            for source in self.sources:
                self.made_room(source)
            self.sink.caught_up()
        except BaseException:
            # A Ctrl-C, at any point: the next read tells again.
            self.sink.full = True
            raise

    def found_nothing(self) -> None:
        """Learn that a consumer is about to wait."""
        # Without a GIL it may have taken the last entry and looked at the flag before it saw it set.
        if self.sink.full:
            self.room_in_sink()

    def select(self) -> Node | None:
        """The ready stage nearest the sink."""
        for node in self.ranked if self.permits else self.permitted:
            if node.ready():
                return node
        return None

    def progressed(self) -> None:
        """Wake one idle worker if there is work that nobody is on the way to."""
        if not self.idle or self.waking:
            return
        if (self.waiting and self.select() is not None) or any(map(Source.wants_worker, self.sources)):
            self.wake_worker()

    def wake_worker(self) -> None:
        """Open the gate of the worker that became idle last."""
        # A request to stop may have taken or opened it meanwhile.
        with contextlib.suppress(IndexError, RuntimeError):
            self.idle.pop().release()
        # The worker takes the lock before it clears this. A Ctrl-C in between costs no more than a worker too many.
        self.waking = True

    def release_to_user(self) -> None:
        """Release the lock before code of the user's runs, seeing to what is left behind."""
        self.progressed()
        self.lock.release()

    def settle(self) -> None:
        """Pass the end of the input on, stage by stage, as far as they are drained."""
        if not self.ending:
            return
        for node in self.nodes:
            if not node.finished and self._is_finished(node):
                node.finished = True
                if self.lane is not None:
                    # Merges of the user's tell each branch's end.
                    self.lane.wake()
                if node.waiting_since:
                    node.waits[node.waiting_for] += perf_counter() - node.waiting_since
                    node.waiting_since = 0.0
                self.reporter.stage_ended(node)
        if all(node.finished for node in self.nodes) and all(source.finished() for source in self.sources):
            if any(not life.ended for life in self.lives):
                # What is wrapped around the stages' lives may still fail.
                assert self.lane is not None
                self.lane.wake()
            else:
                self.finish()

    def _is_finished(self, node: Node) -> bool:
        if node.cancelled:
            # What still runs there, or rests, is no longer wanted: the consumer is told without waiting for it.
            return True
        for feeder in node.feeders:
            if not (feeder.finished() if isinstance(feeder, Source) else feeder.finished):
                return False
        return node.drained() and node.end_input()

    def concluded(self) -> None:
        """See to what an outcome that no worker carried on leaves behind."""
        if self.ending:
            self.settle()
        if self.idle and not self.waking:
            self.progressed()

    def finish(self) -> None:
        """Note that nothing more will come, and tell everybody."""
        if self.done:
            return
        if (failure := self._total_failure()) is not None:
            self.failures.append((self.nodes[-1].name, failure))
        self.done = True
        self.stopped_at = perf_counter()
        self.timer.end()
        self._wake_all()

    def emit_mark(self, node: Node) -> None:
        """Pass the end of an epoch on."""
        self.epochs.passes(node)
        if node.next is None and (failure := self._total_failure()) is not None:
            self.fail(node, None, failure)
        else:
            self.emit(node, MARK)

    def _total_failure(self) -> RuntimeError | None:
        return None if self.failures else self.epochs.failure(self.nodes, self.quarantine)

    def _wake_all(self) -> None:
        # Each step is atomic and may run in a signal handler or a finalizer, inside a critical section of anyone's.
        self.idle.clear()
        # Of those that were not idle either: an exception of a signal's may have come between taking a gate from that
        # list and opening it.
        for gate in list(self.gates):
            with contextlib.suppress(RuntimeError):
                gate.release()
        while self.sink.readers:
            self.sink.wake_reader()
        lane = self.lane
        if lane is not None:
            lane.stop_or_wake()
        for source in self.sources:
            source.interrupt()

    # ---- failing and stopping ----

    def fail(self, where: Node | Source, root: Root | None, error: BaseException) -> None:
        """End the pipeline because a stage or a source failed: what is downstream of it still finishes its work."""
        origin = None if root is None else describe(self.lineage.locate(root), sources=len(self.sources))
        annotate(error, str(where.info), origin)
        self.failures.append((where.name, error))
        for source in self.sources:
            source.end()
            source.interrupt()
        self.cut_off(where)

    def cut_off(self, where: Node | Source) -> None:
        """Give up a stage and all that is upstream of it. Called with the lock held."""
        pending = [where]
        while pending:
            node = pending.pop()
            if isinstance(node, Source):
                node.unwanted = True
                node.end()
                node.interrupt()
                continue
            if node.cancelled:
                continue
            node.cancelled = True
            node.limit = 0
            self.rubbish += node.discard()
            pending += node.feeders

    def request_stop(self) -> None:
        """Ask all threads to end. Takes no lock, so it may be called from anywhere at any time."""
        self.stopping = True
        if not self.stopped_at:
            self.stopped_at = perf_counter()
        self._wake_all()

    def crash(self, error: BaseException) -> None:
        """End the pipeline because of what no stage can answer for. Returns with the lock held."""
        self.failures.append(("engine", error))
        self.request_stop()
        if not self.holds_lock():
            self.lock.acquire()

    def drop_rubbish(self) -> None:
        """Drop without the lock what was taken out of queues. Called and returns with the lock held."""
        rubbish, self.rubbish = self.rubbish, []
        self.lock.release()
        throw_away(rubbish)
        self.reporter.log()
        self.lock.acquire()

    def failure(self) -> PipelineFailure | None:
        """What the consumer is to be told."""
        return PipelineFailure(self.failures) if self.failures else None

    # ---- threads ----

    def start(self) -> None:
        """Start the threads, and before them what must not be started beside threads."""
        for node in self.nodes:
            node.warm()
        self.started_at = perf_counter()
        for source in self.sources:
            source.behind.got_at = self.started_at
        for node in self.nodes:
            node.behind.got_at = node.waiting_since = self.started_at
        with self.lock:
            self.reporter.begin()
        parts: list[Source | Node] = [*self.sources, *self.nodes]
        if self.background or any(part.on_loop for part in parts):
            self.start_lane()
        if self.lives:
            # The event loop starts the rest, once the context managers around the stages' lives are entered.
            self.start_lane()
        else:
            self.start_workers()

    def start_workers(self) -> None:
        """Start the threads that work, the event loop's aside."""
        with self.lock:
            threads = self._add_workers()
            threads += [source.dedicated.thread for source in self.sources if source.dedicated is not None]
            self.threads += threads
        for thread in threads:
            thread.start()

    def _add_workers(self) -> list[Thread]:
        """Make those workers that the stages have use for and that are not there. Called with the lock held."""
        useful = sum(node.limit for node in self.ranked)
        # Each source may block, so each has a worker that counts as none of the ops'.
        pullers = sum(not (source.on_loop or source.dedicated) for source in self.sources)
        ops = sum(node.limit for node in self.ranked if node.on_workers)
        # Where ops may keep all the others, what has come out elsewhere must not wait for one of them to end.
        spare = ops >= self.num_threads and bool(self.permitted)
        missing = min(self.num_threads, useful) + max(1, pullers) + spare - self.workers
        if missing <= 0:
            return []
        self.workers += missing
        return [self._new_worker() for _ in range(missing)]

    def _new_worker(self) -> Thread:
        from .worker import serve  # noqa: PLC0415 - the worker's loop knows the engine, not the other way round.

        name = f"spdl_worker_thread_{self.pipeline_id}_{next(self.worker_numbers)}"
        return Thread(target=serve, args=(self,), name=name, daemon=True)

    def replace_worker(self, node: Node, root: Root | None, stack: str) -> None:
        """Leave a worker to an op that takes too long, and start another. Called with the lock held."""
        self.written_off += 1
        # Also for the last one: what is downstream of a failure still has work to do.
        self.permits += 1
        worker = self._new_worker()
        self.threads.append(worker)
        worker.start()
        if self.written_off > 2 * self.num_threads:
            error = RuntimeError(
                f"{self.written_off} ops that were written off still run, which is more than twice the number of "
                f"threads. The last one is in stage {node.name!r}.{stack}"
            )
            self.fail(node, root, error)

    def set_limit(self, node: Node, limit: int) -> None:
        """Change how many items a stage may work on at once. Called with the lock held."""
        if node.cancelled or node.finished or self.stopping or self.done:
            return
        node.room += limit - node.limit
        node.limit = node.slots = limit
        served = node.for_workers()
        if served is not None:
            served.limit = limit
            if served.on_workers and limit > self.num_threads:
                self.permits += limit - self.num_threads
                self.num_threads = limit
        if self.workers:
            added = self._add_workers()
            self.threads += added
            for thread in added:
                thread.start()
        if node.on_loop and self.lane is not None:
            self.lane.wake()
        self.progressed()

    def start_lane(self) -> Lane:
        """The event loop, started when first needed. Called before the workers start, or with the lock held."""
        from .event_loop import Lane  # noqa: PLC0415 - it imports asyncio, half of what importing the package would cost.

        if self.lane is None:
            self.lane = Lane(self)
            self.lane.start()
            # A request to stop takes no lock: it may have looked for a loop before there was one.
            if self.stopping:
                self.lane.stop_or_wake()
        return self.lane

    def await_executors(self, deadline: float) -> int:
        """Wait for what runs in executors; returns how many ops still do at the deadline (of `time.monotonic`)."""
        return sum(node.await_calls(deadline - monotonic()) for node in self.nodes)

    def all_threads(self) -> list[Thread]:
        """Every thread that was made for this engine."""
        lane = [] if self.lane is None else [self.lane.thread]
        return [*self.threads, self.timer.thread, *lane]

    def holds_lock(self) -> bool:
        """Whether the current thread is in a critical section, which a finalizer or a signal handler may interrupt."""
        owned: bool = self.lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001 - as `threading.Condition`.
        return owned

    def is_over(self) -> bool:
        """Whether nothing more is wanted of ops."""
        return self.stopping or self.done

    def is_mine(self) -> bool:
        """Whether the current thread belongs to the engine, or runs its code now."""
        return self.holds_lock() or get_ident() in self.inside or current_thread() in self.all_threads()
