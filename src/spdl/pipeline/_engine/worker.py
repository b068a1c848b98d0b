"""What a worker thread does: find the most urgent work, do it, carry the item on."""

from __future__ import annotations

from threading import Lock
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from spdl.pipeline._failures.timeouts import WrittenOff
from spdl.pipeline._metrics.sampling import SHORT
from spdl.pipeline._nodes.function import DEFERRED, Attempt

from .deferred_drops import throw_away
from .node import STARVED
from .order import Ticket
from .sentinel import MARK

if TYPE_CHECKING:
    from spdl.pipeline._nodes.function import FunctionNode

    from .engine import Engine
    from .lineage import Root
    from .node import Node
    from .source import Source

__all__ = ["pull", "serve"]


def serve(engine: Engine) -> None:
    """The body of a worker thread."""
    gate = Lock()
    gate.acquire()
    engine.lock.acquire()
    engine.gates.append(gate)
    try:
        while not (engine.stopping or engine.done):
            if engine.rubbish:
                _drop_rubbish(engine)
            if engine.waiting and (node := engine.select()) is not None:
                if node.on_workers:
                    _carry(engine, node, None, [])
                else:
                    node.turn()
            elif (source := engine.pullable()) is not None:
                pull(engine, source)
            else:
                _idle(engine, gate)
    except WrittenOff:
        engine.written_off -= 1
    except BaseException as error:  # noqa: BLE001 - the consumer must be told instead of waiting for ever.
        engine.crash(error)
    engine.gates.remove(gate)
    _leave(engine)


# Everything is written out here: one more call per op would cost a tenth of the engine's throughput.
def _carry(engine: Engine, node: Node, root: Root | None, hand: list[Any]) -> None:  # noqa: C901, PLR0912, PLR0915
    """Run one item through as many stages as limits allow. Called and returns with the lock held.

    Args:
        engine: The engine.
        node: Where to begin: with the given item if ``root`` is not None, else with a turn of what waits there.
        root: Where the item came from.
        hand: Holds the item, which is taken out of it: the caller must not keep it alive.
    """
    value = hand.pop() if hand else None
    lock = engine.lock
    acquire, release = lock.acquire, lock.release
    idle = engine.idle
    engine.permits -= 1
    cpu = 0.0
    ticket: Any = None
    queued = False
    while True:
        if node.plain and not (root is None and node.queue[0] is MARK):
            if root is None:
                root, value = engine.dequeue(node)
                queued = True
            if TYPE_CHECKING:
                assert isinstance(node, FunctionNode)
            node.running += 1
            order = node.order
            if order is None:
                ticket = None
            else:
                ticket = Ticket()
                order.tickets.append(ticket)
            function = node.op
            # How many ops this one stands for, if it is measured.
            weight = node.weight if node.completed >= node.sample_at else 0
            if idle and not engine.waking:
                engine.progressed()
            begin = perf_counter()
            if weight:
                node.note_get(begin, weight)
                cpu = thread_time()
                begin = perf_counter()
            # The queue is empty where an item is carried past it.
            if node.waiting_since and (node.waiting_for or (queued and node.queue) or node.running >= node.limit):
                node.waits[node.waiting_for] += begin - node.waiting_since
                node.waiting_since = 0.0
            if queued:
                node.before.took(len(node.queue), begin, node.got_at)
                queued = False
            node.got_at = begin
            release()
            try:
                value = function(value)
            except BaseException as error:  # noqa: BLE001 - it becomes the item's failure, or the pipeline's.
                end = perf_counter()
                acquire()
                node.busy_seconds += end - begin
                node.other_seconds += end - begin
                node.fail(Attempt(root, value, ticket, 1), error)
                break
            end = perf_counter()
            if weight:
                cpu = thread_time() - cpu
            acquire()
            seconds = end - begin
            node.busy_seconds += seconds
            if weight:
                node.add_cpu(seconds, cpu, weight)
                node.note_task(seconds, weight, end)
            elif seconds >= SHORT:
                node.note_long(seconds)
            if value is None or type(value) in DEFERRED or node.cancelled:
                node.finish(Attempt(root, value, ticket, 1), value)
                break
            node.running -= 1
            node.completed += 1
            node.emitted += 1
            if not node.waiting_since and not node.queue:
                node.waiting_for = STARVED
                node.waiting_since = end
            following = node.next
            if order is None or order.take_alone(ticket):
                if following is None:
                    engine.sink.put((root, value), end)
                    break
                if (
                    following.plain
                    and not following.queue
                    and following.running < following.limit
                    and following.running + len(following.out) < following.room
                    and (following.order is None or following.order.has_place(following.limit))
                ):
                    node = following
                    continue
                if following.offers and not following.queue and following.offer(root, value):
                    break
                node.out.append((root, value))
                waiting = len(node.out)
                if waiting == 1 or waiting > node.behind.capacity:
                    node.behind.filled(waiting, end)
                engine.arrived(following)
            else:
                for entry in order.finish(ticket, (root, value)):
                    engine.emit(node, entry)
                if following is None:
                    break
        else:
            node.turn()
            if engine.rubbish:
                # The next op may take long, and what it replaces should not stay for it.
                engine.drop_rubbish()
            following = node.next
            if following is None:
                break
        root = value = None
        if engine.stopping or following.on_loop or not following.ready():
            break
        node = following
    engine.permits += 1


