"""A worker thread: it finds the most urgent work, does it, and carries the item on."""

from __future__ import annotations

from math import inf
from typing import Any

from spdl.pipeline._engine.cancellation import Abandoned
from spdl.pipeline._engine.channel import MARK
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.letting_go import drop_all
from spdl.pipeline._engine.lifetime import end_forked_child
from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._report.page import IDLE
from spdl.pipeline._state.origins import Root
from spdl.pipeline._world import Lock, get_ident, perf_counter

# The seconds after which an idle worker updates the page for the busy ones: first, and then each time that none of them
# has written. If the process is killed, the later updates show for how long it had hung. While the consumer takes from
# the sink, which it does not report, the second number is used.
_LOOK_AGAIN = (0.1, 1.0, 5.0, 20.0, 60.0)
_LOOK_AT_SINK = 1


def publish(engine: Engine) -> None:
    engine.page.write(engine, perf_counter())
    if (sleeper := engine.page.sleeper) is not None:
        # The sleeping worker would report late what the caller begins next.
        engine.workers.wake(sleeper)


def idle(engine: Engine, gate: Lock, row: memoryview[float]) -> None:
    """Wait at a worker's gate. Called and returns with the lock held.

    Before and during the wait, one idle worker keeps the page current. While stages may still make progress it writes
    again and again, more rarely if nothing changes. The next worker that does something writes itself, and wakes it.
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
                # The consumer reports when it continues.
                engine.sink.set_full(full=True)
        seconds = _LOOK_AGAIN[quiet]
    engine.lock.release()
    gate.acquire()
    engine.lock.acquire()


def _may_go_on(engine: Engine) -> bool:
    # A worker that runs no op may drop an item, or report a failure, and begin a long op afterwards.
    return (
        bool(engine.sink.entries)
        or engine.workers.any_awake()
        or any(node.running for node in engine.nodes)
        or any(source.pulling for source in engine.sources)
    )


def serve(engine: Engine) -> None:
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
                # Do nothing else in this round: a request to stop may have come in the meantime.
                _clean_up(engine)
                now = perf_counter()
            elif engine.waiting and (node := engine.select()) is not None:
                if node.on_workers:
                    now = carry(engine, node, None, [])
                else:
                    node.turn()
                    now = perf_counter()
            elif (source := pullable()) is not None:
                now = _pull(engine, source, hand)
            else:
                _idle(engine, gate, row)
            if now >= page.due:
                publish(engine)
    except Abandoned:
        workers.abandoned_ended()
    except BaseException as error:  # noqa: BLE001 - the consumer must get an error instead of waiting forever.
        engine.crash(error)
    if engine.forked:
        end_forked_child(engine)
    leave(engine, is_last=workers.leave(gate))


def _open_page(engine: Engine) -> None:
    """Make the page once. In a worker, no Ctrl-C comes between the file and its owner. Called with the lock held."""
    if (head := engine.take_description()) is not None:
        # The start has imported it.
        from spdl.pipeline._engine.describe import open_page  # noqa: PLC0415

        engine.show(open_page(engine, head))


def carry(engine: Engine, node: Node, root: Root | None, hand: list[Any]) -> float:
    """Run one item through as many stages as limits allow, and return when the last op ended.

    Called and returns with the lock held. It begins with the item in hand, if ``root`` is its origin: the caller must
    not keep it alive. Else it begins with a turn of what waits at the node.
    """
    workers = engine.workers
    workers.take_permit()
    while True:
        if root is not None or (node.plain and node.queue[0] is not MARK):
            node = node.start(root, hand)
            root = None
        else:
            node.turn()
        if engine.page.sleeper is not None:
            # The next op may take long, and no other thread looks.
            publish(engine)
        if engine.drops:
            # The next op may take long, and the object that this replaces should not live that long.
            engine.drop_deferred()
        following = node.next
        # The number of threads may have been lowered.
        if following is None or engine.stopping or workers.permits < 0 or following.on_loop or not following.ready():
            break
        node = following
    workers.return_permit()
    return perf_counter()


def _pull(engine: Engine, source: Source, hand: list[Any]) -> float:
    """Pull one item with the token, and carry it on if its first stage is free. Called and returns with the lock held.

    The item goes through ``hand``, an empty list. Returns when the pull, or the last op, ended.
    """
    root = source.pull(hand)
    if root is None:
        # If the source has ended, stages may end before another source is pulled, which may block.
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
        and first.admits()
    ):
        return carry(engine, first, root, hand)
    source.put(root, hand.pop())
    return source.pulled_at


def _idle(engine: Engine, gate: Lock, row: memoryview[float]) -> None:
    """Wait until a thread has work for this one. Called and returns with the lock held."""
    engine.settle()
    if engine.done or (engine.waiting and engine.select() is not None):
        return
    if _clean_up(engine):
        return
    if engine.reporter.lines:
        engine.drop_deferred()
        return
    if engine.budget is not None:
        # Another part may make progress although nothing else does.
        engine.budget.freed()
    workers = engine.workers
    workers.idle.append(gate)
    # A request to stop takes no lock: it may have woken the idle workers before this one was among them. A consumer
    # may have made room in the sink too.
    if engine.stopping or engine.pullable() is not None or (engine.waiting and engine.select() is not None):
        workers.stay_awake(gate)
        return
    idle(engine, gate, row)
    workers.arrived()


def _clean_up(engine: Engine) -> bool:
    """Drop objects that were taken out of queues, without the lock, and close a source that ended early."""
    source = next((source for source in engine.sources if source.must_be_closed()), None)
    if not engine.drops and source is None:
        return False
    dropped = engine.drops.take()
    engine.lock.release()
    drop_all(dropped)
    engine.lock.acquire()
    # In the meantime another worker may have closed it.
    if source is not None and source.must_be_closed():
        source.close()
    return True


def leave(engine: Engine, *, is_last: bool) -> None:
    if engine.stopping:
        for node in engine.nodes:
            engine.drops.extend(node.discard())
        if is_last:
            for node in engine.nodes:
                engine.reporter.stage_ended(node.counters)
            engine.page.remove()
    engine.page.leave(get_ident())
    engine.timer.end()
    while _clean_up(engine):
        pass
    engine.letting_go.thread_ends()
    engine.reporter.log()
