"""The stage where one branch becomes several: a router says which path an item takes."""

from __future__ import annotations

import operator
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from spdl._check import show
from spdl.pipeline._declare.policy import DEFAULT_POLICY
from spdl.pipeline._engine.channel import ADMITTED, SLOTS_TAKEN
from spdl.pipeline._engine.sentinel import MARK
from spdl.pipeline._metrics.counters import BLOCKED

from .asynchronous import AsyncNode
from .function import FunctionNode
from .op_node import OpNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine.attempt import Attempt
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node

__all__ = ["AsyncRouterNode", "RouterNode", "Routing"]

# So many items may wait for full paths before the router stops. So a slow path does not hold up the others at once.
# The reference looks as far ahead.
_LOOK_AHEAD = 32


class Routing(OpNode):
    """Calls ``router(item)``, one item at a time, and puts the item into the path with that index.

    A router that fails, or names a path that does not exist, fails the pipeline: it is no property of one item.
    """

    __slots__ = ()

    adjustable = False
    makes_items = False

    # The first stage of each path.
    paths: list[Node]

    def limits_changed(self) -> None:
        # It has a room for each path, which `paths_have_room` knows.
        self.room = 0

    def keeps_order(self) -> bool:
        return False

    def verdict(self) -> int:
        if self.running >= self.concurrency:
            return SLOTS_TAKEN
        return ADMITTED if self.paths_have_room() else BLOCKED

    def has_room(self, reserved: int) -> bool:  # noqa: ARG002 - it routes one item at a time.
        if self.paths_have_room():
            return True
        self.counters.wait(BLOCKED)
        return False

    def paths_have_room(self) -> bool:
        """Return whether an item has a place to go, whichever path it takes."""
        return sum(max(0, path.input.excess()) for path in self.paths) < _LOOK_AHEAD

    def pass_mark(self) -> None:
        """Tell every path that an epoch ends. Called with the lock held."""
        self.dequeue()
        for path in self.paths:
            path.input.put(MARK)
            self.engine.arrived(path)

    def finish(self, attempt: Attempt, value: Any) -> None:
        """Route the item. Called with the lock held."""
        # A generator gives results of which none is the index.
        if type(value) is CoroutineType and not (self.cancelled or self.engine.stopping):
            self.await_results(attempt, value)
            return
        path: int | Exception = value
        if type(value) is not int:
            # The conversion may run the user's code, so it happens without the lock.
            self.engine.release_to_user()
            path = self._as_int(value)
            self.engine.lock.acquire()
            self.engine.drops.append(value)
        if self.cancelled or self.engine.stopping:
            self.slot_freed()
        elif isinstance(path, Exception):
            self.fail(attempt, path)
        elif not 0 <= path < len(self.paths):
            last = len(self.paths) - 1
            self.fail(attempt, IndexError(f"The router of {self.name!r} must return 0 to {last}, got {path}."))
        else:
            self.counters.completed += 1
            self.counters.emitted += 1
            following = self.paths[path]
            following.input.put((attempt.root, attempt.item))
            self.engine.arrived(following)
            self.slot_freed()

    def _as_int(self, value: object) -> int | Exception:
        try:
            return int(operator.index(value))  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001 - whatever an `__index__` raises.
            return TypeError(f"The router of {self.name!r} must return an int, got {show(value)}.")

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        """Fail the pipeline. Called with the lock held."""
        self.counters.failed += 1
        self.slot_freed()
        self.engine.drops.append(attempt)
        self.engine.fail(self, attempt.root, error)


class RouterNode(Routing, FunctionNode):
    """A router that is a plain function."""

    __slots__ = ("paths",)

    def __init__(self, engine: Engine, name: str, router: Callable[[Any], Any]) -> None:
        super().__init__(engine, name, router, 1)
        self.plain = False
        self.paths = []

    def start(self) -> None:
        # What goes on is the item, which a function's stage lets go of when the op has returned.
        self.attempt(self.take())


class AsyncRouterNode(Routing, AsyncNode):
    """A router that is a coroutine function; the event loop's thread runs it."""

    __slots__ = ("paths",)

    def __init__(self, engine: Engine, name: str, router: Callable[[Any], Any]) -> None:
        AsyncNode.__init__(self, engine, name, router, 1, order=None, policy=DEFAULT_POLICY)
        self.paths = []
