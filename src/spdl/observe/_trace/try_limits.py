"""Sets limits of a running pipeline for a while, as `spdl why --try` asks for, and puts them back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.lifetime import set_limits
from spdl.pipeline._report.page_file import engines

from .messages import ChannelError

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node

    from .messages import Channel

__all__ = ["try_limits"]

# The asker ends the trial long before. If it is killed, the system closes the connection.
_MOST_SECONDS = 600.0
_MOST = 1024


def try_limits(asked: object, channel: Channel) -> None:
    """Set limits, say so, and put them back when the other side says so or has ended.

    Args:
        asked: The number of the `pipeline`, the name of the `stage`, its `concurrency`, and `num_threads`.
        channel: The connection to the process that asks.
    """
    found = _find(asked)
    if isinstance(found, str):
        channel.say(error=found)
        return
    engine, node, concurrency, num_threads = found
    with engine.lock:
        before, threads_before = node.concurrency, engine.workers.num_threads
        threads = max(threads_before, num_threads)
        set_limits(engine, {node: concurrency}, threads, engine.sink.capacity)
    try:
        channel.say(pipelines=1)
        with suppress(ChannelError, OSError):
            channel.hear(_MOST_SECONDS)
    finally:
        with engine.lock:
            # The program may have set others in the meantime, which stay.
            back = before if node.concurrency == concurrency else node.concurrency
            now = engine.workers.num_threads
            set_limits(engine, {node: back}, threads_before if now == threads else now, engine.sink.capacity)


def _find(asked: Any) -> tuple[Engine, Node, int, int] | str:
    """Return what is to be set, or why it cannot be."""
    try:
        number, name, numbers = asked["pipeline"], asked["stage"], (asked["concurrency"], asked["num_threads"])
    except (KeyError, TypeError):
        return "it was asked to try limits without saying which"
    if not all(isinstance(each, int) and 1 <= each <= _MOST for each in numbers):
        return f"it was asked to try limits that are not from 1 to {_MOST}"
    engine = next((each for each in engines() if each.pipeline_id == number), None)
    if engine is None:
        return f"it has no pipeline {number} any more"
    nodes = [node for node in engine.nodes if node.name == name and node.is_stage]
    if len(nodes) != 1 or not nodes[0].adjustable or nodes[0].copies != 1:
        return f"the concurrency of stage {name!r} cannot be changed while it runs"
    if nodes[0].left_open:
        return f"the concurrency of stage {name!r} is tuned already"
    return engine, nodes[0], *numbers
