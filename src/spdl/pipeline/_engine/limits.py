"""Limits that change while a pipeline runs. All of it is called with the engine's lock held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .start import useful_workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .engine import Engine
    from .node import Node

__all__ = ["set_concurrency", "set_limits", "set_num_threads", "set_queue_capacity"]


def set_concurrency(engine: Engine, node: Node, concurrency: int) -> None:
    """Change how many items a stage may work on at once, and add threads if there are fewer."""
    if node.cancelled or node.finished or engine.is_over():
        return
    node.set_concurrency(concurrency)
    served = node.for_workers()
    if served is not None and served.on_workers and concurrency > engine.workers.num_threads:
        engine.workers.set_num_threads(concurrency)
    _apply(engine)


def set_num_threads(engine: Engine, num_threads: int) -> None:
    """Change how many synchronous ops may run at once. If more run now, none starts until enough have ended."""
    if not engine.is_over():
        engine.workers.set_num_threads(num_threads)
        _apply(engine)


def set_queue_capacity(engine: Engine, node: Node | None, capacity: int) -> None:
    """Change how many items may wait in front of a stage, or, if it is None, to be read."""
    if engine.is_over():
        return
    for channel in [engine.sink] if node is None else node.inputs():
        channel.set_capacity(capacity)
    for stage in engine.nodes:
        stage.limits_changed()
        engine.made_room(stage)
    for source in engine.sources:
        engine.made_room(source)
    _apply(engine)


def set_limits(engine: Engine, concurrency: Mapping[Node, int], num_threads: int, sink_capacity: int) -> None:
    """Change several limits at once: of stages, the number of threads, and how many items may wait to be read."""
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
    """Have everybody look who may have something to do now."""
    if engine.workers.started():
        for thread in engine.workers.add_up_to(useful_workers(engine)):
            thread.start()
    if engine.event_loop is not None:
        engine.event_loop.wake()
    engine.progressed()
