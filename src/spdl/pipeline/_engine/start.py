"""The start of a pipeline's threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._world import perf_counter

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["start", "start_workers"]


def start(engine: Engine) -> None:
    """Start the threads, and before them everything that must not be started beside threads."""
    for node in engine.nodes:
        node.warm()
    engine.begin(perf_counter())
    # If there are context managers to enter first, the event loop starts the workers afterwards.
    if not (engine.needs_event_loop and engine.start_event_loop().starts_workers()):
        start_workers(engine)


def start_workers(engine: Engine) -> None:
    """Start the workers, and the threads of sources that have their own."""
    with engine.lock:
        threads = engine.workers.add_up_to(engine.useful_workers())
        dedicated = [source.dedicated.thread for source in engine.sources if source.dedicated is not None]
        threads += engine.workers.adopt(dedicated)
    for thread in threads:
        thread.start()
