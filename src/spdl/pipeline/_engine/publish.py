"""Writes the counters of a running engine on its page, where other processes read them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from spdl.pipeline._metrics.page_columns import IDLE
from spdl.pipeline._world import perf_counter

if TYPE_CHECKING:
    from spdl.pipeline._world import Lock

    from .engine import Engine

__all__ = ["idle", "publish"]

# The seconds after which a worker that is idle looks at those that work: first, and where the looks before found that
# none of them had written. The later ones tell of a process that is killed then for how long it had hung. While the
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

    Before and meanwhile, one worker sees to it that the page tells what has happened, since nothing more may for long.
    While anything may still happen it looks again, more rarely if nothing does, and the next worker that does anything
    then writes itself and wakes it.
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
    # A worker that runs no op may drop an item, or tell of a failure, and begin a long op afterwards.
    return (
        bool(engine.sink.entries)
        or engine.workers.any_awake()
        or any(node.running for node in engine.nodes)
        or any(source.pulling for source in engine.sources)
    )
