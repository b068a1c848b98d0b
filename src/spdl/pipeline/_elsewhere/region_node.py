"""The stage of the engine that stands for a region: it deals items out to workers, and passes on what comes back."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spdl.pipeline._elsewhere.lane import ChannelClosed, ItemNotSent, NotReadable, PeerGone
from spdl.pipeline._elsewhere.region_items import FailedInWorker, Sent
from spdl.pipeline._elsewhere.region_workers import RegionWorker
from spdl.pipeline._elsewhere.worker_messages import CpuLoad, EpochMark, Name, NewLimits, Report, Work
from spdl.pipeline._engine.channel import AHEAD, MARK, Channel, Order
from spdl.pipeline._engine.node import Node
from spdl.pipeline._report.sample import Extract
from spdl.pipeline._state.origins import Foreign, Root, context_of
from spdl.pipeline._state.partial import Restored
from spdl.pipeline._world import Thread, perf_counter

if TYPE_CHECKING:
    from spdl.pipeline._elsewhere.regions import MirrorNode, Staff
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.source import Source

_LOG = logging.getLogger("spdl.pipeline")


# Seconds that a worker has to end when it is no longer needed, before it is killed.
_GRACE = 3.0
# The same for a worker that still imports what it needs: it has no work to finish, and may import for long.
_GRACE_TO_BEGIN = 0.2

# This many seconds of work cross at once, so that the cost of crossing is small in comparison. The thread that asks for
# more items waits up to 5 ms for an op in Python. With less work than that, a worker would run out of items.
_HAND_OVER_SECONDS = 0.006


class Peer:
    """A worker as its region sees it. The engine's lock guards its fields; the region's thread ends it.

    Args:
        worker: The process, interpreter or thread.
        most: How many items cross at once, at most.

    Attributes:
        batch: How many items should cross at once.
        sent: The items that it has, by their numbers.
        waiting: How many of them its stages have not taken yet.
        sending: Whether a thread sends something to it.
        names: The names of results that have come and were not passed on; ``values`` holds the results.
        report: The rest of the message that they came in.
        paused: Whether nothing more is received, since these find no room.
        busy: Whether a thread passes them on.
        begun: Whether it has told anything: before that it imports what it needs, which may take seconds.
        parted: Whether the connection to it is being closed. Its room can be looked for only before.
        gone: Whether it has ended.
        ending: Whether it will end by itself: its last epoch has ended, or its pipeline has failed.
        ends_owed: To how many ends of epochs it has yet to come, of those that it was told about.
        told: The latest counters of its stages; ``load`` holds its CPU times.
        limits: The concurrencies that were sent to it, by the places of stages.
    """

    def __init__(self, worker: RegionWorker, number: int, most: int) -> None:
        self.worker = worker
        self.channel = worker.channel
        self.number = number
        self.most = most
        self.batch = 1
        self.sent: dict[int, Sent] = {}
        self.waiting = 0
        self.names: deque[Name] = deque()
        self.values: deque[Any] = deque()
        self.report: Report | None = None
        self.sending = self.paused = self.busy = self.begun = self.parted = self.gone = self.ending = False
        self.ends_owed = 0
        self.told: list[Extract] | None = None
        self.load = CpuLoad(0.0, 0.0)
        self.limits: dict[int, int] = {}
        self._next_number = 0
        # Items that were taken since the last estimate of their duration, and the seconds of work on them.
        self._taken = 0
        self._seconds = 0.0
        # The current estimate of how long an item takes.
        self.item_seconds = _HAND_OVER_SECONDS

    def add(self, sent: Sent) -> int:
        number = self._next_number
        self._next_number = number + 1
        self.sent[number] = sent
        self.waiting += 1
        return number

    def takes(self, count: int, seconds: float) -> None:
        """Note how many more items the worker's stages have taken, and how long the slowest stage has worked."""
        self.waiting -= count
        self._taken += count
        self._seconds += seconds
        if self._taken and self._seconds:
            # The time between two reports would say more about the machine than about the stages: if the machine is
            # busy, the more items cross at once, the better.
            self.item_seconds += (self._seconds / self._taken - self.item_seconds) / 4
            self._taken = 0
            self._seconds = 0.0
            self.batch = max(1, min(self.most, int(_HAND_OVER_SECONDS / max(self.item_seconds, 1e-9))))

    def part(self) -> None:
        self.parted = True

    def mark_gone(self) -> list[Sent]:
        """Note that the worker has ended, and return the items that it had, in order."""
        self.gone = True
        items = list(self.sent.values())
        self.sent.clear()
        self.waiting = 0
        return items

    def grace(self) -> float:
        return _GRACE if self.begun else _GRACE_TO_BEGIN


