"""What ends a pipeline that nobody stops: interpreter exit, and fork."""

from __future__ import annotations

import atexit
import contextlib
import os
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakSet

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    import threading

    from ._engine import Engine

__all__ = ["STOP_SECONDS", "end_threads", "watch"]

# How long `stop` waits for running ops when the caller names no time.
STOP_SECONDS = 10.0

# A source that blocks in `next()` cannot be interrupted: its daemon thread is left behind after this long.
_SOURCE_GRACE = 0.5

_RUNNING: WeakSet[Engine] = WeakSet()


def watch(engine: Engine) -> None:
    """Stop the engine at the interpreter's exit, and mark it dead in forked children."""
    _RUNNING.add(engine)


def end_threads(engine: Engine, seconds: float) -> list[threading.Thread]:
    """Ask the engine's threads to end and wait for them.

    Returns:
        Those that still run ops after ``seconds``. A thread that waits for the source is not among them.
    """
    engine.request_stop()
    begin = monotonic()
    alive = _join(engine, begin + min(seconds, _SOURCE_GRACE))
    if len(alive) > _pulling(engine):
        alive = _join(engine, begin + seconds)
    return alive if len(alive) > _pulling(engine) else []


def _pulling(engine: Engine) -> int:
    return sum(source.pulling for source in engine.sources)


def _join(engine: Engine, deadline: float) -> list[threading.Thread]:
    _wait_for(engine.threads, deadline)
    # A worker may have started these until its end.
    others = [engine.timer.thread] if engine.lane is None else [engine.timer.thread, engine.lane.thread]
    _wait_for(others, deadline)
    return [thread for thread in (*engine.threads, *others) if thread.is_alive()]


def _wait_for(threads: list[threading.Thread], deadline: float) -> None:
    for thread in threads:
        # A start that is under way elsewhere, or was interrupted, leaves threads that never ran: nothing to wait for.
        with contextlib.suppress(RuntimeError):
            thread.join(max(0.0, deadline - monotonic()))


def _stop_all() -> None:
    engines = list(_RUNNING)
    for engine in engines:
        engine.request_stop()
    deadline = monotonic() + STOP_SECONDS
    for engine in engines:
        end_threads(engine, max(0.0, deadline - monotonic()))


def _mark_forked() -> None:
    for engine in list(_RUNNING):
        engine.forked = True
    _RUNNING.clear()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
