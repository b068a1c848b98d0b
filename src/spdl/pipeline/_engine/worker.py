"""The work of a worker thread: find the most urgent work, do it, carry the item on."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.cancellation import Abandoned
from spdl.pipeline._engine.channel import AHEAD, MARK, Ticket
from spdl.pipeline._engine.letting_go import drop_all
from spdl.pipeline._engine.lifetime import end_forked_child
from spdl.pipeline._engine.node import LAZY_TYPES, Attempt, Node
from spdl.pipeline._report.counters import STARVED
from spdl.pipeline._report.page import IDLE, ITEM
from spdl.pipeline._report.perf_stats import SHORT
from spdl.pipeline._state.origins import Root, origin_of
from spdl.pipeline._world import Lock, get_ident, perf_counter, thread_time

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.source import Source

# The seconds after which a worker that is idle looks at those that work: first, and where the looks before found that
# none of them had written. The later ones tell about a process that is killed then for how long it had hung. While the
# consumer takes what lies in the sink, which it tells nobody, it is the second.
_LOOK_AGAIN = (0.1, 1.0, 5.0, 20.0, 60.0)
_LOOK_AT_SINK = 1


def publish(engine: Engine) -> None:
    """Write the counters on the page. Called with the lock held."""
    engine.page.write(engine, perf_counter())
    if (sleeper := engine.page.sleeper) is not None:
        # What the caller begins next would be told late.
        engine.workers.wake(sleeper)


def idle(engine: Engine, gate: Lock, row: memoryview[float]) -> None:
    """Wait at a worker's gate. Called and returns with the lock held.

    Before and during that, one worker sees to it that the page tells what has happened, since nothing more may for
    long. While anything may still happen it looks again, more rarely if nothing does, and the next worker that does
    anything then writes itself and wakes it.
    """
    page = engine.page
    now = row[IDLE] = perf_counter()
    seconds = 0.0
    quiet, in_sink = 0, len(engine.sink.entries)
    if now >= page.due:
        publish(engine)
    if not page.flushing and page.due < inf:
        seconds = page.due - now
    while seconds:
        page.set_flushing(flushing=True, sleeper=gate if quiet else None)
        due = page.due
        engine.lock.release()
        woken = gate.acquire(timeout=seconds)
        engine.lock.acquire()
        page.set_flushing(flushing=False)
        if woken:
            return
        others_wrote = page.due != due
        publish(engine)
        if page.due == inf or not _may_go_on(engine):
            break
        before, in_sink = in_sink, len(engine.sink.entries)
        if others_wrote:
            quiet = 0
        elif in_sink != before:
            quiet = _LOOK_AT_SINK
        else:
            quiet = min(quiet + 1, len(_LOOK_AGAIN) - 1)
            if in_sink:
                # When the consumer goes on, it tells.
                engine.sink.set_full(full=True)
        seconds = _LOOK_AGAIN[quiet]
    engine.lock.release()
    gate.acquire()
    engine.lock.acquire()


def _may_go_on(engine: Engine) -> bool:
    # A worker that runs no op may drop an item, or tell about a failure, and begin a long op afterwards.
    return (
        bool(engine.sink.entries)
        or engine.workers.any_awake()
        or any(node.running for node in engine.nodes)
        or any(source.pulling for source in engine.sources)
    )


def serve(engine: Engine) -> None:
    """The body of a worker thread."""
    workers = engine.workers
    engine.lock.acquire()
    engine.letting_go.thread_begins()
    gate = workers.enter()
    _open_page(engine)
    page = engine.page
    row = page.enter(get_ident())
    now = 0.0
    hand: list[Any] = []
    pullable = engine.pullable
    try:
        while not (engine.stopping or engine.done):
            if engine.drops:
                # Nothing else is done in this round: it may be asked to stop in the meantime.
                _clean_up(engine)
                now = perf_counter()
            elif engine.waiting and (node := engine.select()) is not None:
                if node.on_workers:
                    now = carry(engine, node, None, [], row)
                else:
                    node.turn()
                    now = perf_counter()
            elif (source := pullable()) is not None:
                now = _pull(engine, source, row, hand)
            else:
                _idle(engine, gate, row)
            if now >= page.due:
                publish(engine)
    except Abandoned:
        workers.abandoned_ended()
    except BaseException as error:  # noqa: BLE001 - the consumer must be told instead of waiting for ever.
        engine.crash(error)
    if engine.forked:
        end_forked_child(engine)
    _leave(engine, is_last=workers.leave(gate))


def _open_page(engine: Engine) -> None:
    """Make the page once. In a worker, no Ctrl-C comes between the file and its owner. Called with the lock held."""
    if (head := engine.take_description()) is not None:
        # The start has imported it.
        from spdl.pipeline._engine.describe import open_page  # noqa: PLC0415

        engine.show(open_page(engine, head))


# Everything is written out here, also what belongs to the node, its counters and its channel: one more call per op
# would cost a tenth of the engine's throughput. tests/pipeline/engine/test_carry.py holds it against their methods.
def carry(  # noqa: C901, PLR0912, PLR0915
    engine: Engine, node: Node, root: Root | None, hand: list[Any], row: memoryview[float]
) -> float:
    """Run one item through as many stages as limits allow. Called and returns with the lock held.

    Args:
        engine: The engine.
        node: The node to begin with: with the given item if ``root`` is not None, else with a turn of what waits there.
        root: The item's origin.
        hand: Holds the item, which is taken out of it: the caller must not keep it alive.
        row: The thread's row on the page.

    Returns:
        When the last op ended.
    """
    value = hand.pop() if hand else None
    lock = engine.lock
    acquire, release = lock.acquire, lock.release
    workers = engine.workers
    idle = workers.idle
    workers.permits -= 1
    ticket: Any = None
    cpu = 0.0
    result: Any
    entry: Any
    queued = False
    while True:
        if node.plain and not (root is None and node.queue[0] is MARK):
            counters = node.counters
            if root is None:
                queue = node.queue
                counters.queue.fill += len(queue)
                if node.feeders[0].wants_room:
                    node.feeders[0].room_made()
                engine.waiting -= 1
                root, value = queue.popleft()
                queued = True
            node.running += 1
            order = node.order
            if order is None:
                ticket = None
            else:
                ticket = Ticket()
                order.tickets.append(ticket)
            function = node.op
            # The number of ops that this one stands for; 0 if it is not measured.
            weight = counters.weight if counters.completed >= counters.sample_at else 0
            begin = perf_counter()
            if weight:
                counters.note_get(begin, weight)
                cpu = thread_time()
                row[ITEM] = origin_of(root)
                begin = row[node.column] = perf_counter()
            # The queue is empty if an item is carried past it.
            if (
                not counters.waiting_since
                or counters.waiting_for
                or (queued and node.queue)
                or node.running >= node.concurrency
            ):
                if counters.waiting_since:
                    counters.waits[counters.waiting_for] += begin - counters.waiting_since
                    counters.waiting_since = 0.0
                if node.running < node.concurrency and not node.queue:
                    # Another slot waits for an item from now on, whatever it has waited for until now.
                    counters.waiting_for = STARVED
                    counters.waiting_since = begin
            if queued:
                counters.queue.took(begin, counters.got_at, len(node.queue) - node.input.capacity)
                queued = False
            counters.got_at = begin
            if idle and not workers.waking and (workers.permits > 0 or engine.wanted_when_full):
                # After the wait has ended: who looks may find that another slot waits for room from now on.
                engine.progressed()
                begin = perf_counter()
            release()
            if engine.stopping:
                end = begin
                acquire()
                node.running -= 1
                engine.drops.append(value)
                break
            try:
                result = function(value)
            except BaseException as error:  # noqa: BLE001 - it becomes the item's failure, or the pipeline's.
                end = perf_counter()
                acquire()
                counters.did_not_succeed(end - begin)
                node.fail(Attempt(root, value, ticket, 1), error)
                break
            end = perf_counter()
            if weight:
                cpu = thread_time() - cpu
            seconds = end - begin
            if type(result) in LAZY_TYPES:
                acquire()
                counters.busy_seconds += seconds
                if weight:
                    counters.add_cpu(seconds, cpu, weight)
                # The call was not a task: the results to come are. What fails later, or is tried again, is the item.
                counters.other_seconds += seconds
                node.finish(Attempt(root, value, ticket, 1), result)
                engine.drops.append(value)
                break
            # The input is dropped before the lock is taken.
            value = result
            acquire()
            counters.busy_seconds += seconds
            if weight:
                counters.add_cpu(seconds, cpu, weight)
                counters.note_task(seconds, weight, end)
                if engine.page.sleeper is not None:
                    publish(engine)
            elif seconds >= SHORT:
                counters.note_long(seconds)
                # The next op may take long as well, and no other thread looks.
                if engine.page.sleeper is not None:
                    publish(engine)
            if value is None or node.cancelled or engine.stopping:
                node.finish(Attempt(root, value, ticket, 1), value)
                break
            node.running -= 1
            counters.completed += 1
            counters.emitted += 1
            if not counters.waiting_since and not node.queue:
                counters.waiting_for = STARVED
                counters.waiting_since = end
            following = node.next
            # The usual case makes no call of `take_alone`: the only ticket is the head, and its own.
            if order is None or (len(order.tickets) == 1 and order.tickets.pop() is ticket) or order.take_alone(ticket):
                if following is None:
                    engine.sink.put((root, value), end)
                    break
                if (
                    following.plain
                    and not following.queue
                    and following.running < following.concurrency
                    and (not following.out or following.running + len(following.out) < following.room)
                    and (following.order is None or len(following.order.tickets) < following.concurrency + AHEAD)
                    and workers.permits >= 0
                ):
                    node = following
                    continue
                if following.offers and not following.queue and following.offer(root, value):
                    break
                node.out.append((root, value))
                waiting = len(node.out)
                if waiting == 1 or waiting > node.output.capacity:
                    node.output.note_put(waiting, end)
                engine.arrived(following)
            else:
                for entry in order.finish(ticket, (root, value)):
                    engine.emit(node, entry)
                # The next ops may take long, and another thread may be done with it before.
                entry = None
                if following is None:
                    break
        else:
            node.turn()
            end = perf_counter()
            if engine.page.sleeper is not None:
                publish(engine)
            if engine.drops:
                # The next op may take long, and what it replaces should not stay for it.
                engine.drop_deferred()
            following = node.next
            if following is None:
                break
        root = value = result = None
        # The number of threads may have been lowered.
        if engine.stopping or workers.permits < 0 or following.on_loop or not following.ready():
            break
        node = following
    workers.permits += 1
    return end


def _pull(engine: Engine, source: Source, row: memoryview[float], hand: list[Any]) -> float:
    """Pull one item with the token; carry it on if its first stage is free. Called and returns with the lock held.

    Args:
        engine: The engine.
        source: The source to pull.
        row: The thread's row on the page.
        hand: An empty list, through which the item goes.

    Returns:
        When the pull, or the last op, ended.
    """
    root = source.pull(hand)
    if root is None:
        # If it has ended, stages may end before another source is pulled, which may block.
        engine.settle()
        return source.pulled_at
    if engine.page.sleeper is not None:
        # The first op may take long, as the pull has.
        publish(engine)
    first = source.next_stage
    if (
        first is not None
        and first.plain
        and engine.workers.permits > 0
        and source.dedicated is None
        and not first.queue
        and first.running < first.concurrency
        and (not first.out or first.running + len(first.out) < first.room)
        and (first.order is None or len(first.order.tickets) < first.concurrency + AHEAD)
    ):
        return carry(engine, first, root, hand, row)
    source.put(root, hand.pop())
    return source.pulled_at


def _idle(engine: Engine, gate: Lock, row: memoryview[float]) -> None:
    """Wait until a thread leaves work behind. Called and returns with the lock held."""
    engine.settle()
    if engine.done or (engine.waiting and engine.select() is not None):
        return
    if _clean_up(engine):
        return
    if engine.reporter.lines:
        engine.drop_deferred()
        return
    if engine.budget is not None:
        # Somebody may go on where nobody else does.
        engine.budget.freed()
    workers = engine.workers
    workers.idle.append(gate)
    # A request to stop takes no lock: it may have looked for idle workers before this one was among them. A consumer
    # may have made room in the sink too.
    if engine.stopping or engine.pullable() is not None or (engine.waiting and engine.select() is not None):
        workers.stay_awake(gate)
        return
    idle(engine, gate, row)
    workers.arrived()


def _clean_up(engine: Engine) -> bool:
    """Drop without the lock what was taken out of queues, and close a source that ended early."""
    source = next((source for source in engine.sources if source.must_be_closed()), None)
    if not engine.drops and source is None:
        return False
    dropped = engine.drops.take()
    engine.lock.release()
    drop_all(dropped)
    engine.lock.acquire()
    # Meanwhile another worker may have come to it.
    if source is not None and source.must_be_closed():
        source.close()
    return True


def _leave(engine: Engine, *, is_last: bool) -> None:
    """End the thread. Called with the lock held."""
    if engine.stopping:
        for node in engine.nodes:
            engine.drops.extend(node.discard())
        if is_last:
            for node in engine.nodes:
                engine.reporter.stage_ended(node.counters)
        if is_last:
            engine.page.remove()
    engine.page.leave(get_ident())
    engine.timer.end()
    while _clean_up(engine):
        pass
    engine.letting_go.thread_ends()
    engine.reporter.log()