# If sending takes more seconds than this, another thread is woken for the other work. Waking one takes as long.
_QUICK = 3e-4


class Dealer:
    """Takes items from a region's queue, and sends them. All of it is called with the engine's lock held.

    Any of the items that a dead worker had may be what it died of. So each of them goes to a worker that has nothing
    else, and gets nothing else in the meantime: of what such a worker dies is known. That does not work where items are
    gathered, since nothing would come of a single one.

    A worker that has yet to begin gets nothing if another one has begun. It imports what it needs, which may take
    seconds, and what it got would wait for that.

    Nor does a worker get anything whose channel has no room. It reads the channel, and tells so, as long as its results
    continue; if they do not, the thread that waits for room could be the one that makes room for them.
    """

    def __init__(self, region: RegionNode, workers: Staff, *, with_contexts: bool, gathers: bool) -> None:
        self._region = region
        self._workers = workers
        self._with_contexts = with_contexts
        # Whether items that are sent again go one by one.
        self._alone = workers.reruns and not gathers
        self.again: deque[Sent] = deque()
        # How long sending a batch has taken lately.
        self._seconds = _QUICK

    def has_items(self) -> bool:
        """Return whether an item waits with no end of an epoch before it."""
        return bool(self.again) or self._has_new()

    def worker(self) -> Peer | None:
        if self._alone:
            return self._worker_if_some_go_alone()
        if not (self.again or self._has_ticket()):
            return None
        return self._least_busy(self._awake())

    def _least_busy(self, peers: list[Peer]) -> Peer | None:
        """Return the one with the least work of those that want more."""
        best: Peer | None = None
        for peer in peers:
            if peer.sending or peer.waiting >= 2 * peer.batch:
                continue
            is_better = best is None or peer.waiting < best.waiting
            if is_better and self._is_enough_for(peer) and peer.channel.has_room():
                best = peer
        return best

    def _awake(self) -> list[Peer]:
        """Return the workers that may get items: those that have begun, or all if none has."""
        peers = [peer for peer in self._workers.peers if not (peer.parted or peer.ending)]
        return [peer for peer in peers if peer.begun] or peers

    def _worker_if_some_go_alone(self) -> Peer | None:
        peers = self._awake()
        kept = None
        if self.again:
            empty = next((peer for peer in peers if not (peer.sent or peer.sending) and peer.channel.has_room()), None)
            if empty is not None:
                return empty
            if not any(map(_has_one_again, peers)):
                # The worker gets no more items until it has none.
                kept = min(peers, key=lambda peer: len(peer.sent), default=None)
        if not (self._has_new() and self._has_ticket()):
            return None
        return self._least_busy([peer for peer in peers if not (peer is kept or _has_one_again(peer))])

    def send(self, peer: Peer) -> None:
        """Send a batch of items to a worker. It releases the lock in the meantime."""
        region = self._region
        engine = region.engine
        limits = {place: each for place, each in region.limits.items() if peer.limits.get(place) != each}
        peer.limits.update(limits)
        numbers, roots, items = self._take(peer)
        # When the worker reports that it took items, it has half of the others left.
        tell_at = max(1, min(peer.batch, peer.waiting) // 2)
        failed: list[tuple[int, Any, BaseException]] = []
        fault: BaseException | None = None
        peer.sending = True
        if self._is_quick(peer):
            engine.lock.release()
        else:
            engine.release_to_user()
        begin = perf_counter()
        try:
            if limits:
                peer.channel.send([NewLimits(limits)])
            contexts = [context_of(engine.locate_item, root) for root in roots] if self._with_contexts else None
            failed = _send_all(peer, Work(numbers, tell_at, contexts), items)
        except (PeerGone, ChannelClosed):
            # The region's thread notices the death, and knows which items the worker had.
            pass
        except BaseException as error:  # noqa: BLE001 - no fault of an item.
            fault = error
        seconds = perf_counter() - begin
        engine.lock.acquire()
        self._seconds += (seconds - self._seconds) / 8
        if fault is not None:
            engine.fail(region, None, fault)
        engine.drops.append(items)
        peer.sending = False
        for number, item, why in failed:
            if (sent := peer.sent.pop(number, None)) is not None:
                peer.waiting -= 1
                region.take_back(sent, item, why)

    def send_more(self) -> None:
        """Send items that wait here. The region's thread calls it: it is the first to know that a worker wants more.

        It never waits for a worker, which may be waiting for it.
        """
        region = self._region
        while self.has_items() and not (region.cancelled or region.engine.stopping):
            peer = self.worker()
            if peer is None or not self._is_quick(peer):
                return
            self.send(peer)

    def send_again(self, items: Sequence[Sent]) -> None:
        """Put items in line to be sent again, before all new ones."""
        if self._alone and len(items) == 1 and items[0].deaths > 1:
            # This item most likely kills workers, so the others go first.
            self.again.extend(items)
        else:
            self.again.extendleft(reversed(items))
        self._region.engine.add_turns(len(items))

    def discard(self) -> list[Sent]:
        dropped = list(self.again)
        self._region.engine.remove_turns(len(dropped))
        self.again.clear()
        return dropped

    def _take(self, peer: Peer) -> tuple[list[int], list[Root], list[Any]]:
        region = self._region
        numbers: list[int] = []
        roots: list[Root] = []
        items: list[Any] = []
        most = peer.batch
        while len(items) < most:
            if self.again and (not self._alone or not peer.sent):
                region.engine.remove_turns()
                sent = self.again.popleft()
                item = sent.item
                most = 1 if self._alone else most
            elif not (self._has_new() and self._has_ticket()):
                break
            else:
                root, item = region.dequeue()
                ticket = None if region.order is None else region.order.admit()
                sent = Sent(root, item if self._workers.reruns else None, ticket)
            region.slot_taken()
            numbers.append(peer.add(sent))
            roots.append(sent.root)
            items.append(item)
        return numbers, roots, items

    def _is_enough_for(self, peer: Peer) -> bool:
        """Return whether waiting items should cross now. Each crossing costs, so several should cross together.

        A worker without work gets whatever there is. One that has some can wait for half a batch, and one that has
        enough for a whole one. It tells when it has taken all, so what waits here does not wait forever.
        """
        if not peer.waiting or (self.again and not self._alone):
            return True
        queue = self._region.queue
        wanted = peer.batch if 2 * peer.waiting > peer.batch else peer.batch // 2
        return len(queue) >= wanted or queue[-1] is MARK

    def _has_new(self) -> bool:
        queue = self._region.queue
        return bool(queue) and queue[0] is not MARK

    def _has_ticket(self) -> bool:
        """Return whether one more item may go to the workers. Items that are sent again have tickets already."""
        region = self._region
        if region.order is None:
            return True
        slots = sum(mirror.concurrency for mirror in region.mirrors)
        return len(region.order.tickets) < slots + 2 * self._workers.size * region.batch + AHEAD

    def _is_quick(self, peer: Peer) -> bool:
        """Return whether sending cannot wait for the worker, and takes no longer than waking a thread."""
        return self._seconds < _QUICK and peer.channel.has_room()


def _has_one_again(peer: Peer) -> bool:
    """Return whether a worker has an item that another worker had when it died."""
    return len(peer.sent) == 1 and next(iter(peer.sent.values())).deaths > 0


def _send_all(peer: Peer, work: Work, items: list[Any]) -> list[tuple[int, Any, BaseException]]:
    """Send items. Take those that cannot be pickled out of both lists; return their numbers, themselves, and why."""
    unsent: list[tuple[int, Any, BaseException]] = []
    while items:
        try:
            peer.channel.send([work, *items])
            break
        except ItemNotSent as error:
            place = error.index - 1
            if work.contexts is not None:
                del work.contexts[place]
            unsent.append((work.numbers.pop(place), items.pop(place), error.__cause__ or error))
    return unsent


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
    stops. ``gathers`` has the names of the stages that make one item of several.
    """

    is_stage = False
    on_workers = False
    hides_items = True
    has_tasks = counts_gets = False

    __slots__ = (
        "batch",
        "coreless_elsewhere",
        "cpu_elsewhere",
        "dealer",
        "deaths_in_a_row",
        "end_told",
        "flush_begun",
        "flush_due",
        "gathers",
        "giving_up",
        "limits",
        "mirrors",
        "most",
        "origin",
        "paused",
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
        self.dealer = Dealer(self, staff, with_contexts=with_contexts, gathers=bool(gathers))
        # How many workers have died since one last finished an item.
        self.deaths_in_a_row = 0
        # How many items should cross at once, and of how many workers the results find no room.
        self.batch = 1
        self.paused = 0
        # New concurrencies by the places of stages. Workers get them with their next items.
        self.limits: dict[int, int] = {}
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

    # ---- what it may do ----

    def _make_places(self) -> None:
        """Set how many items wait here, so that they cross together. Called with the lock held."""
        self.input.set_capacity(self.input.capacity + self.batch - self.places)
        self.places = self.batch
        assert self.origin is not None
        self.engine.made_room(self.origin)

    def _sends(self) -> bool:
        return any(peer.sending for peer in self.staff.peers)

    def _owes_ends(self) -> bool:
        """Return whether a worker has yet to come to the end of the epoch or of the input."""
        return any(peer.ends_owed and not peer.gone for peer in self.staff.peers)

    def ready(self) -> bool:
        if self.cancelled:
            return False
        if self.paused and self._passable() is not None:
            return True
        if self.dealer.has_items():
            return self.dealer.worker() is not None
        if self.flush_due and not self._sends():
            # Nothing may follow the end. A worker may have died since the end was due, and its items are sent again.
            return True
        return bool(self.queue) and self._may_pass_mark()

    def _may_pass_mark(self) -> bool:
        if not self.flush_begun:
            return not self._sends()
        return not (self._owes_ends() or self.paused or self.giving_up) and self.has_room(0)

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
        if self.paused and (peer := self._passable()) is not None:
            self.pass_on(peer)
        elif self.dealer.has_items():
            if (peer := self.dealer.worker()) is not None:
                self.dealer.send(peer)
        elif self.flush_due:
            self.flush_due = False
            self.engine.remove_turns()
            self._flush(last=True)
        elif self.queue and self._may_pass_mark():
            if not self.flush_begun:
                self._flush(last=False)
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

    def take_back(self, sent: Sent, item: Any, error: BaseException) -> None:
        """Give up an item that could not be sent. Called with the lock held."""
        self.slot_freed()
        self.giving_up += 1
        self.teller.not_sent(sent, item, error)
        self.end(sent)
        self.giving_up -= 1

    def _flush(self, *, last: bool) -> None:
        """Make the workers end their epoch. Called with the lock held, which it releases in the meantime."""
        self.flush_begun = True
        self.end_told = last
        peers = [peer for peer in self.staff.peers if not (peer.gone or peer.ending)]
        for peer in peers:
            peer.sending = True
            peer.ends_owed += 1
            peer.ending = peer.ending or last
        self.engine.release_to_user()
        for peer in peers:
            try:
                peer.channel.send([EpochMark(last)])
            except (PeerGone, ChannelClosed):
                continue
        self.engine.lock.acquire()
        for peer in peers:
            peer.sending = False
        self.engine.concluded()

    # ---- what comes back ----

    def received(self, peer: Peer, report: Report, values: list[Any]) -> None:
        """Take a report. Called by the region's thread with the lock held, which it releases for the user's code."""
        if self.cancelled or self.engine.stopping:
            self.engine.drops.append(values)
            return
        peer.begun = True
        peer.report = report
        peer.names.extend(report.names)
        peer.values.extend(values)
        peer.takes(report.taken, report.seconds)
        self.batch = max(each.batch for each in self.staff.peers)
        if self.batch != self.places:
            self._make_places()
        if report.taken:
            self.running -= report.taken
            self.counters.slot_freed(len(self.queue))
        self.pass_on(peer)

    def pass_on(self, peer: Peer) -> None:
        """Pass on what a worker has sent, as far as there is room. Called with the lock held."""
        peer.busy = True
        while peer.names and not (self.cancelled or self.engine.stopping):
            if not self._may_emit(peer):
                if not peer.paused:
                    peer.paused = True
                    self.paused += 1
                    self.engine.add_turns()
                peer.busy = False
                return
            self._result(peer, peer.names.popleft(), peer.values.popleft())
        if peer.report is not None and not (self.cancelled or self.engine.stopping):
            self._note(peer, peer.report)
        peer.report = None
        peer.busy = False
        if peer.paused:
            peer.paused = False
            self.paused -= 1
            self.engine.remove_turns()
            self.staff.wake()

    def _note(self, peer: Peer, report: Report) -> None:
        if report.counters is not None:
            self._count(peer, report.counters)
        if report.load is not None:
            # Other workers' CPU time is this process's.
            self.cpu_elsewhere += 0.0 if self.staff.is_here else report.load.cpu - peer.load.cpu
            self.coreless_elsewhere += report.load.coreless - peer.load.coreless
            peer.load = report.load
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
            peer.ending = True
            self.teller.faulty(report.faults)
        if report.ended:
            peer.ends_owed -= 1

    def _count(self, peer: Peer, counters: list[Extract]) -> None:
        before: Sequence[Extract | None] = peer.told or [None] * len(counters)
        for mirror, told, earlier in zip(self.mirrors, counters, before, strict=True):
            mirror.add(told, earlier)
        peer.told = counters

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

    # ---- workers that end ----

    def lost(self, peer: Peer, how: str) -> bool:
        """Handle a worker's end, and return whether another one should take its place. Called with the lock held."""
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
        return not (self.queue or self.dealer.again or self._sends() or self.paused or self.giving_up)

    def end_input(self) -> bool:
        if not self.flush_begun:
            if not self.flush_due:
                self.flush_due = True
                self.engine.add_turns()
            return False
        return not self._owes_ends()

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
