"""The nodes of a region, and its workers' start and end: one thread listens to all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import ceil, inf
from select import POLLIN, poll
from typing import Any

from spdl._cores import available_cores
from spdl._locate import callers_line
from spdl.pipeline._declare.op import LeftOpen
from spdl.pipeline._declare.placement import ExecutorConfig, ProcessPoolExecutorConfig, Region
from spdl.pipeline._declare.records import (
    OnFailure,
    PipeConfig,
    StageConfig,
    any_asks_for_context,
    every_stage,
    replace_stages,
)
from spdl.pipeline._elsewhere.lane import ChannelClosed, PeerGone
from spdl.pipeline._elsewhere.memory import Counter
from spdl.pipeline._elsewhere.region_node import Peer, RegionNode
from spdl.pipeline._elsewhere.region_workers import kind_of_workers
from spdl.pipeline._elsewhere.worker_messages import Job
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.lifetime import end_forked_child
from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._engine.worker import publish
from spdl.pipeline._report.failures import Tally
from spdl.pipeline._report.sample import Extract, MirroredCounters
from spdl.pipeline._report.threads import name_this_thread, region_thread_name
from spdl.pipeline._stages.aggregate import GatheringNode
from spdl.pipeline._world import Thread, perf_counter


class MirrorNode(Node):
    """Runs nothing: its counters are the sums of the workers' counters. ``pattern`` is the stage as it would run."""

    counters: MirroredCounters

    __slots__ = (
        "_in_use",
        "_inexact",
        "_keeps_order",
        "_region",
        "adjustable",
        "copies",
        "has_tasks",
        "on_threads_of_copies",
        "place",
        "policy",
    )

    def __init__(self, engine: Engine, pattern: Node, place: int, workers: int) -> None:
        super().__init__(engine, pattern.name, pattern.op, pattern.concurrency * workers)
        # Multiplying loses the mark that the user left the number open.
        self.left_open = pattern.left_open
        self.overtaking = pattern.overtaking
        self.counters = MirroredCounters()
        self.identify(pattern.info)
        self.order = pattern.order
        self.adjustable = pattern.adjustable
        self.has_tasks = pattern.has_tasks
        self.place = place
        self.copies = workers
        served = pattern.for_workers()
        self.on_threads_of_copies = served is not None and served.on_workers
        self.policy = getattr(pattern, "policy", None)
        self._keeps_order = pattern.keeps_order()
        self._inexact = pattern.inexact_elsewhere()
        # How many slots are in use, by the workers' reports.
        self._in_use = 0
        self._region: RegionNode | None = None
        if pattern.tally is not None:
            own = self.policy is not None and self.policy.max_failures is not None
            self.tally = Tally(pattern.tally.limit) if own else engine.failures.tally
            self.tally.add(self.counters)

    def connect(self, feeders: list[Node | Source], region: RegionNode) -> None:
        self.feeders = feeders
        self._region = region

    def on_failure(self) -> OnFailure | None:
        return None if self.policy is None else self.policy.on_failure

    def keeps_order(self) -> bool:
        if self._region is not None and self._region.order is not None:
            # A result that overtakes others in here waits at the region's end.
            return self._keeps_order
        return self._keeps_order and super().keeps_order()

    def inexact(self) -> str | None:
        # Its counters arrive late.
        lineage = self.engine.lineage
        return self._inexact if any(map(lineage.next_position, range(lineage.sources))) else None

    def for_workers(self) -> Node | None:
        return None

    def ready(self) -> bool:
        return False

    def drained(self) -> bool:
        return True

    def set_concurrency(self, concurrency: int) -> None:
        each = -(-concurrency // self.copies)
        self.concurrency = each * self.copies
        if each > 1:
            self.may_overtake()
        if self._region is not None:
            self._region.limits[self.place] = each

    def num_processes(self) -> int:
        return 0 if self._region is None else self._region.num_processes()

    def num_copies(self) -> int:
        return self.copies

    def slots_in_use(self) -> int:
        return self._in_use

    def add(self, told: Extract, before: Extract | None) -> None:
        self.counters.add(told, before)
        self._in_use += told.running - (0 if before is None else before.running)

    def is_outdated(self, told: Extract) -> bool:
        """Return whether a worker uses all its slots, and does not know yet that their number has changed."""
        return told.running >= told.slots != self.concurrency // self.copies

    def forget(self, told: Extract) -> None:
        self._in_use -= told.running

    def let_go(self) -> list[Any]:
        policy, self.policy = self.policy, None
        return [*super().let_go(), policy]


# If the pipeline is tuned, the workers report their counts at this interval in seconds, or more if there are many.
_OFTEN = 0.05
_SECONDS_FOR_EACH = 0.002

# Seconds that a worker has to end if its time has passed while the region waited for others.
_LEAST_GRACE = 0.001


class Staff:
    """The workers of one region. It ``reruns`` the items of a worker that has died, if it should."""

    def __init__(self, config: ExecutorConfig, job: Job, most: int) -> None:
        self.most = most
        self.size = config.max_workers or max(1, ceil(available_cores()))
        self.is_here = not isinstance(config, ProcessPoolExecutorConfig)
        self.reruns = isinstance(config, ProcessPoolExecutorConfig) and config.on_death == "rerun"
        self.peers: list[Peer] = []
        self._kind = kind_of_workers(config)
        self._job: Job | None = job
        self._region: RegionNode | None = None
        self._thread: Thread | None = None
        self._made = 0
        # The peers with messages that may have been read but not received.
        self._unread: set[Peer] = set()
        # Whether a message has come since the page was written.
        self._unpublished = False
        # Wakes the thread.
        self._bell: Counter | None = None

    # ---- the start ----

    def start(self, region: RegionNode) -> None:
        """Start the workers, or raise as `WorkerKind.prepare`. They begin by themselves; no thread waits for them."""
        assert self._job is not None
        self._kind.prepare(region.name, self._job)
        self._region = region
        self._bell = Counter()
        for _ in range(self.size):
            self._add(self._make())
        self._thread = Thread(target=self._run, name=f"spdl_region_thread_{region.engine.pipeline_id}", daemon=True)

    def _make(self) -> Peer:
        peer = Peer(self._kind.start(self._made), self._made, self.most)
        self._made += 1
        return peer

    def _add(self, peer: Peer) -> None:
        self.peers = [*(it for it in self.peers if not it.gone), peer]

    def threads(self) -> list[Thread]:
        return [] if self._thread is None else [self._thread]

    def engines(self) -> list[Engine]:
        return [engine for peer in self.peers for engine in peer.worker.engines()]

    def tell_often(self, stages: int) -> None:
        """Make the workers report the counts of their stages and their CPU time often. Called before the start.

        Booking one stage's counts takes some 50 microseconds, with the lock held.
        """
        assert self._job is not None
        every = min(self._job.tell_every, max(_OFTEN, _SECONDS_FOR_EACH * stages * self.size))
        self._job = self._job._replace(tell_every=every, tells_load=True)

    def wake(self) -> None:
        """Make the thread look again. Takes no lock, and may be called from anywhere at any time."""
        if self._bell is not None:
            with suppress(OSError):
                self._bell.add(1)

    def let_go(self) -> list[Any]:
        """Return the user's objects, and forget them. If the thread was never started, the workers end here."""
        held: list[Any] = [self._job, *self._kind.let_go()]
        self._job = None
        if self._thread is not None and self._thread.ident is not None:
            # The thread may not have begun although all others have ended. It ends the workers, and waits for them.
            return held
        for peer in self.peers:
            if not peer.gone:
                peer.worker.end(grace=0.0)
                held += peer.mark_gone()
        self._close_bell()
        return held

    def _close_bell(self) -> None:
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.close()

    # ---- the thread ----

    def _run(self) -> None:
        region = self._region
        assert region is not None
        engine = region.engine
        name_this_thread(region_thread_name(engine.pipeline_id, region.column))
        with engine.lock:
            engine.letting_go.thread_begins()
        try:
            self._listen(region)
        except BaseException as error:  # noqa: BLE001 - the consumer must get an error instead of waiting forever.
            engine.crash(error)
            engine.lock.release()
        if engine.forked:
            end_forked_child(engine)
        self._end_all(region)
        engine.lock.acquire()
        engine.concluded()
        engine.letting_go.thread_ends()

    def _listen(self, region: RegionNode) -> None:
        engine = region.engine
        while True:
            if region.cancelled or engine.stopping:
                return
            left = [peer for peer in self.peers if not peer.gone]
            if not left:
                return
            # Looked at only once: a thread that makes room in the meantime wakes this one.
            listened = [peer for peer in left if not peer.paused]
            # More messages of a worker may have been read than found room. No descriptor shows that.
            unread = [peer for peer in listened if peer in self._unread]
            dead = self._receive_all(region, unread or self._await(engine, listened))
            if dead:
                # The others' messages are read before the items of the dead are dealt out again: one of the others may
                # have begun, and so get them in place of a process that begins only now.
                dead += self._receive_all(region, [peer for peer in listened if peer not in dead])
            for peer in dead:
                self._bury(region, peer)

    def _await(self, engine: Engine, peers: list[Peer]) -> list[Peer]:
        bell = self._bell
        assert bell is not None
        signs = poll()
        signs.register(bell.fd, POLLIN)
        owners: dict[int, Peer] = {}
        for peer in peers:
            for descriptor in peer.channel.descriptors():
                signs.register(descriptor, POLLIN)
                owners[descriptor] = peer
        until_due = None
        if self._unpublished and engine.page.due < inf:
            until_due = ceil(max(0.0, engine.page.due - perf_counter()) * 1000)
        ready = [descriptor for descriptor, _ in signs.poll(until_due)]
        if not ready:
            with engine.lock:
                self._publish(engine)
        bell.take()
        return list(dict.fromkeys(owners[descriptor] for descriptor in ready if descriptor in owners))

    def _receive_all(self, region: RegionNode, peers: list[Peer]) -> list[Peer]:
        """Receive what workers have sent, and return those that have ended."""
        return [peer for peer in peers if not self._receive(region, peer)]

    def _receive(self, region: RegionNode, peer: Peer) -> bool:
        """Receive all that a worker has sent, until it finds no room. Return False if it has ended."""
        engine = region.engine
        self._unread.discard(peer)
        while not (region.cancelled or engine.stopping):
            if peer.paused:
                self._unread.add(peer)
                break
            try:
                report, *values = peer.channel.receive(0)
            except TimeoutError:
                break
            except (PeerGone, ChannelClosed):
                return False
            with engine.lock:
                region.received(peer, report, values)
                del values, report
                region.dealer.send_more()
                if engine.ending:
                    engine.settle()
                self._unpublished = True
                self._publish(engine)
                engine.progressed()
                if engine.drops:
                    engine.drop_deferred()
        return True

    def _publish(self, engine: Engine) -> None:
        """Write the page, if that is due. Waking an idle worker to do it would take longer."""
        now = perf_counter()
        if now >= engine.page.due:
            publish(engine)
            self._unpublished = False

    def _bury(self, region: RegionNode, peer: Peer) -> None:
        engine = region.engine
        with engine.lock:
            peer.part()
        how = peer.worker.end(peer.grace())
        with engine.lock:
            replaced = region.lost(peer, how)
        if replaced:
            self._replace(region)
        with engine.lock:
            engine.concluded()
            if engine.drops:
                engine.drop_deferred()

    def _replace(self, region: RegionNode) -> None:
        # The others work in the meantime, and the input may end.
        try:
            peer = self._make()
        except Exception as error:  # noqa: BLE001 - whatever the system refuses.
            with region.engine.lock:
                region.not_replaced(error)
            return
        with region.engine.lock:
            wanted = not region.end_told
            if wanted:
                self._add(peer)
        if not wanted:
            # It would not get the end from the node. Nor does it get time, which would hold up the others' messages.
            peer.worker.end(grace=0.0)

    def _end_all(self, region: RegionNode) -> None:
        left = [peer for peer in self.peers if not peer.gone]
        with region.engine.lock:
            for peer in left:
                peer.part()
        for peer in left:
            peer.worker.close()
        begin = perf_counter()
        for peer in left:
            # All of them together have as long as one. With no time at all, threads would not be waited for either.
            peer.worker.end(max(_LEAST_GRACE, begin + peer.grace() - perf_counter()))
        with region.engine.lock:
            for peer in left:
                region.engine.drops.extend(peer.mark_gone())
        self._close_bell()


# A region's name has this many names of stages.
_NAMED = 3

# By default, at most this many items or results cross at once.
_MOST = 64


def make_region(
    engine: Engine,
    region: Region,
    patterns: Sequence[Node],
    instrumentation: tuple[tuple[Any, Any, float], tuple[list[Any], list[Any]]],
    first_id: int,
) -> RegionNode:
    """Return the node of a region. ``patterns`` are its stages as they would run here, and the first has ``first_id``.

    Raises a ValueError if the stages cannot run in that many workers.
    """
    workers = region.workers()
    given, chosen = instrumentation
    gathers = [pattern.name for pattern in patterns if isinstance(pattern, GatheringNode)]
    ordered = all(pattern.keeps_order() for pattern in patterns) and any(
        isinstance(stage, PipeConfig) and stage.output_order == "input" for stage in every_stage(region.stages)
    )
    job = Job(
        stages=replace_stages(region.stages, _for_worker),
        pipeline_id=engine.pipeline_id,
        stage_id=first_id,
        most=_most(region.exit.buffer_size),
        initializer=workers.initializer,
        initargs=workers.initargs,
        instrumentation=given,
        defaults=chosen,
    )
    staff = Staff(workers, job, _most(region.entry.buffer_size))
    if ordered and gathers and staff.size > 1:
        raise ValueError(
            f"The region {region.entry!r} cannot both keep the order and gather items in {staff.size} workers "
            f"({callers_line()}): each gathers its own items. Put `aggregate` after the region, give the region one "
            'worker, or leave out `output_order="input"`.'
        )
    mirrors = [MirrorNode(engine, pattern, place, staff.size) for place, pattern in enumerate(patterns)]
    names = [pattern.name for pattern in patterns]
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return RegionNode(
        engine,
        f"region({shown})",
        staff,
        mirrors,
        most=job.most,
        ordered=ordered,
        gathers=gathers,
        with_contexts=any_asks_for_context(region.stages),
    )


def _most(size: int) -> int:
    return _MOST if isinstance(size, LeftOpen) else size


def _for_worker(stage: StageConfig) -> StageConfig:
    """Return a stage for the workers, without its limit of failures and its callback, which stay here."""
    if isinstance(stage, PipeConfig):
        policy = replace(stage.policy, max_failures=None, on_failure=None)
        return replace(stage, executor=None, policy=policy)
    return stage