def pull(engine: Engine, source: Source) -> None:
    """Pull one item with the token; carry it on if its first stage is free. Called and returns with the lock held."""
    source.pulling = True
    begin = perf_counter()
    if source.position >= source.sample_at:
        source.note_wait(begin)
    source.pulling_since = begin
    if len(engine.sources) > 1 and engine.idle and not engine.waking:
        # This pull may block, and another source have something.
        engine.progressed()
    engine.lock.release()
    ended = False
    failure: BaseException | None = None
    hand: list[Any] = []
    try:
        hand.append(source.next())
    except StopIteration:
        ended = True
    except BaseException as error:  # noqa: BLE001 - it becomes the pipeline's failure.
        failure = error
    source.pulled_at = end = perf_counter()
    engine.lock.acquire()
    source.busy_seconds += end - begin
    source.pulling = False
    if failure is not None:
        # It is closed like one that is not wanted any more: it may hold files.
        engine.fail(source, None, failure)
    elif ended and source.continuous:
        source.end_epoch()
    elif ended:
        source.exhausted = True
        source.end()
    elif not source.ended and not engine.stopping:
        first = source.first
        if (
            first is not None
            and first.plain
            and engine.permits
            and source.dedicated is None
            and not first.queue
            and first.running < first.limit
            and first.running + len(first.out) < first.room
            and (first.order is None or first.order.has_place(first.limit))
        ):
            _carry(engine, first, source.admit(), hand)
        else:
            source.put(hand.pop())
    else:
        engine.rubbish += hand


def _idle(engine: Engine, gate: Lock) -> None:
    """Wait until somebody leaves work behind. Called and returns with the lock held."""
    engine.settle()
    if engine.done or (engine.waiting and engine.select() is not None):
        return
    if _drop_rubbish(engine):
        return
    if engine.reporter.lines:
        engine.drop_rubbish()
        return
    engine.idle.append(gate)
    # A request to stop takes no lock: it may have looked for idle workers before this one was among them. A consumer
    # may have made room in the sink likewise.
    if engine.stopping or engine.pullable() is not None or (engine.waiting and engine.select() is not None):
        try:
            engine.idle.remove(gate)
        except ValueError:
            gate.acquire()
        return
    engine.lock.release()
    gate.acquire()
    engine.lock.acquire()
    engine.waking = False


def _drop_rubbish(engine: Engine) -> bool:
    """Drop without the lock what was taken out of queues, and close a source that ended early."""
    source = next((source for source in engine.sources if _must_close(engine, source)), None)
    if not engine.rubbish and source is None:
        return False
    rubbish, engine.rubbish = engine.rubbish, []
    if source is not None:
        source.pulling = True
    engine.lock.release()
    throw_away(rubbish)
    failure: BaseException | None = None
    if source is not None:
        try:
            source.close()
        except BaseException as error:  # noqa: BLE001 - as for next().
            failure = error
    engine.lock.acquire()
    if source is not None:
        source.pulling = False
        source.exhausted = True
        if failure is not None:
            engine.fail(source, None, failure)
    return True


def _must_close(engine: Engine, source: Source) -> bool:
    wanted = not (source.ended or engine.stopping)
    elsewhere = source.on_loop or source.dedicated is not None
    return not (wanted or elsewhere or source.pulling or source.exhausted)


def _leave(engine: Engine) -> None:
    """End the thread. Called with the lock held."""
    if engine.stopping:
        for node in engine.nodes:
            engine.rubbish += node.discard()
        if not engine.gates:
            for node in engine.nodes:
                engine.reporter.stage_ended(node)
    engine.timer.end()
    while _drop_rubbish(engine):
        pass
    engine.lock.release()
    engine.reporter.log()
