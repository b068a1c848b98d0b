"""The stage where one branch becomes several: a router says which path an item takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._async_node import AsyncNode
from ._function_node import DEFERRED, FunctionNode
from ._node import BLOCKED, EDGE_CAPACITY
from ._policy import BEAR_ALL
from ._sentinel import MARK

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._engine import Engine
    from ._function_node import Attempt
    from ._node import Node

__all__ = ["AsyncRouterNode", "RouterNode", "Routing"]

# How many items may wait for paths that are full before the router stops, so that a slow path does not hold up the
# others at once. The reference looks as far ahead.
_LOOK_AHEAD = 32


class Routing(FunctionNode):
    """Calls ``router(item)``, one item at a time, and puts the item into the path with that index.

    A router that fails, or names a path that does not exist, fails the pipeline: it is no property of one item.
    """

    __slots__ = ()

    adjustable = False
    calls_op = False

    # The first stage of each path.
    paths: list[Node]

    def has_room(self, reserved: int) -> bool:  # noqa: ARG002 - it routes one item at a time.
        if sum(max(0, len(path.queue) - EDGE_CAPACITY) for path in self.paths) < _LOOK_AHEAD:
            return True
        self.wait(BLOCKED)
        return False

    def pass_mark(self) -> None:
        """Tell every path of the epoch's end. Called with the lock held."""
        self.engine.dequeue(self)
        for path in self.paths:
            path.queue.append(MARK)
            self.engine.arrived(path)

    def finish(self, attempt: Attempt, value: Any) -> None:
        """Route the item. Called with the lock held."""
        if self.cancelled:
            self.slot_freed()
        elif type(value) in DEFERRED:
            self.defer(attempt, value)
        elif not issubclass(type(value), int):
            got = type(value).__name__
            self.fail(attempt, TypeError(f"The router of {self.name!r} must return an int, got one of type {got}."))
        elif not 0 <= value < len(self.paths):
            last = len(self.paths) - 1
            self.fail(attempt, IndexError(f"The router of {self.name!r} must return 0 to {last}, got {value}."))
        else:
            self.completed += 1
            self.emitted += 1
            path = self.paths[value]
            path.queue.append((attempt.root, attempt.item))
            self.engine.arrived(path)
            self.slot_freed()

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        """Fail the pipeline. Called with the lock held."""
        self.failed += 1
        self.slot_freed()
        self.engine.fail(self, attempt.root, error)


class RouterNode(Routing):
    """A router that is a plain function."""

    __slots__ = ("paths",)

    def __init__(self, engine: Engine, name: str, router: Callable[[Any], Any]) -> None:
        super().__init__(engine, name, router, 1)
        self.plain = False
        self.paths = []


class AsyncRouterNode(Routing, AsyncNode):
    """A router that is a coroutine function; the event loop's thread runs it."""

    __slots__ = ("paths",)

    def __init__(self, engine: Engine, name: str, router: Callable[[Any], Any]) -> None:
        AsyncNode.__init__(self, engine, name, router, 1, order=None, policy=BEAR_ALL)
        self.paths = []
