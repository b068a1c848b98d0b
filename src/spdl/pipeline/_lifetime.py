"""What ends a pipeline that nobody stops: interpreter exit, and fork."""

from __future__ import annotations

import atexit
import contextlib
import os
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import threading

    from ._engine import Engine

__all__ = ["STOP_SECONDS", "join", "was_forked", "watch"]

# How long `stop` waits for running ops when the caller names no time.
STOP_SECONDS = 10.0

_RUNNING: WeakSet[Engine] = WeakSet()
_FORKED: WeakSet[Engine] = WeakSet()


def watch(engine: Engine) -> None:
    """Stop the engine at the interpreter's exit, and mark it dead in forked children."""
    _RUNNING.add(engine)


def was_forked(engine: Engine) -> bool:
    """Whether the engine was running in a parent process, whose threads did not come along."""
    return engine in _FORKED


def join(engine: Engine, deadline: float) -> list[threading.Thread]:
    """Wait for the engine's threads. Returns those still alive at the deadline (of `time.monotonic`)."""
    threads = [*engine.threads]
    if engine.lane is not None:
        threads.append(engine.lane.thread)
    for thread in threads:
        # A start that is under way elsewhere, or was interrupted, leaves threads that never ran: nothing to wait for.
        with contextlib.suppress(RuntimeError):
            thread.join(max(0.0, deadline - monotonic()))
    return [thread for thread in threads if thread.is_alive()]


def _stop_all() -> None:
    engines = list(_RUNNING)
    for engine in engines:
        engine.request_stop()
    deadline = monotonic() + STOP_SECONDS
    for engine in engines:
        join(engine, deadline)


def _mark_forked() -> None:
    for engine in list(_RUNNING):
        _FORKED.add(engine)
        _RUNNING.discard(engine)


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
