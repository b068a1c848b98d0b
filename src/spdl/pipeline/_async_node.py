"""Stages whose op is a coroutine function or an async generator function."""

from __future__ import annotations

from time import perf_counter
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any

from ._function_node import FunctionNode
from ._lineage import Group
from ._node import EDGE_CAPACITY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ._engine import Engine
    from ._lane import Deferred
    from ._lineage import Root
    from ._order import Order, Ticket

__all__ = ["AsyncNode", "run_deferred"]


class AsyncNode(FunctionNode):
    """A stage that the event loop's thread serves.

    Up to ``concurrency`` servers, each an asyncio task, take items from the queue themselves. A server ends when
    there is nothing to take; the lane starts new ones when there is.
    """

    __slots__ = ("servers",)

    on_loop = True

    def __init__(self, engine: Engine, name: str, op: Callable[[Any], Any], limit: int, *, order: Order | None) -> None:
        super().__init__(engine, name, op, limit, order=order)
        self.plain = False
        # Tasks that will look into the queue before they end.
        self.servers = 0

    def ready(self) -> bool:
        """Never: workers do not serve it."""
        return False

    def has_place(self) -> bool:
        # The loop starts what waits as soon as it runs, so free slots count as places: otherwise source and loop
        # would hand over two items at a time.
        return len(self.queue) + self.running < EDGE_CAPACITY + self.limit

    def can_start(self) -> bool:
        self.wants_room = False
        if super().can_start():
            return True
        self.wants_room = bool(self.queue) and self.running < self.limit
        return False

    async def serve(self) -> None:
        """The body of a server."""
        engine = self.engine
        lock = engine.lock
        while True:
            with lock:
                if engine.stopping or not self.can_start():
                    self.servers -= 1
                    return
                root, value, ticket = self.take()
                if engine.source.pullable():
                    engine.progressed()
            try:
                deferred = self.op(value)
            except BaseException as error:  # noqa: BLE001 - it becomes the item's failure, or the pipeline's.
                _conclude_failure(self, root, ticket, error)
                continue
            del value
            await run_deferred(self, root, ticket, deferred)
            del deferred


def _conclude_failure(node: FunctionNode, root: Root, ticket: Ticket | None, error: BaseException) -> None:
    engine = node.engine
    engine.lock.acquire()
    try:
        node.fail(root, ticket, error)
        engine.concluded()
    finally:
        engine.lock.release()


async def run_deferred(
    node: FunctionNode,
    root: Root,
    ticket: Ticket | None,
    deferred: Deferred,
) -> None:
    """Await a coroutine, or exhaust an async generator, and pass on what comes of it. It holds a slot of ``node``."""
    engine = node.engine
    begin = perf_counter()
    try:
        if isinstance(deferred, AsyncGeneratorType):
            root = Group([root], 1)
            await _exhaust(node, root, ticket, deferred)
            with engine.lock:
                node.completed += 1
                node.busy_seconds += perf_counter() - begin
                node.end(root, ticket)
                engine.concluded()
            return
        value = await deferred
    except BaseException as error:
        if engine.stopping:
            raise
        node.busy_seconds += perf_counter() - begin
        _conclude_failure(node, root, ticket, error)
        return
    with engine.lock:
        node.busy_seconds += perf_counter() - begin
        node.finish(root, ticket, value)
        engine.concluded()


async def _exhaust(node: FunctionNode, root: Group, ticket: Ticket | None, results: AsyncIterator[Any]) -> None:
    engine = node.engine
    assert engine.lane is not None
    async for value in results:
        while True:
            with engine.lock:
                if node.cancelled or engine.stopping:
                    return
                if value is None:
                    node.dropped += 1
                    break
                if node.may_emit(ticket):
                    root.pending += 1
                    node.emit(ticket, root, value)
                    engine.progressed()
                    break
                node.wants_room = True
                room = engine.lane.wait_for_room()
            await room
