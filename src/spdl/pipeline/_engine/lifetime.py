"""The life of a pipeline: the start of its threads, limits that change while it runs, and its end."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn
from weakref import WeakSet

from spdl._processes import PIPELINES, before_children_are_awaited
from spdl.pipeline._engine.letting_go import drop_all
from spdl.pipeline._engine.node import Node
from spdl.pipeline._report.failures import type_and_message
from spdl.pipeline._world import OBSERVABLE, Thread, monotonic, perf_counter

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine

_ids = itertools.count()


def next_pipeline_id() -> int:
    return next(_ids)


def number_pipelines_from(first: int) -> None:
    """Give the pipelines of this process numbers from ``first`` on, for a process that continues another's count."""
    global _ids  # noqa: PLW0603 - the count is the process's.
    _ids = itertools.count(first)


_MESSAGE = (
    "spdl.pipeline: an op or a source has forked this process ({pid}), and has returned or raised in the child, too. "
    "The pipeline's threads and the executors' are in the parent only, so the child ends here, with status 1. Let it "
    "call os._exit() or sys.exit() there, or use multiprocessing or subprocess instead of os.fork().\n"
)


def end_forked_child(engine: Engine, error: BaseException | None = None) -> NoReturn:
    """End this process, since nothing continues in it: a thread of the engine forked it, and has come back.

    A `SystemExit` ends it as it would end a program; its status is the child's. Nothing is flushed and no finalizer
    runs: what they are about is the parent's. ``error`` is what user code raised, if the engine has not recorded it.
    """
    errors = [error, *(failure for _, failure in engine.failures.stages)]
    ends = next((found for error in errors if (found := _exit_in(error)) is not None), None)
    if ends is None:
        message = _MESSAGE.format(pid=os.getpid())
        status = 1
    else:
        code = ends.code
        message = "" if code is None or isinstance(code, int) else f"{code}\n"
        status = code & 0xFF if isinstance(code, int) else int(bool(message))
    if message:
        # Buffers and their locks are copies, made at the fork.
        os.write(2, message.encode(errors="backslashreplace"))
    os._exit(status)


def _exit_in(error: BaseException | None) -> SystemExit | None:
    # Objects that are closed on the way out may raise as well: asyncio has no running loop in a forked child.
    seen: list[BaseException] = []
    while error is not None and all(error is not it for it in seen):
        if isinstance(error, SystemExit):
            return error
        seen.append(error)
        error = error.__context__
    return None


# `stop` waits so long for running ops when the caller names no time.
STOP_SECONDS = 10.0

# The interpreter's exit waits for so long after a Ctrl-C, however many follow. Threads that run on are ended in the
# middle of what they do, and so is the process if they are in C++ code that cannot bear it, as PyTorch's cannot.
_HASTY_SECONDS = 1.0

# A source that blocks in `next()` cannot be interrupted: its daemon thread is abandoned after this long.
_SOURCE_GRACE = 0.5

# One thread is awaited for so long before the others are looked at.
_SLICE = 0.02

_RUNNING: WeakSet[Engine] = WeakSet()
# The functions that the interpreter calls at its exit: the latest of these, at least.
_AT_EXIT: list[Callable[[], None]] = []


