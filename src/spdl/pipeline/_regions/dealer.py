"""Deals a region's items out to its workers: which of them gets how many, and when."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spdl.pipeline._engine.item_contexts import context_of
from spdl.pipeline._engine.order import AHEAD
from spdl.pipeline._engine.sentinel import MARK
from spdl.pipeline._transport.signals import ChannelClosed, ItemNotSent, PeerGone
from spdl.pipeline._world import perf_counter

from .messages import Limits, Work
from .sent import Sent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.pipeline._engine.groups import Root
    from spdl.pipeline._engine.node import Node

    from .peer import Peer

__all__ = ["Dealer"]

# Seconds that sending may take without another thread being woken to see to the rest. Waking one takes as long.
_QUICK = 3e-4


class Unsent(NamedTuple):
    """An item that could not be pickled: its number, itself, and why."""

    number: int
    item: Any
    error: BaseException


class Workers(Protocol):
    """What a dealer wants to know of the workers; `Staff` tells it."""

    reruns: bool

    @property
    def peers(self) -> Sequence[Peer]: ...

    def limits_for(self, peer: Peer) -> dict[int, int]: ...

    def width(self) -> int: ...


class Dealer:
    """Takes items from a region's queue, and sends them. All of it is called with the engine's lock held.

    Any of the items that a dead worker had may be what it died of. So each of them goes to a worker that has nothing
    else, and gets nothing else meanwhile: of what such a worker dies is known. That does not work where items are
    gathered, since nothing would come of a single one.

    A worker that has yet to begin gets nothing if another one has begun. It imports what it needs, which may take
    seconds, and what it got would wait for that.

    Nor does a worker get anything whose channel has no room. It reads the channel, and tells so, as long as its results
    go on; where they do not, the thread that waits for room could be the one that makes room for them.

    Args:
        region: The region.
        workers: Its workers.
        take_back: Called with what could not be sent, with the item, and with the reason.
        with_contexts: Whether to tell where the items come from.
        gathers: Whether a stage makes one item of several.

    Attributes:
        again: Items of workers that have died, to be sent again.
    """

    def __init__(
        self,
        region: Node,
        workers: Workers,
        take_back: Callable[[Sent, Any, BaseException], None],
        *,
        with_contexts: bool,
        gathers: bool,
    ) -> None:
        self._region = region
        self._workers = workers
        self._take_back = take_back
        self._with_contexts = with_contexts
        # Whether those go alone that are sent again, if any are.
        self._alone = workers.reruns and not gathers
        self.again: deque[Sent] = deque()
        # How long sending a batch takes, as seen lately.
        self._seconds = _QUICK

    def has_items(self) -> bool:
        """Return whether an item waits, and no end of an epoch before it."""
        return bool(self.again) or self._has_new()

    def worker(self) -> Peer | None:
        """Return the worker that is to get the next items, if one is."""
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
        """Return the workers that may get something: those that have begun, or all if none has."""
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
                # It gets no more until it is empty.
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
        """Send a batch of items to a worker. It releases the lock meanwhile."""
        region = self._region
        engine = region.engine
        limits = self._workers.limits_for(peer)
        numbers, roots, items = self._take(peer)
        # It has half of what it has yet to take when it tells that it took something.
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
                peer.channel.send([Limits(limits)])
            contexts = [context_of(engine.locate_item, root) for root in roots] if self._with_contexts else None
            failed = _send_all(peer, Work(numbers, tell_at, contexts), items)
        except (PeerGone, ChannelClosed):
            # The region's thread learns of it, and knows what the worker had.
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
        """Send what waits here. The region's thread does it, which is the first to learn that a worker wants more.

        It never waits for a worker, which may be waiting for it.
        """
        region = self._region
        while self.has_items() and not (region.cancelled or region.engine.stopping):
            peer = self.worker()
            if peer is None or not self._is_quick(peer):
                return
            self.send(peer)

    def send_again(self, items: Sequence[Sent]) -> None:
        """Have items sent again, before all that are new."""
        if self._alone and len(items) == 1 and items[0].deaths > 1:
            # It is what kills, most likely. The others first.
            self.again.extend(items)
        else:
            self.again.extendleft(reversed(items))
        self._region.engine.add_turns(len(items))

    def discard(self) -> list[Sent]:
        """Take out what was to be sent again."""
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
        """Return whether what waits here is to cross now, or more should be there first: each crossing costs.

        A worker without work gets whatever there is. One that has some can wait for half a batch, and one that has
        enough for a whole one. It tells when it has taken all, so what waits here does not wait for ever.
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
        """Return whether one more item may go to the workers. Those that are sent again have their tickets."""
        order = self._region.order
        return order is None or len(order.tickets) < self._workers.width() + AHEAD

    def _is_quick(self, peer: Peer) -> bool:
        """Return whether sending is sure not to wait for the worker, and takes no longer than waking a thread."""
        return self._seconds < _QUICK and peer.channel.has_room()


def _has_one_again(peer: Peer) -> bool:
    """Return whether a worker has an item that another one has died with."""
    return len(peer.sent) == 1 and next(iter(peer.sent.values())).deaths > 0


def _send_all(peer: Peer, work: Work, items: list[Any]) -> list[Unsent]:
    """Send items, and take those out of both lists that cannot be pickled. Return these."""
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
