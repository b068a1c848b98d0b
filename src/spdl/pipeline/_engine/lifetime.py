"""The end of a pipeline: by `stop`, when nobody refers to it, at the interpreter's exit, and in a forked child."""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import TYPE_CHECKING
from weakref import WeakSet

from spdl._processes import PIPELINES, before_children_are_awaited
from spdl.pipeline._world import monotonic

from .deferred_drops import drop_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._world import Thread

    from .engine import Engine

__all__ = ["STOP_SECONDS", "await_executors", "drop_remains", "end_threads", "forget", "watch"]

# `stop` waits so long for running ops when the caller names no time.
STOP_SECONDS = 10.0

# The interpreter's exit waits for so long after a Ctrl-C, however many follow. Threads that run on are ended in the
# middle of what they do, and so is the process if they are in C++ code that cannot bear it, as PyTorch's cannot.
_HASTY_SECONDS = 1.0

# A source that blocks in `next()` cannot be interrupted: its daemon thread is left behind after this long.
_SOURCE_GRACE = 0.5

# One thread is awaited for so long before the others are looked at.
_SLICE = 0.02

_RUNNING: WeakSet[Engine] = WeakSet()
# What the interpreter calls at its exit: the latest of these, at least.
_AT_EXIT: list[Callable[[], None]] = []


def watch(engine: Engine) -> None:
    """Stop the engine at the interpreter's exit, and mark it dead in forked children."""
    _RUNNING.add(engine)
    before_children_are_awaited(_stop_all, PIPELINES)
    # What was registered last is called first. multiprocessing, and the modules that own worker processes, end these at
    # the exit: a pipeline that still ran then would take that for deaths.
    before = list(_AT_EXIT)

    # A function of its own, so that the one before can stay until it is there: a Ctrl-C may come between any two steps.
    def stop() -> None:
        _stop_all()

    _AT_EXIT.append(stop)
    atexit.register(stop)
    for each in before:
        atexit.unregister(each)
        # Other threads do the same.
        with contextlib.suppress(ValueError):
            _AT_EXIT.remove(each)


def end_threads(engine: Engine, seconds: float) -> list[Thread]:
    """Ask the engine's threads to end and wait for them.

    Returns:
        Those that still run ops after ``seconds``. A thread that waits for the source is not among them.
    """
    engine.request_stop()
    begin = monotonic()
    # Threads are started under the lock, and none any more once the request was seen there.
    with engine.lock:
        threads = engine.all_threads()
    while alive := [thread for thread in threads if thread.is_alive()]:
        elapsed = monotonic() - begin
        # Those of stages pull no source, although its puller may have ended in the middle of that.
        others = any(thread in alive for node in engine.nodes for thread in node.threads())
        if elapsed >= min(seconds, _SOURCE_GRACE) and len(alive) <= _threads_in_sources(engine) and not others:
            return []
        if elapsed >= seconds:
            loop = engine.event_loop
            return alive if loop is None or not loop.awaits_others() else [it for it in alive if it is not loop.thread]
        # They end in any order.
        for thread in alive:
            # A start that is under way elsewhere, or was interrupted, leaves threads that never ran.
            with contextlib.suppress(RuntimeError):
                thread.join(min(_SLICE, max(0.0, begin + seconds - monotonic())))
    return []


def _threads_in_sources(engine: Engine) -> int:
    """Return how many threads only a source keeps from ending."""
    pulling = sum(source.pulling and not source.on_loop for source in engine.sources)
    # While an async source is awaited its thread is free for other work, which may be what does not end.
    return pulling + (engine.event_loop is not None and engine.event_loop.waits_for_source())


def await_executors(engine: Engine, deadline: float) -> int:
    """Wait for what runs in executors; return how many ops still do at the deadline (of `time.monotonic`)."""
    return sum(node.await_calls(deadline - monotonic()) for node in engine.nodes)


def drop_remains(engine: Engine) -> None:
    """Drop what came back from executors after the last worker had left. Called without the lock."""
    with engine.lock:
        for node in engine.nodes:
            engine.drops.extend(node.discard())
        engine.drops.extend(engine.letting_go.take_unneeded())
        engine.page.remove()
        while engine.drops:
            engine.drop_deferred()


def forget(engine: Engine) -> None:
    """Stop, and let go of what nobody can ask for any more: the pipeline is gone. May be called by a finalizer."""
    engine.request_stop()
    # A finalizer inside a critical section must not run others there. After the interpreter's exit there may be nobody
    # to give the lock back.
    if engine.exited or engine.forked or engine.holds_lock():
        return
    with engine.lock:
        # Nobody can ask what failed.
        engine.letting_go.add(engine.failures)
        dropped = [*engine.sink.take_all(), *engine.letting_go.take_unneeded()]
    drop_all(dropped)


def _stop_all() -> None:
    # More than one call may be registered.
    engines = [engine for engine in _RUNNING if not engine.exited]
    try:
        _await_all(engines, monotonic() + STOP_SECONDS)
    except KeyboardInterrupt:
        deadline = monotonic() + _HASTY_SECONDS
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                _await_all(engines, deadline)
                break
        raise
    finally:
        # Nobody can wait for threads that run on: soon they are not there any more, and may have held the lock.
        for engine in engines:
            engine.mark_exited()


def _await_all(engines: list[Engine], deadline: float) -> None:
    for engine in engines:
        engine.request_stop()
    for engine in engines:
        end_threads(engine, max(0.0, deadline - monotonic()))
        # Python waits for the threads of its own pools. Those of others are daemons: what they run would be ended in
        # the middle.
        await_executors(engine, deadline)


def _mark_forked() -> None:
    for engine in list(_RUNNING):
        engine.mark_forked()
    _RUNNING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