def watch(engine: Engine) -> None:
    """Stop the engine at the interpreter's exit, and mark it dead in forked children."""
    _RUNNING.add(engine)
    before_children_are_awaited(_stop_all, PIPELINES)
    # The last registered function is called first. multiprocessing, and the modules that own worker processes, end
    # these at the exit: a pipeline that still ran then would take that for deaths.
    before = list(_AT_EXIT)

    # A separate function, so that the one before can stay until it is there: a Ctrl-C may come between any two steps.
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
    """Ask the engine's threads to end and wait for them; return those that still run ops after that time.

    A thread that waits for the source is not among them.
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
    """Stop, and let go of what can no longer be asked for: the pipeline is gone. May be called by a finalizer."""
    engine.request_stop()
    # A finalizer inside a critical section must not run others there. After the interpreter's exit there may be no
    # thread that gives the lock back.
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
        # Python waits for the threads of its own pools. Threads of other pools are daemons: their calls would be ended
        # in the middle.
        await_executors(engine, deadline)


def _mark_forked() -> None:
    for engine in list(_RUNNING):
        engine.mark_forked()
    _RUNNING.clear()


os.register_at_fork(after_in_child=_mark_forked)


def start(engine: Engine, *, shown: bool = True) -> None:
    """Start the threads, and before them everything that must not be started beside threads.

    A request to stop may come in the meantime. It ends the start.
    """
    with engine.lock:
        # Executors are needed, though no thread is there yet: who stops the pipeline must not let go of them.
        engine.letting_go.thread_begins()
    try:
        _start(engine, shown=shown)
    finally:
        engine.letting_go.start_ends()


def abort(engine: Engine, error: BaseException) -> None:
    """Fail the pipeline because its start has failed, or was interrupted. Called without the lock."""
    try:
        # In words: the exception's frames hold whatever its readers hold, and so the pipeline.
        failure = RuntimeError(f"The pipeline could not be started: {type_and_message(error)}")
        with engine.lock:
            engine.failures.add("start", failure)
    finally:
        # After that, so that no reader sees an end before the failure.
        engine.request_stop()
    drop_remains(engine)


def _start(engine: Engine, *, shown: bool) -> None:
    for node in sorted(engine.nodes, key=lambda node: node.begins_threads()):
        # Each may take seconds.
        if engine.stopping:
            return
        node.warm()
    engine.begin(perf_counter())
    if shown:
        _describe(engine)
    if engine.needs_event_loop:
        with engine.lock:
            if engine.stopping:
                return
            event_loop = engine.start_event_loop()
        # If there are context managers to enter first, the event loop starts the workers afterwards.
        if event_loop.starts_workers():
            return
    start_workers(engine)


def _describe(engine: Engine) -> None:
    """Note what other processes may see of the pipeline, unless the user does not want them to watch."""
    if OBSERVABLE and os.environ.get("SPDL_OBSERVE") != "0":
        # Imported here because declaring and building pipelines needs none of it.
        from spdl.pipeline._engine.describe import describe, prepare_page  # noqa: PLC0415

        prepare_page()
        engine.describe(describe(engine), shown=True)


def start_workers(engine: Engine) -> None:
    with engine.lock:
        threads = engine.workers.add_up_to(useful_workers(engine))
        dedicated = [source.dedicated.thread for source in engine.sources if source.dedicated is not None]
        threads += engine.workers.adopt(dedicated)
        threads += engine.workers.adopt([thread for node in engine.nodes for thread in node.threads()])
    for thread in threads:
        # Under the lock, since `stop` waits for it before it looks which threads there are. Not all of them at once:
        # the first ones may begin.
        with engine.lock:
            if engine.stopping:
                return
            thread.start()


def useful_workers(engine: Engine) -> int:
    num_threads = engine.workers.num_threads
    useful = sum(node.concurrency for node in engine.ranked)
    # Each source may block, so each has a worker that counts as none of the ops'.
    pullers = sum(not (source.on_loop or source.dedicated) for source in engine.sources)
    ops = sum(node.concurrency for node in engine.ranked if node.on_workers)
    # If ops may keep all the others, what has come out elsewhere must not wait for one of them to end.
    spare = ops >= num_threads and bool(engine.permit_free)
    return min(num_threads, useful) + max(1, pullers) + spare


def set_concurrency(engine: Engine, node: Node, concurrency: int) -> None:
    if node.cancelled or node.finished or engine.is_over():
        return
    node.set_concurrency(concurrency)
    served = node.for_workers()
    if served is not None and served.on_workers and concurrency > engine.workers.num_threads:
        engine.workers.set_num_threads(concurrency)
    _apply(engine)


def set_num_threads(engine: Engine, num_threads: int) -> None:
    if not engine.is_over():
        engine.workers.set_num_threads(num_threads)
        _apply(engine)


def set_queue_capacity(engine: Engine, node: Node | None, capacity: int) -> None:
    if engine.is_over():
        return
    for channel in [engine.sink] if node is None else node.inputs():
        channel.set_capacity(capacity)
    for stage in engine.nodes:
        engine.made_room(stage)
    for source in engine.sources:
        engine.made_room(source)
    _apply(engine)


def set_limits(engine: Engine, concurrency: Mapping[Node, int], num_threads: int, sink_capacity: int) -> None:
    if engine.is_over():
        return
    for node, slots in concurrency.items():
        if not (node.cancelled or node.finished) and slots != node.concurrency:
            node.set_concurrency(slots)
    if num_threads != engine.workers.num_threads:
        engine.workers.set_num_threads(num_threads)
    if sink_capacity != engine.sink.capacity:
        set_queue_capacity(engine, None, sink_capacity)
    _apply(engine)


def _apply(engine: Engine) -> None:
    """Make all threads look that may have something to do now."""
    if engine.workers.started():
        for thread in engine.workers.add_up_to(useful_workers(engine)):
            thread.start()
    if engine.event_loop is not None:
        engine.event_loop.wake()
    engine.progressed()
