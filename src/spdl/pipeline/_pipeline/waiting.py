"""Reading from the sink: waiting for an entry, and acknowledging one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.groups import Group
from spdl.pipeline._engine.sentinel import EPOCH_END
from spdl.pipeline._world import TIMEOUT_MAX, Lock, monotonic, perf_counter

from .state import warn_of_nothing

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine

__all__ = ["check_usable", "cut_short", "take_back", "took", "wait"]


def took(engine: Engine, root: Any) -> None:
    """Acknowledge an entry that was popped from the sink."""
    if isinstance(root, Group):
        with engine.lock:
            engine.lineage.deliver(root)
            engine.progressed()
    elif root is EPOCH_END:
        if not engine.has_pulled():
            warn_of_nothing(engine)
    else:
        engine.lineage.deliver_position(root)
    if not engine.sink.entries:
        engine.sink.counters.emptied(perf_counter())
    if engine.sink.full:
        _announce_room(engine)


def cut_short(engine: Engine) -> None:
    """See to what a read may have taken from the sink that knows of nothing, since a Ctrl-C came in that very step."""
    if not engine.holds_lock():
        with engine.lock:
            engine.ends.take_if_lost(engine.sink)


def take_back(engine: Engine, root: Any) -> None:
    """See to what a read took from the sink that was cut short.

    Args:
        engine: The engine.
        root: The root of the entry; None if the read does not know of any.
    """
    if root is EPOCH_END:
        # The next read tells of it.
        engine.ends.take()
    elif root is not None:
        # Nobody gets the item, so nobody has received it.
        engine.lineage.take_back(root)


def _announce_room(engine: Engine) -> None:
    # A read that interrupts the engine cannot take the lock, and leaves this to the next read.
    if engine.forked or engine.holds_lock():
        return
    with engine.lock:
        engine.room_in_sink()


def wait(engine: Engine, deadline: float, gate: Lock | None) -> bool:
    """Wait until the sink may hold an entry or the gate is opened.

    Args:
        engine: The engine.
        deadline: When to give up, as `time.monotonic` tells it.
        gate: A lock that was taken. None makes one.

    Returns:
        False at the end of the items.

    Raises:
        TimeoutError: At the deadline.
    """
    if gate is None:
        gate = Lock()
        gate.acquire()
    opened = False
    begin = perf_counter()
    try:
        with engine.lock:
            if engine.sink.entries:
                return True
            engine.found_nothing()
            ended = engine.done or engine.stopping
            if not ended:
                engine.sink.readers.append(gate)
                # A request to stop takes no lock: it may have looked for readers before this one was among them.
                ended = engine.stopping
        if ended:
            return False
        engine.page.consumer_waits(begin)
        opened = gate.acquire(timeout=min(TIMEOUT_MAX, max(0.0, deadline - monotonic())))
        engine.page.consumer_waits(0.0)
        if not opened or engine.sink.entries:
            engine.sink.counters.awaited(perf_counter() - begin)
    finally:
        # A Ctrl-C may leave the gate there, and the page saying that somebody waits: nothing depends on that.
        with suppress(ValueError):
            engine.sink.readers.remove(gate)
    if not opened and not engine.sink.entries:
        raise TimeoutError(
            f"No item became available in time: none came in {perf_counter() - begin:.3g} seconds. Nothing is "
            "lost, and the next read goes on. `statistics()` says which stage keeps the others waiting; "
            "a longer `timeout` (in seconds), or None, waits for it"
        )
    return True


def check_usable(engine: Engine, verb: str) -> None:
    """Raise RuntimeError if this thread cannot wait for the engine."""
    if engine.forked:
        raise RuntimeError(
            "The pipeline was started before this process was forked, and its threads stayed in the parent. "
            "Build a pipeline in the child, or start processes by the 'spawn' or 'forkserver' method."
        )
    if engine.holds_lock() or (verb == "read" and engine.is_mine()):
        raise RuntimeError(
            f"The pipeline was {verb} from within itself, so it would wait for itself: in one of its ops, or in a "
            "finalizer or a signal handler that interrupted it."
        )
