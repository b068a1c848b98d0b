"""Deals a region's items out to its workers, and keeps track of the items that each worker has."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._elsewhere.lane import ChannelClosed, ItemNotSent, PeerGone
from spdl.pipeline._elsewhere.region_workers import RegionWorker
from spdl.pipeline._elsewhere.worker_messages import CpuLoad, Name, NewLimits, Report, Work
from spdl.pipeline._engine.channel import AHEAD, MARK, Ticket
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.node import Node
from spdl.pipeline._report.sample import Extract
from spdl.pipeline._state.lineage import Lineage
from spdl.pipeline._state.origins import Foreign, Group, Result, Results, Root, context_of
from spdl.pipeline._world import perf_counter

if TYPE_CHECKING:
    from spdl.pipeline._elsewhere.regions import Staff


class Sent:
    """One item in a worker. Guarded by the engine's lock.

    Args:
        item: None unless it may have to be sent again.
        ticket: Its place in the order of results, if the region keeps that.
    """

    __slots__ = ("_base", "_foreign", "_made", "_origins", "_paths", "deaths", "item", "passed_on", "root", "ticket")

    def __init__(self, root: Root, item: Any, ticket: Ticket | None) -> None:
        self.root = root
        self.item = item
        self.ticket = ticket
        # How many workers died while they had this item.
        self.deaths = 0
        # Whether its only result has replaced it in the lineage.
        self.passed_on = False
        # Released in this order when nothing is left of it: the origins of results of generators, by the numbers that
        # lead to them, and the origin of results that several items have become.
        self._origins: list[Group] = []
        self._paths: dict[tuple[int, ...], Results | None] = {}
        self._foreign: Foreign | None = None
        self._base: Group | None = None
        # The results that were received.
        self._made: dict[tuple[int, ...], Result | None] = {}

    def died_again(self) -> int:
        """Count one more worker that died while it had this item. Return the number of such workers."""
        self.deaths += 1
        return self.deaths

    def only_result(self) -> Root | None:
        """Return the root of its only result, which replaces the item; None if that result was received before."""
        if self.passed_on:
            return None
        self.passed_on = True
        return self.root

    def result_of(self, lineage: Lineage, path: tuple[int, ...]) -> Root | None:
        """Return the root of a generator's result; None if that result was received before."""
        return None if path in self._made else self._result(lineage, path)

    def _result(self, lineage: Lineage, path: tuple[int, ...]) -> Result | None:
        if path not in self._made:
            results = self._results(lineage, path[:-1])
            self._made[path] = None if results is None else results.numbered_result(path[-1])
        return self._made[path]

    def _results(self, lineage: Lineage, path: tuple[int, ...]) -> Results | None:
        if path not in self._paths:
            root: Root | None = self._origin() if not path else self._result(lineage, path)
            results = None if root is None else lineage.expand(root)
            self._paths[path] = results
            if results is not None:
                self._add(results)
        return self._paths[path]

    def shared(self) -> Root:
        """Return the origin of a result made of several items, which has one descendant more now."""
        if self._foreign is None:
            self._foreign = Foreign([self._origin()], 1)
            self._add(self._foreign)
        return self._foreign.share()

    def has_shared(self) -> bool:
        """Return whether results were made of it and others: if it is sent again, the results differ."""
        return self._foreign is not None

    def _origin(self) -> Root:
        return self.root if self._base is None else self._base.share()

    def _add(self, group: Group) -> None:
        self._base = self._base or group
        self._origins.append(group)

    def release(self, lineage: Lineage) -> None:
        """Note that the worker is done with this item."""
        if self._origins:
            # Origins that were made of others come first.
            for group in reversed(self._origins):
                lineage.drop(group)
        elif not self.passed_on:
            lineage.drop(self.root)


# Seconds that a worker has to end when it is no longer needed, before it is killed.
_GRACE = 3.0
# The same for a worker that still imports what it needs: it has no work to finish, and may import for long.
_GRACE_TO_BEGIN = 0.2

# This many seconds of work cross at once, so that the cost of crossing is small in comparison. The thread that asks for
# more items waits up to 5 ms for an op in Python. With less work than that, a worker would run out of items.
_HAND_OVER_SECONDS = 0.006


