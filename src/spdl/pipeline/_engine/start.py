"""The start of a pipeline's threads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spdl.pipeline._failures.error_text import type_and_message
from spdl.pipeline._world import OBSERVABLE, perf_counter

from . import lifetime

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["abort", "start", "start_workers", "useful_workers"]


def start(engine: Engine, *, shown: bool = True) -> None:
    """Start the threads, and before them everything that must not be started beside threads.

    A request to stop may come meanwhile. It ends the start.
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
    lifetime.drop_remains(engine)


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
    """Note what other processes are told of the pipeline, unless the user does not want them to watch."""
    if OBSERVABLE and os.environ.get("SPDL_OBSERVE") != "0":
        # Imported here because declaring and building pipelines needs none of it.
        from .describe import describe  # noqa: PLC0415
        from .open_page import prepare_page  # noqa: PLC0415

        prepare_page()
        engine.describe(describe(engine), shown=True)


def start_workers(engine: Engine) -> None:
    """Start the workers, and the threads of sources that have their own."""
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
    """Return how many workers the stages and sources have use for."""
    num_threads = engine.workers.num_threads
    useful = sum(node.concurrency for node in engine.ranked)
    # Each source may block, so each has a worker that counts as none of the ops'.
    pullers = sum(not (source.on_loop or source.dedicated) for source in engine.sources)
    ops = sum(node.concurrency for node in engine.ranked if node.on_workers)
    # Where ops may keep all the others, what has come out elsewhere must not wait for one of them to end.
    spare = ops >= num_threads and bool(engine.permit_free)
    return min(num_threads, useful) + max(1, pullers) + spare
