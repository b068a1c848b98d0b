"""The stage of the engine that stands for a region: it deals items out to workers, and passes on what comes back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.op import FailedItem
from spdl.pipeline._declare.records import OnFailure
from spdl.pipeline._elsewhere.dealer import Dealer, Peer, Sent
from spdl.pipeline._elsewhere.lane import ChannelClosed, NotReadable, PeerGone
from spdl.pipeline._elsewhere.worker_messages import EpochMark, Failure, Fault, InputEnd, Name, Report
from spdl.pipeline._engine.channel import Channel, Order
from spdl.pipeline._engine.node import Node
from spdl.pipeline._report.failures import Quarantine, report_failed_item, type_and_message
from spdl.pipeline._state.origins import LISTED, Foreign, Group, Root
from spdl.pipeline._state.partial import Restored
from spdl.pipeline._world import Thread

if TYPE_CHECKING:
    from spdl.pipeline._elsewhere.regions import MirrorNode, Staff
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.source import Source

_LOG = logging.getLogger("spdl.pipeline")


class FailedInWorker:
    """Records, counts and logs. All methods are called with the engine's lock held, and release it for user code."""

    def __init__(self, region: RegionNode) -> None:
        self._region = region

    def failed(self, peer: Peer, failure: Failure) -> None:
        """Report an item that a worker has given up."""
        roots = [sent.root for number in failure.items[:LISTED] if (sent := peer.sent.get(number)) is not None]
        error = failure.raised.unpack()
        assert isinstance(error, Exception)
        mirror = None if failure.stage is None else self._region.mirrors[failure.stage]
        self._deal_with(mirror, _one(roots), failure.failed, error)

    def not_sent(self, sent: Sent, item: Any, error: BaseException) -> None:
        """Report an item that could not be pickled."""
        if not isinstance(error, RuntimeError) or error.__cause__ is None:
            error = self._crossing("The item could not be pickled, to be sent to a worker", item, error)
        self._boundary(sent.root, item, error)

    def given_up(self, sent: Sent, death: BaseException) -> None:
        """Report an item that too many workers had when they died."""
        error = RuntimeError(f"{sent.deaths} workers have died with the item. The last: {death}")
        error.__cause__ = death.with_traceback(None)
        self._boundary(sent.root, sent.item, error)

    def not_readable(self, root: Root, error: BaseException) -> None:
        """Report a result that could not be unpickled."""
        self._boundary(
            root, None, self._crossing("A result could not be unpickled that a worker has sent", None, error)
        )

    def _crossing(self, what: str, item: Any, error: BaseException) -> RuntimeError:
        kind = "" if item is None else f" (of type {type(item).__qualname__})"
        failure = RuntimeError(f"{what}{kind}: {type(error).__name__}: {error} [{self._region.name}]")
        # Without the frames, which hold received results.
        failure.__cause__ = error.with_traceback(None)
        return failure

    def _boundary(self, root: Root, item: Any, error: BaseException) -> None:
        region = self._region
        assert isinstance(error, Exception)
        engine = region.engine
        engine.lock.release()
        try:
            # In words only: where it comes from is added below.
            failed = Quarantine().add(region.name, [], "", item=item, error=error, attempts=1)
        finally:
            engine.lock.acquire()
        self._deal_with(None, root, failed, error)

    def _deal_with(self, mirror: MirrorNode | None, root: Root | None, failed: FailedItem, error: Exception) -> None:
        region = self._region
        engine = region.engine
        node: Node = mirror or region
        callback: OnFailure | None = None
        if mirror is None:
            region.note_failed()
        else:
            mirror.note_failed()
            callback = mirror.on_failure()
        count = node.counters.failed
        # One failure is enough.
        tally = None if region.cancelled else node.tally
        if tally is not None and (verdict := tally.verdict()) is not None:
            excess = node.excess_of_failures(verdict)
            excess.__cause__ = error
            engine.fail(node, root, excess, cut_off=region)
        pairs = [] if root is None else engine.lineage.locate(root)
        origin = "an item" if root is None else engine.lineage.describe(root)
        placed = replace(
            failed,
            stage=node.name,
            positions=tuple(position for _, position in pairs),
            sources=tuple(source for source, _ in pairs),
            origin=origin,
        )
        engine.release_to_user()
        interrupt: BaseException | None = None
        try:
            engine.failures.quarantine.adopt(placed)
            report_failed_item(placed, error, count, callback)
        except BaseException as raised:  # noqa: BLE001 - a KeyboardInterrupt of the callback's, say.
            interrupt = raised
        engine.lock.acquire()
        engine.drops.append(error)
        if interrupt is not None:
            engine.fail(node, root, interrupt, cut_off=region)

    def faulty(self, faults: Sequence[Fault]) -> None:
        region = self._region
        for fault in faults:
            error = fault.raised.unpack()
            if fault.cause is not None:
                error.__cause__ = fault.cause.unpack()
            node: Node = region if fault.stage is None else region.mirrors[fault.stage]
            region.engine.fail(node, None, error, cut_off=region)

    def death(self, peer: Peer, how: str, items: Sequence[Sent]) -> RuntimeError:
        region = self._region
        had = "It had no item."
        if items:
            root = _one([sent.root for sent in items[:LISTED]])
            assert root is not None
            had = f"It had {region.engine.lineage.describe(root)}."
        return RuntimeError(f"Worker {peer.number} of {region.name} has died: {how}. {had}")

    def not_run_again(self, death: BaseException) -> RuntimeError:
        """Return the error for a worker that has died, which says why its items are not run again."""
        stages = " and ".join(self._region.gathers)
        return RuntimeError(
            f'{death} They cannot be run again, as `on_death="rerun"` asks: {stages} has made results of several of '
            "them, some of which have come, and would make others of those that are left. Put `aggregate` before or "
            "after the region."
        )

    def not_replaced(self, error: Exception) -> RuntimeError:
        """Return the error for a worker that has died and could not be replaced."""
        what = f"A worker of {self._region.name} has died, and no other could be started"
        failure = RuntimeError(f"{what}: {type_and_message(error)}")
        failure.__cause__ = error.with_traceback(None)
        return failure

    def run_again(self, death: BaseException) -> None:
        """Log that the items of a dead worker are run again. They wait to be sent already."""
        engine = self._region.engine
        engine.release_to_user()
        try:
            _LOG.warning("%s Its items are run again.", death)
        finally:
            engine.lock.acquire()

    def log(self, level: int, line: str) -> None:
        engine = self._region.engine
        engine.lock.release()
        try:
            _LOG.log(level, "%s: %s", self._region.name, line)
        finally:
            engine.lock.acquire()