class Peer:
    """A worker. The engine's lock guards its fields; the region's thread calls the methods that end it.

    Args:
        worker: The process, interpreter or thread.
        most: How many items cross at once, at most.

    Attributes:
        batch: How many items should cross at once.
        sent: The items that it has, by their numbers.
        waiting: How many of them its stages have not taken yet.
        names: The names of results that have come and were not passed on; ``values`` holds the results.
        report: The rest of the message that they came in.
        paused: Whether nothing more is received, since these find no room.
        busy: Whether a thread passes them on.
        begun: Whether it has told anything: before that it imports what it needs, which may take seconds.
        parted: Whether the connection to it is being closed. Its room can be looked for only before.
        gone: Whether it has ended.
        ends_owed: To how many ends of epochs it has yet to come, of those that it was told about.
    """

    def __init__(self, worker: RegionWorker, number: int, most: int) -> None:
        self._worker = worker
        self.channel = worker.channel
        self.number = number
        self.most = most
        self.batch = 1
        self.sent: dict[int, Sent] = {}
        self.waiting = 0
        self.sending = False
        self.names: deque[Name] = deque()
        self.values: deque[Any] = deque()
        self.report: Report | None = None
        self.paused = self.busy = self.begun = self.parted = self.gone = False
        # Whether the worker will end by itself: its last epoch has ended, or its pipeline has failed.
        self.ending = False
        self.ends_owed = 0
        self.told: list[Extract] | None = None
        # Its latest report about the CPU, and the concurrencies that were sent to it, by the places of stages.
        self._load = CpuLoad(0.0, 0.0)
        self._limits: dict[int, int] = {}
        self._next_number = 0
        # Items that were taken since the last estimate of their duration, and the seconds of work on them.
        self._taken = 0
        self._seconds = 0.0
        # The current estimate of how long an item takes.
        self.item_seconds = _HAND_OVER_SECONDS

    # ---- what is sent ----

    def add(self, sent: Sent) -> int:
        """Note that the worker gets an item, and return the item's number."""
        number = self._next_number
        self._next_number = number + 1
        self.sent[number] = sent
        self.waiting += 1
        return number

    def begin_sending(self) -> None:
        """Note that a thread sends something to the worker."""
        self.sending = True

    def end_sending(self) -> None:
        """Note that the thread has finished sending."""
        self.sending = False

    def owes_end(self) -> None:
        """Note that the end of an epoch or of the input was sent to the worker."""
        self.ends_owed += 1

    def news_of(self, limits: dict[int, int]) -> dict[int, int]:
        """Return the concurrencies that were not sent to it yet, and note that they are."""
        news = {place: each for place, each in limits.items() if self._limits.get(place) != each}
        self._limits.update(news)
        return news

    def give_back(self, number: int) -> Sent:
        """Take back an item that could not be sent."""
        self.waiting -= 1
        return self.sent.pop(number)

    # ---- what was received ----

    def received(self, report: Report, values: list[Any]) -> None:
        """Note a message of the worker."""
        self.begun = True
        self.report = report
        self.names.extend(report.names)
        self.values.extend(values)

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

    def tells(self, counters: list[Extract]) -> list[Extract] | None:
        """Note the worker's report on its stages, and return the report before it."""
        before, self.told = self.told, counters
        return before

    def uses(self, load: CpuLoad) -> CpuLoad:
        """Note the worker's CPU times, and return by how much they have grown since its last report."""
        before, self._load = self._load, load
        return CpuLoad(load.cpu - before.cpu, load.coreless - before.coreless)

    def came_to_end(self) -> None:
        """Note that the worker has reached an end of an epoch, and all results before that were received."""
        self.ends_owed -= 1

    def pause(self, *, paused: bool) -> None:
        """Note whether received results find no room."""
        self.paused = paused

    def occupy(self, *, busy: bool) -> None:
        """Note whether a thread passes on received results."""
        self.busy = busy

    def processed(self) -> None:
        """Note that all received results were passed on."""
        self.report = None

    def expect_end(self) -> None:
        """Note that the worker will end by itself."""
        self.ending = True

    def part(self) -> None:
        """Note that the connection to the worker will be closed."""
        self.parted = True

    def mark_gone(self) -> list[Sent]:
        """Note that the worker has ended, and return the items that it had, in order."""
        self.gone = True
        items = list(self.sent.values())
        self.sent.clear()
        self.waiting = 0
        return items

    # ---- the worker itself ----

    def grace(self) -> float:
        """Return how many seconds the worker has to end."""
        return _GRACE if self.begun else _GRACE_TO_BEGIN

    def end(self, grace: float) -> str:
        """Close the connection and wait until the worker has ended; return how it ended, in words."""
        return self._worker.end(grace)

    def close(self) -> None:
        """Make the worker end by itself. The region's thread waits for it."""
        self._worker.close()

    def engines(self) -> list[Engine]:
        """Return the engine that runs the worker's stages, if it runs in threads of this process."""
        return self._worker.engines()


