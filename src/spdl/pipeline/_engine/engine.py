"""The scheduler: the state that all threads of a running pipeline share, and the rules that move items through it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, NoReturn

from spdl.pipeline._declare.op import ItemContext
from spdl.pipeline._declare.records import MaxFailures, OnFailure
from spdl.pipeline._engine.budget import Budget
from spdl.pipeline._engine.channel import MARK, Entry, Sink
from spdl.pipeline._engine.letting_go import DeferredDrops, LettingGo, drop_all
from spdl.pipeline._engine.node import Attempt, Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._engine.workers import EventLoop, Timer, Workers
from spdl.pipeline._report.counters import StoresMeanwhile
from spdl.pipeline._report.failures import EpochCounts, FailureCollector, report_failed_item
from spdl.pipeline._report.page import COLUMNS, LoaderArguments, Page
from spdl.pipeline._report.perf_stats import Reporter
from spdl.pipeline._report.statistics import PageHead
from spdl.pipeline._state.lineage import Lineage
from spdl.pipeline._state.origins import Root, without_context
from spdl.pipeline._world import RLock, Thread, current_thread, get_ident, perf_counter


class Engine:
    """Nodes, source and sink of one pipeline, and the lock that guards them.

    The rules, each found by measuring what goes wrong without it:

    * A free worker takes the ready work nearest the sink, and carries the item on from stage to stage.
    * Nobody overtakes: an item enters a stage through its queue unless that queue is empty.
    * A thread that leaves ready work undone wakes one idle worker, unless one is already on its way; the woken one
      does the same. So there are never more workers awake than there is work.
    * The right to pull the source is a token.
    """

    __slots__ = (
        "__weakref__",
        "_locate",
        "_make_event_loop",
        "_page_is_due",
        "budget",
        "done",
        "drops",
        "ending",
        "epochs",
        "event_loop",
        "exited",
        "failures",
        "forked",
        "head",
        "inside",
        "letting_go",
        "lineage",
        "loader",
        "lock",
        "needs_event_loop",
        "nodes",
        "out_of_order_before",
        "page",
        "permit_free",
        "pipeline_id",
        "pullable",
        "ranked",
        "reporter",
        "resumed",
        "sink",
        "sources",
        "started_at",
        "stopped_at",
        "stopping",
        "stores",
        "timer",
        "uneven",
        "waiting",
        "workers",
    )

    def __init__(
        self,
        pipeline_id: int,
        num_threads: int,
        sink_capacity: int,
        max_failures: MaxFailures,
        num_sources: int,
        *,
        serve: Callable[[Engine], None],
        make_event_loop: Callable[[Engine], EventLoop],
    ) -> None:
        self.pipeline_id = pipeline_id
        # Reentrant only so that it knows its owner: no thread takes it twice.
        self.lock = RLock()
        self.sink = Sink(sink_capacity)
        self.lineage = Lineage(num_sources)
        self.budget: Budget | None = None
        self.sources: list[Source] = []
        # Returns a source that a worker may pull now.
        self.pullable: Callable[[], Source | None] = self._pullable_in_turns
        # Locates the sources' items, if another part knows their origins.
        self._locate: Callable[[int], ItemContext] | None = None
        self.nodes: list[Node] = []
        # The nodes that workers serve, nearest the sink first, and those among them whose turns run no ops and need no
        # permit.
        self.ranked: list[Node] = []
        self.permit_free: list[Node] = []
        # Turns that wait in queues that workers serve, whether ready or not.
        self.waiting = 0
        self.workers = Workers(f"spdl_worker_thread_{pipeline_id}", num_threads, partial(serve, self))
        # Objects taken out of queues under the lock, to be dropped without it.
        self.drops = DeferredDrops()
        self.letting_go = LettingGo(
            self.lock, self.drops, needed=lambda: not self.is_over() or any(node.awaits_calls() for node in self.nodes)
        )
        self.timer = Timer(self)
        self.failures = FailureCollector(max_failures)
        self.reporter = Reporter(self.lock, self.timer.after)
        self.epochs = EpochCounts()
        self.resumed = False
        # An earlier run had begun the epochs below this number, and did not keep their order.
        self.out_of_order_before = 0
        # The stage that changed the number of items in an earlier run, if there is one.
        self.uneven: str | None = None
        self.page = Page(COLUMNS)
        self.loader: LoaderArguments | None = None
        # The page's unchanging part, once it was asked for, and whether a page should be made.
        self.head: PageHead | None = None
        self._page_is_due = False
        self._make_event_loop = make_event_loop
        # From the start.
        self.needs_event_loop = False
        self.event_loop: EventLoop | None = None
        # The threads of executors that run the engine's code now.
        self.inside: list[int] = []
        # Whether the interpreter's exit has stopped the engine, or no longer waits for its threads.
        self.exited = False
        # This is a copy in a forked child; the threads stayed in the parent.
        self.forked = False
        self.started_at = 0.0
        self.stopped_at = 0.0
        # A source has ended, so stages may end as well.
        self.ending = False
        self.stopping = False
        self.done = False
        self.stores = StoresMeanwhile()

    def connect(self, sources: list[Source], nodes: list[Node], *, needs_event_loop: bool) -> None:
        """Take over the graph: the stages, each after all that feed it, and whether the event loop has more to do."""
        self.sources = sources
        if len(sources) == 1:
            self.pullable = sources[0].pullable
        self.needs_event_loop = (
            needs_event_loop or any(source.on_loop for source in sources) or any(node.on_loop for node in nodes)
        )
        self.nodes = nodes
        for column, source in enumerate(sources, COLUMNS):
            source.take_column(column)
        for column, node in enumerate(nodes, COLUMNS + len(sources)):
            for each in {node, node.for_workers() or node}:
                each.take_column(column)
        self.show(Page(COLUMNS + len(sources) + len(nodes)))
        self.ranked = [part for node in reversed(nodes) if (part := node.for_workers()) is not None]
        self.permit_free = [node for node in self.ranked if not node.on_workers]
        self.letting_go.add(*sources, *nodes, self)

    def bound_bytes(self, budget: Budget) -> None:
        """Bound the bytes that items in flight keep. Called before anything runs, and after `connect`."""
        self.budget = budget
        self.lineage.tell_of_drops(budget.forget)
        budget.connect()
        for node in self.nodes:
            node.count_bytes()

    def is_run_by(self, loader: LoaderArguments) -> None:
        self.loader = loader

    def describe(self, head: PageHead, *, shown: bool = False) -> None:
        """Note the unchanging part of the page, and, before the workers start, whether other processes may see it."""
        self.head = head
        self._page_is_due = shown

    def take_description(self) -> PageHead | None:
        """Return that part once, to make the page from it. Called with the lock held."""
        due, self._page_is_due = self._page_is_due, False
        return self.head if due and not self.is_over() else None

    def show(self, page: Page) -> None:
        """Write to a page from now on. Called with the lock held, once anything runs."""
        page.consumer_waits(self.page.consumer_waits_since())
        self.page = page

    # ---- moving items; all of it is called with the lock held ----

    def arrived(self, node: Node) -> None:
        """Count an entry that was put into a stage's queue."""
        if not node.on_loop:
            self.waiting += 1
        elif self.event_loop is not None and node.running < node.concurrency:
            self.event_loop.wake()

    def has_work(self, node: Node) -> None:
        """Count a turn that waits at a node, apart from the items in its queue."""
        if not node.on_loop:
            self.waiting += 1
        elif self.event_loop is not None:
            self.event_loop.wake()

    def add_turns(self, count: int = 1) -> None:
        # The calling thread makes sure that a worker looks.
        self.waiting += count

    def remove_turns(self, count: int = 1) -> None:
        """Count turns that are taken, or that need not be taken any more."""
        self.waiting -= count

    def made_room(self, feeder: Node | Source) -> None:
        """Tell a feeder that waits for room that one of its entries was taken."""
        if feeder.wants_room:
            feeder.room_made()

    def emit(self, node: Node, entry: Entry) -> None:
        """Pass a result on.

        The caller has looked at ``stopping`` since it took the lock. A reader takes the lock to see the end, as `stop`
        does to wait for it: so nothing comes into the sink after either.
        """
        node.output.put(entry)
        if node.next is not None:
            self.arrived(node.next)

    def _pullable_in_turns(self) -> Source | None:
        sources = self.sources
        for index, source in enumerate(sources):
            if source.pullable():
                # The next look begins after this one.
                self.sources = sources[index + 1 :] + sources[: index + 1]
                return source
        return None

    def room_in_sink(self) -> None:
        """Tell all threads that the consumer made room that a thread had waited for."""
        try:
            self.sink.set_full(full=False)
            self.progressed()
            if self.page.sleeper is not None and not self.workers.waking:
                # The woken worker updates the page. A worker that is on its way here does so anyway.
                self.workers.wake(self.page.sleeper)
            if self.event_loop is not None:
                self.event_loop.wake()
            for source in self.sources:
                self.made_room(source)
            self.sink.caught_up()
        except BaseException:
            # A Ctrl-C, at any point: the next read tells again.
            self.sink.set_full(full=True)
            raise

    def found_nothing(self) -> None:
        """Called when a consumer is about to wait."""
        # Without a GIL the consumer may have taken the last entry and looked at the flag before it was set.
        if self.sink.full:
            self.room_in_sink()

    def select(self) -> Node | None:
        """Return the ready stage nearest the sink."""
        for node in self.ranked if self.workers.permits > 0 else self.permit_free:
            if node.ready():
                return node
        return None

    def progressed(self) -> None:
        """Wake one idle worker if there is work that no thread is on the way to."""
        workers = self.workers
        if not workers.idle or workers.waking:
            return
        if (self.waiting and self.select() is not None) or any(map(Source.wants_worker, self.sources)):
            workers.wake_one()

    def release_to_user(self) -> None:
        self.progressed()
        self.lock.release()

    def emit_mark(self, node: Node) -> None:
        self.epochs.passes(node.counters)
        if node.next is None and (found := self.failure_at_end()) is not None:
            where, failure = found
            # Nothing of a later epoch may follow in the place of the mark.
            self.fail(where, None, failure, cut_off=node)
        elif node.next is None:
            self.sink.put_mark()
        else:
            self.emit(node, MARK)

    def drop_deferred(self) -> None:
        """Drop objects that were taken out of queues, without the lock. Called and returns with the lock held."""
        dropped = self.drops.take()
        self.lock.release()
        drop_all(dropped)
        self.reporter.log()
        self.lock.acquire()

    @property
    def epochs_read(self) -> int:
        return self.sink.epochs_read()

    def has_pulled(self) -> bool:
        """Return whether anything has come, in this run or in an earlier one. Needs no lock."""
        # A user's merge may make new items.
        made = self.nodes and self.nodes[-1].counters.emitted
        return bool(self.resumed or made or any(source.counters.emitted for source in self.sources))

    def drops_everything(self) -> Node | None:
        """Return a stage whose results were all None, if nothing has come out because of that. Needs no lock."""
        if self.resumed or not self.nodes or self.nodes[-1].counters.emitted:
            return None
        return next((node for node in self.nodes if node.counters.dropped and not node.counters.emitted), None)

    def locate_by(self, locate: Callable[[int], ItemContext]) -> None:
        """Let another part say where the sources' items come from. Called before anything runs."""
        self._locate = locate

    def locate_item(self, root: int) -> ItemContext:
        """Return the context of a source's item that is in flight. Needs no lock."""
        if self._locate is not None:
            return self._locate(root)
        position, number = divmod(root, self.lineage.sources)
        source = next(source for source in self.sources if source.index == number)
        epoch, place = source.locate(position)
        return ItemContext(epoch, place, source.index_of(root, place), number)

    def number_epochs(self, first: int, *, resumed: bool) -> None:
        """Number the epochs from another number on. Called before the start."""
        self.sink.number_epochs(first)
        self.resumed = resumed
        for source in self.sources:
            source.passes.restore([], first)

    def resume(self, epochs_read: int, *, out_of_order_before: int = 0) -> None:
        """Continue an earlier run, which may have delivered some items of the first epoch.

        It had not kept the order of the epochs below ``out_of_order_before``.
        """
        self.sink.number_epochs(epochs_read)
        self.out_of_order_before = out_of_order_before
        self.resumed = True
        begun = [sum(each.epoch >= epochs_read for each in source.passes.known()[0]) for source in self.sources]
        self.epochs.resume(max(1, *begun))
        if (restored := self.lineage.restored) is not None and restored.batches:
            for node in self.nodes:
                node.regroup(restored)

    def note_uneven(self, stage: str | None) -> None:
        """Note which stage changed the number of items in an earlier run, if one did."""
        self.uneven = stage

    # ---- the end of the input ----

    def concluded(self) -> None:
        """Wake those that may continue after an outcome that no worker carried on."""
        if self.budget is not None:
            self.budget.freed()
        if self.ending:
            self.settle()
        self.begun()

    def begun(self) -> None:
        """Wake a worker that may continue, or that writes the page, after something that no worker did."""
        if self.workers.idle and not self.workers.waking:
            if self.page.due < inf and (not self.page.flushing or self.page.sleeper is not None):
                # The woken worker updates the page, before it is idle again or when an update is due.
                self.workers.wake_one()
            else:
                self.progressed()

    # ---- failing and stopping ----

    def report(
        self, node: Node, attempt: Attempt, error: Exception, count: int, callback: OnFailure | None = None
    ) -> None:
        """Record and log an item that its stage gives up, the ``count``-th, and tell the user. Called without lock."""
        if self.failures.teller is not None:
            self.failures.teller(node, attempt, error)
            return
        lineage, root = self.lineage, attempt.root
        item = self.failures.quarantine.add(
            node.name,
            lineage.locate(root),
            lineage.describe(root),
            item=without_context(attempt.item),
            error=error,
            attempts=attempt.number,
        )
        report_failed_item(item, error, count, callback)

    def mark_exited(self) -> None:
        self.exited = True

    def mark_forked(self) -> None:
        """Note that this is a copy in a forked child. The parent delivers the items."""
        self.forked = True
        # It is the parent's.
        self.show(Page(COLUMNS + len(self.sources) + len(self.nodes)))
        self.sink.entries.clear()
        # User code in one of its threads has forked. If that code returns, the thread ends the process.
        if self.is_mine():
            self.stopping = True
        # Another thread that held the lock does not exist here.
        if not self.holds_lock():
            self.lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as `threading` does with its own.

    # ---- threads ----

    def begin(self, now: float) -> None:
        self.started_at = now
        self.stores.begin()
        for source in self.sources:
            source.begin(now)
        for node in self.nodes:
            node.begin(now)
        with self.lock:
            self.reporter.begin(now)

    def replace_worker(self, node: Node, root: Root | None, stack: str) -> None:
        """Abandon a worker whose op takes too long, and start another one. Called with the lock held."""
        self.workers.replace()
        abandoned = self.workers.abandoned
        if abandoned > 2 * self.workers.num_threads:
            error = RuntimeError(
                f"{abandoned} ops that were abandoned still run, which is more than twice the number of threads. The "
                f"last one is in stage {node.name!r}.{stack}"
            )
            self.fail(node, root, error)

    def start_event_loop(self) -> EventLoop:
        """Return the event loop, started when first needed. Called with the lock held, and not after a stop."""
        if self.event_loop is None:
            self.event_loop = self._make_event_loop(self)
            self.event_loop.start()
            self.letting_go.thread_begins()
            # A request to stop takes no lock: it may have come before there was a loop.
            if self.stopping:
                self.event_loop.stop_or_wake()
        return self.event_loop

    def let_go(self) -> list[Any]:
        """Forget the function that makes the event loop: it holds the user's hooks and background tasks."""
        self._make_event_loop = _make_none
        return []

    def all_threads(self) -> list[Thread]:
        event_loop = [] if self.event_loop is None else [self.event_loop.thread]
        return [*self.workers.threads, self.timer.thread, *event_loop]

    def is_over(self) -> bool:
        """Return whether nothing more is wanted of ops."""
        return self.stopping or self.done

    def is_mine(self) -> bool:
        """Return whether the current thread belongs to the engine, or runs its code now."""
        if self.holds_lock() or get_ident() in self.inside or current_thread() in self.all_threads():
            return True
        return any(inner.is_mine() for node in self.nodes for inner in node.engines_inside())

    # ---- the end ----

    def input_ends(self) -> None:
        """Note that a source has ended, so that stages may end as well. Called with the lock held."""
        self.ending = True
        if self.event_loop is not None:
            self.event_loop.wake()

    def settle(self) -> None:
        """Pass the end of the input on from stage to stage while they are drained."""
        if not self.ending:
            return
        for node in self.nodes:
            if not node.finished and self._is_finished(node):
                node.finish_stage(perf_counter())
                if self.event_loop is not None:
                    # Users' merges tell each branch's end.
                    self.event_loop.wake()
                self.reporter.stage_ended(node.counters)
        if all(node.finished for node in self.nodes) and all(source.is_finished() for source in self.sources):
            if self.event_loop is not None and not self.event_loop.has_left():
                # The context managers around the stages may still fail.
                self.event_loop.wake()
            else:
                self.finish()

    def _is_finished(self, node: Node) -> bool:
        if node.cancelled:
            # Items that still run in stages, or are parked, are not wanted: the consumer need not wait for them.
            return True
        return all(feeder.is_finished() for feeder in node.feeders) and node.drained() and node.end_input()

    def finish(self) -> None:
        if self.done:
            return
        if (found := self.failure_at_end()) is not None:
            where, failure = found
            self.failures.add(where.name, failure)
        self.done = True
        self.stopped_at = perf_counter()
        self.stores.end()
        self.page.remove()
        self.timer.end()
        self._wake_all()

    def failure_at_end(self) -> tuple[Node, RuntimeError] | None:
        """Return the failure of the pipeline at the end of the input or of an epoch, and its place, if there is one."""
        # After a request to stop the rest of the items is missing, which is not a failure.
        if self.failures or self.stopping:
            return None
        stages = [(node.name, node.counters) for node in self.nodes]
        if (failure := self.epochs.failure(stages, self.failures.quarantine)) is not None:
            return self.nodes[-1], failure
        # A share of failures is looked at when an item fails, but only later may enough have been tried to judge by.
        for tally in dict.fromkeys(node.tally for node in self.nodes if node.tally is not None):
            if (verdict := tally.verdict()) is not None:
                worst = max((node for node in self.nodes if node.tally is tally), key=lambda node: node.counters.failed)
                return worst, worst.excess_of_failures(verdict)
        return None

    def fail(
        self, where: Node | Source, root: Root | None, error: BaseException, *, cut_off: Node | Source | None = None
    ) -> None:
        """End the pipeline because a part failed, on an item if it has a root: what is downstream finishes its work.

        ``cut_off`` is the last part that is given up, if it is not the one that failed.
        """
        origin = None if root is None else partial(self.lineage.describe, root)
        self.failures.add_stage(where.name, where.info, origin, error)
        for source in self.sources:
            source.end()
            source.interrupt()
        self.cut_off(cut_off or where)

    def cut_off(self, where: Node | Source) -> None:
        """Give up a stage and all that is upstream of it. Called with the lock held."""
        pending: list[Node | Source] = [where]
        while pending:
            part = pending.pop()
            if part.give_up_work():
                pending += part.feeders

    def request_stop(self) -> None:
        """Ask all threads to end. Takes no lock, so it may be called from anywhere at any time."""
        self.stopping = True
        if not self.stopped_at:
            self.stopped_at = perf_counter()
            self.stores.end()
        self._wake_all()

    def _wake_all(self) -> None:
        # Each step is atomic and may run in a signal handler or a finalizer, inside a critical section of anyone's.
        self.workers.wake_all()
        self.sink.wake_readers()
        event_loop = self.event_loop
        if event_loop is not None:
            event_loop.stop_or_wake()
        for source in self.sources:
            source.interrupt()
        for node in self.nodes:
            node.interrupt()

    def crash(self, error: BaseException) -> None:
        """End the pipeline because of a fault that no stage can answer for. Returns with the lock held."""
        self.failures.add("engine", error)
        self.request_stop()
        if not self.holds_lock():
            self.lock.acquire()

    def holds_lock(self) -> bool:
        """Return whether the current thread is in a critical section, as finalizers and signal handlers may be."""
        owned: bool = self.lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001 - as `threading.Condition`.
        return owned


def _make_none(_: Engine) -> NoReturn:
    raise AssertionError("An event loop was wanted after the end.")