def _one(roots: list[Root]) -> Root | None:
    """Return a root for all of these, to be located and described."""
    if len(roots) <= 1:
        return roots[0] if roots else None
    return Group(roots, 1)


# An item that this many workers had when they died is given up: it may have killed them.
_MOST_DEATHS = 3
# If this many workers die one after the other and finish nothing in between, their items are not the cause. All workers
# may die at once of one cause, so the number is at least twice the number of workers.
_MOST_DEATHS_IN_A_ROW = 10


class RegionNode(Node):
    """Deals items out to workers. Each runs the region's stages as its own pipeline.

    A worker has one batch that it works on, and one that waits next to it. Items wait here as long as all workers have
    enough, so that several can cross together. Results that come back are passed on by the region's thread as long as
    there is room, and then by the thread that makes some; nothing more is received in the meantime, and so the worker
    stops.

    Args:
        most: How many results cross at once, at most.
        ordered: Whether results come in the order of the items.
        gathers: The names of the stages that make one item of several.
        with_contexts: Whether an op asks where its items come from.
    """

    is_stage = False
    on_workers = False
    hides_items = True
    has_tasks = counts_gets = False

    __slots__ = (
        "coreless_elsewhere",
        "cpu_elsewhere",
        "dealer",
        "deaths_in_a_row",
        "end_told",
        "flush_begun",
        "flush_due",
        "gathers",
        "giving_up",
        "mirrors",
        "most",
        "origin",
        "places",
        "single",
        "staff",
        "teller",
    )

    def __init__(
        self,
        engine: Engine,
        name: str,
        staff: Staff,
        mirrors: list[MirrorNode],
        *,
        most: int,
        ordered: bool,
        gathers: list[str],
        with_contexts: bool,
    ) -> None:
        super().__init__(engine, name, None, 1)
        self.staff = staff
        self.mirrors = mirrors
        self.most = most
        self.gathers = gathers
        self.single = staff.size == 1
        # A single worker keeps the order by itself. But after a death its items go one by one, and the deadly one last.
        keeps = ordered or (self.single and all(mirror.keeps_order() for mirror in mirrors))
        self.order = Order() if keeps and not (self.single and (gathers or not staff.reruns)) else None
        self.tally = engine.failures.tally
        self.tally.add(self.counters)
        self.teller = FailedInWorker(self)
        # The part that fills the queue; its feeders are the mirrors of the stages before its end.
        self.origin: Node | Source | None = None
        self.dealer = Dealer(self, staff, self._take_back, with_contexts=with_contexts, gathers=bool(gathers))
        # How many workers have died since one last finished an item.
        self.deaths_in_a_row = 0
        # That many items may wait here, apart from items in queues, so that they can cross together.
        self.places = 0
        self.flush_begun = self.flush_due = False
        # Whether the workers know that no more items will come.
        self.end_told = False
        # Threads that give up items. These are in no queue, and the lock is released before they are counted and ended.
        self.giving_up = 0
        self.cpu_elsewhere = self.coreless_elsewhere = 0.0

    # ---- connecting it ----

    def read_from(self, feeder: Node | Source, channel: Channel) -> None:
        super().read_from(feeder, channel)
        self.origin = feeder

    def enclose(self, ends: list[Node | Source]) -> None:
        """Note which stages of the region its results come from."""
        self.feeders = ends

    def places_in_slots(self) -> int:
        # Results that have come are in this process whether they are passed on or not. One by one they would be passed
        # on each time that there is room, and waking a thread for that takes longer than ten items.
        return self.concurrency if self.output.guard else self.most

    def keeps_order(self) -> bool:
        return self.order is not None or (self.single and all(mirror.keeps_order() for mirror in self.mirrors))

    def regroup(self, restored: Restored) -> None:  # noqa: ARG002 - as in general.
        if self.gathers:
            _LOG.warning(
                "%s cannot make the batches again that were consumed in part: their other items come again in other "
                "batches, with those that were consumed.",
                self.name,
            )

    def prepare_tuning(self) -> None:
        self.staff.tell_often(len(self.mirrors))

    def lags(self) -> bool:
        peers = [peer for peer in self.staff.peers if not peer.gone]
        known = [peer.told for peer in peers if peer.told is not None]
        if not known:
            return any(peer.sent for peer in peers)
        return any(mirror.is_outdated(each[mirror.place]) for each in known for mirror in self.mirrors)

    def begins_threads(self) -> bool:
        return self.staff.is_here

    def num_processes(self) -> int:
        return 0 if self.staff.is_here else self.staff.size

    def warm(self) -> None:
        self.staff.start(self)

    def threads(self) -> list[Thread]:
        return self.staff.threads()

    def engines_inside(self) -> list[Engine]:
        return self.staff.engines()

    def interrupt(self) -> None:
        self.staff.wake()

    def limit(self, place: int, concurrency: int) -> None:
        """Change how many items a stage works on at once in each worker. Called with the lock held."""
        self.staff.limit(place, concurrency)

    # ---- what it may do ----

    def _make_places(self) -> None:
        """Set how many items wait here, so that they cross together. Called with the lock held."""
        batch = self.staff.batch
        self.input.set_capacity(self.input.capacity + batch - self.places)
        self.places = batch
        assert self.origin is not None
        self.engine.made_room(self.origin)

    def ready(self) -> bool:
        if self.cancelled:
            return False
        if self.staff.paused and self._passable() is not None:
            return True
        if self.dealer.has_items():
            return self.dealer.worker() is not None
        if self.flush_due and not self.staff.sends():
            # Nothing may follow the end. A worker may have died since the end was due, and its items are sent again.
            return True
        return bool(self.queue) and self._may_pass_mark()

    def _may_pass_mark(self) -> bool:
        if not self.flush_begun:
            return not self.staff.sends()
        return not (self.staff.owes_ends() or self.staff.paused or self.giving_up) and self.has_room(0)

    def _passable(self) -> Peer | None:
        """Return a worker whose results may move on, of those that had found no room."""
        for peer in self.staff.peers:
            # Not before there is room for several.
            if peer.paused and not peer.busy and self._may_emit(peer) and self.output.has_place():
                return peer
        return None

    def _may_emit(self, peer: Peer) -> bool:
        """Return whether the next result of a worker has a place to go."""
        if not peer.names or self.order is None:
            return self.has_room(0)
        name = peer.names[0]
        sent = peer.sent.get(name if isinstance(name, int) else name[0])
        if sent is None or sent.ticket is None or self.order.is_head(sent.ticket):
            return self.has_room(0)
        # It waits in its ticket, and the number of tickets is bounded.
        return True

    # ---- turns ----

    def turn(self) -> None:
        if self.staff.paused and (peer := self._passable()) is not None:
            self.pass_on(peer)
        elif self.dealer.has_items():
            if (peer := self.dealer.worker()) is not None:
                self.dealer.send(peer)
        elif self.flush_due:
            self.flush_due = False
            self.engine.remove_turns()
            self._flush(InputEnd())
        elif self.queue and self._may_pass_mark():
            if not self.flush_begun:
                self._flush(EpochMark())
            else:
                self.flush_begun = False
                for mirror in self.mirrors:
                    self.engine.epochs.passes(mirror.counters)
                self.pass_mark()

    def dequeue(self) -> tuple[Any, Any]:
        # As for other nodes, except that the part that fills the queue is not among the feeders.
        assert self.origin is not None
        self.engine.made_room(self.origin)
        self.engine.remove_turns()
        self.counters.queue.fill += len(self.queue)
        return self.queue.popleft()

    def _take_back(self, sent: Sent, item: Any, error: BaseException) -> None:
        """Give up an item that could not be sent. Called with the lock held."""
        self.slot_freed()
        self.giving_up += 1
        self.teller.not_sent(sent, item, error)
        self.end(sent)
        self.giving_up -= 1

    def _flush(self, message: EpochMark | InputEnd) -> None:
        """Make the workers end their epoch. Called with the lock held, which it releases in the meantime."""
        self.flush_begun = True
        self.end_told = isinstance(message, InputEnd)
        peers = [peer for peer in self.staff.peers if not (peer.gone or peer.ending)]
        for peer in peers:
            peer.begin_sending()
            peer.owes_end()
            if self.end_told:
                peer.expect_end()
        self.engine.release_to_user()
        for peer in peers:
            try:
                peer.channel.send([message])
            except (PeerGone, ChannelClosed):
                continue
        self.engine.lock.acquire()
        for peer in peers:
            peer.end_sending()
        self.engine.concluded()

    # ---- what comes back ----

    def received(self, peer: Peer, report: Report, values: list[Any]) -> None:
        """Take a report. Called by the region's thread with the lock held, which it releases for the user's code."""
        if self.cancelled or self.engine.stopping:
            self.engine.drops.append(values)
            return
        peer.received(report, values)
        self.staff.takes(peer, report.taken, report.seconds)
        if self.staff.batch != self.places:
            self._make_places()
        if report.taken:
            self.running -= report.taken
            self.counters.slot_freed(len(self.queue))
        self.pass_on(peer)

    def pass_on(self, peer: Peer) -> None:
        """Pass on what a worker has sent, as far as there is room. Called with the lock held."""
        peer.occupy(busy=True)
        while peer.names and not (self.cancelled or self.engine.stopping):
            if not self._may_emit(peer):
                if not peer.paused:
                    peer.pause(paused=True)
                    self.staff.note_paused(1)
                    self.engine.add_turns()
                peer.occupy(busy=False)
                return
            self._result(peer, peer.names.popleft(), peer.values.popleft())
        if peer.report is not None and not (self.cancelled or self.engine.stopping):
            self._note(peer, peer.report)
        peer.processed()
        peer.occupy(busy=False)
        if peer.paused:
            peer.pause(paused=False)
            self.staff.note_paused(-1)
            self.engine.remove_turns()
            self.staff.wake()

    def _note(self, peer: Peer, report: Report) -> None:
        """Handle everything in a report except results."""
        if report.counters is not None:
            self._count(peer, report.counters)
        if report.load is not None:
            more = peer.uses(report.load)
            # Other workers' CPU time is this process's.
            self.cpu_elsewhere += 0.0 if self.staff.is_here else more.cpu
            self.coreless_elsewhere += more.coreless
        for level, line in report.lines:
            self.teller.log(level, line)
        for failure in report.failures:
            self.teller.failed(peer, failure)
        if report.done:
            self.deaths_in_a_row = 0
        for number in report.done:
            if (sent := peer.sent.pop(number, None)) is not None:
                self.end(sent)
        if report.faults:
            peer.expect_end()
            self.teller.faulty(report.faults)
        if report.ended:
            peer.came_to_end()

    def _count(self, peer: Peer, counters: list[Any]) -> None:
        before = peer.tells(counters)
        for mirror, told in zip(self.mirrors, counters, strict=True):
            mirror.add(told, None if before is None else before[mirror.place])

    def _result(self, peer: Peer, name: Name, value: Any) -> None:
        root: Root | None
        if isinstance(name, list):
            items = [peer.sent[number] for number in name]
            root = Foreign([sent.shared() for sent in items], 1)
            sent = items[0]
        else:
            sent = peer.sent[name if isinstance(name, int) else name[0]]
            root = sent.only_result() if isinstance(name, int) else sent.result_of(self.engine.lineage, name[1:])
        if root is None:
            # It was delivered by an earlier run, or by a worker that has died.
            self.engine.drops.append(value)
        elif type(value) is NotReadable:
            self.teller.not_readable(root, value.error)
            self.engine.lineage.drop(root)
        else:
            self.counters.emitted += 1
            if sent.ticket is None:
                self.engine.emit(self, (root, value))
            else:
                assert self.order is not None
                for entry in self.order.add(sent.ticket, (root, value)):
                    self.engine.emit(self, entry)

    def end(self, sent: Sent) -> None:
        """End an item that has left nothing in its worker. Called with the lock held."""
        if self.engine.stopping or self.cancelled:
            return
        sent.release(self.engine.lineage)
        if sent.ticket is not None:
            assert self.order is not None
            for entry in self.order.complete(sent.ticket):
                self.engine.emit(self, entry)

    def note_failed(self) -> None:
        """Count an item that could not cross. Called with the lock held."""
        self.counters.failed += 1

    # ---- workers that end ----

    def lost(self, peer: Peer, how: str) -> bool:
        """Handle the end of a worker's process. Called with the lock held.

        Returns:
            Whether another one should take its place.
        """
        self.running -= peer.waiting
        items = peer.mark_gone()
        for mirror, told in zip(self.mirrors, peer.told or (), strict=False):
            mirror.forget(told)
        if self.cancelled or self.engine.stopping:
            return False
        if peer.ending and not items:
            return False
        error = self.teller.death(peer, how, items)
        self.deaths_in_a_row += 1
        hopeless = self.deaths_in_a_row >= max(_MOST_DEATHS_IN_A_ROW, 2 * self.staff.size)
        if hopeless and self.staff.reruns:
            error = RuntimeError(f"{self.deaths_in_a_row} workers have died and finished no item in between. {error}")
        shared = self.staff.reruns and any(sent.has_shared() for sent in items)
        if shared:
            error = self.teller.not_run_again(error)
        if not self.staff.reruns or hopeless or shared:
            self.engine.fail(self, items[0].root if items else None, error, cut_off=self)
            return False
        again: list[Sent] = []
        given_up: list[Sent] = []
        for sent in items:
            # The items did not kill a worker that had not begun.
            survives = not peer.begun or sent.died_again() < _MOST_DEATHS
            (again if survives else given_up).append(sent)
        # Before the lock is released, since other threads then look whether anything is left.
        self.dealer.send_again(again)
        if again:
            # The workers that get these items have to reach the end of the epoch once more.
            self.flush_begun = self.end_told = False
        self.giving_up += 1
        self.teller.run_again(error)
        for sent in given_up:
            self.teller.given_up(sent, error)
            self.end(sent)
        self.giving_up -= 1
        # A worker that knows about the end would have got no more items.
        return bool(again) or not peer.ending

    def not_replaced(self, error: Exception) -> None:
        """Fail, since a dead worker could not be replaced. Called with the lock held."""
        if not (self.cancelled or self.engine.stopping):
            self.engine.fail(self, None, self.teller.not_replaced(error), cut_off=self)

    # ---- its end ----

    def drained(self) -> bool:
        return not (self.queue or self.dealer.again or self.staff.sends() or self.staff.paused or self.giving_up)

    def end_input(self) -> bool:
        if not self.flush_begun:
            if not self.flush_due:
                self.flush_due = True
                self.engine.add_turns()
            return False
        return not self.staff.owes_ends()

    def finish_stage(self, now: float) -> None:
        super().finish_stage(now)
        self.staff.wake()

    def give_up_work(self) -> bool:
        given_up = super().give_up_work()
        self.staff.wake()
        return given_up

    def discard(self) -> list[Any]:
        dropped = [*super().discard(), *self.dealer.discard()]
        self.engine.remove_turns(self.flush_due)
        self.flush_due = False
        if self.order is not None:
            dropped += self.order.let_go()
        return dropped

    def let_go(self) -> list[Any]:
        return [*super().let_go(), *self.staff.let_go()]