# If sending takes more seconds than this, another thread is woken for the other work. Waking one takes as long.
_QUICK = 3e-4


class Unsent(NamedTuple):
    """An item that could not be pickled: its number, itself, and why."""

    number: int
    item: Any
    error: BaseException


class Dealer:
    """Takes items from a region's queue, and sends them. All of it is called with the engine's lock held.

    Any of the items that a dead worker had may be what it died of. So each of them goes to a worker that has nothing
    else, and gets nothing else in the meantime: of what such a worker dies is known. That does not work where items are
    gathered, since nothing would come of a single one.

    A worker that has yet to begin gets nothing if another one has begun. It imports what it needs, which may take
    seconds, and what it got would wait for that.

    Nor does a worker get anything whose channel has no room. It reads the channel, and tells so, as long as its results
    continue; if they do not, the thread that waits for room could be the one that makes room for them.

    Args:
        take_back: Called with what could not be sent, with the item, and with the reason.
        with_contexts: Whether to tell where the items come from.
        gathers: Whether a stage makes one item of several.

    Attributes:
        again: Items of workers that have died, to be sent again.
    """

    def __init__(
        self,
        region: Node,
        workers: Staff,
        take_back: Callable[[Sent, Any, BaseException], None],
        *,
        with_contexts: bool,
        gathers: bool,
    ) -> None:
        self._region = region
        self._workers = workers
        self._take_back = take_back
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
        """Return the worker that should get the next items, if there is one."""
        if self._alone:
            return self._worker_if_some_go_alone()
        if not (self.again or self._has_ticket()):
            return None
        best: Peer | None = None
        for peer in self._awake():
            if peer.sending or peer.waiting >= 2 * peer.batch:
                continue
            if (best is None or peer.waiting < best.waiting) and self._may_get_more(peer):
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
        best: Peer | None = None
        for peer in peers:
            if peer is kept or peer.sending or peer.waiting >= 2 * peer.batch or _has_one_again(peer):
                continue
            if (best is None or peer.waiting < best.waiting) and self._may_get_more(peer):
                best = peer
        return best

    def send(self, peer: Peer) -> None:
        """Send a batch of items to a worker. It releases the lock in the meantime."""
        region = self._region
        engine = region.engine
        limits = self._workers.limits_for(peer)
        numbers, roots, items = self._take(peer)
        # When the worker reports that it took items, it has half of the others left.
        tell_at = max(1, min(peer.batch, peer.waiting) // 2)
        failed: list[Unsent] = []
        fault: BaseException | None = None
        peer.begin_sending()
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
        peer.end_sending()
        for number, item, why in failed:
            if number in peer.sent:
                self._take_back(peer.give_back(number), item, why)

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
        """Take out the items that are in line to be sent again."""
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

    def _may_get_more(self, peer: Peer) -> bool:
        return self._is_enough_for(peer) and peer.channel.has_room()

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
        order = self._region.order
        return order is None or len(order.tickets) < self._workers.width() + AHEAD

    def _is_quick(self, peer: Peer) -> bool:
        """Return whether sending cannot wait for the worker, and takes no longer than waking a thread."""
        return self._seconds < _QUICK and peer.channel.has_room()


def _has_one_again(peer: Peer) -> bool:
    """Return whether a worker has an item that another worker had when it died."""
    return len(peer.sent) == 1 and next(iter(peer.sent.values())).deaths > 0


def _send_all(peer: Peer, work: Work, items: list[Any]) -> list[Unsent]:
    """Send items. Take items that cannot be pickled out of both lists, and return them."""
    unsent = []
    while items:
        try:
            peer.channel.send([work, *items])
            break
        except ItemNotSent as error:
            place = error.index - 1
            if work.contexts is not None:
                del work.contexts[place]
            unsent.append(Unsent(work.numbers.pop(place), items.pop(place), error.__cause__ or error))
    return unsent
