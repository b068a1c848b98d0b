"""The stage where several branches become one."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.node import STARVED, Node
from spdl.pipeline._engine.sentinel import MARK

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Entry

__all__ = ["MergeNode"]


class MergeNode(Node):
    """Passes on the items of its branches as they come, one from each in turn.

    Each branch has a queue of its own: in a shared one a fast branch would leave no room for a slow one. No code of the
    user's is involved, so it works under the lock.
    """

    __slots__ = ("following", "inlets")

    on_workers = False
    has_tasks = counts_gets = False

    def __init__(self, engine: Engine, name: str, branches: int) -> None:
        super().__init__(engine, name, None, limit=1)
        self.inlets: list[deque[Entry]] = [deque() for _ in range(branches)]
        # The branch whose turn it is.
        self.following = 0

    def inlet(self, index: int) -> deque[Entry]:
        return self.inlets[index]

    def queued(self) -> int:
        return sum(map(len, self.inlets))

    def ready(self) -> bool:
        return not self.cancelled and (self._next_branch() is not None or self._at_barrier()) and self.has_room(0)

    def turn(self) -> None:
        self.wait(STARVED)
        while self.has_room(0):
            index = self._next_branch()
            if index is not None:
                self.following = (index + 1) % len(self.inlets)
                self.completed += 1
                self.emitted += 1
                self.engine.emit(self, self._pop(index))
            elif self._at_barrier():
                for each in range(len(self.inlets)):
                    self._pop(each)
                self.engine.emit_mark(self)
            else:
                return

    def _pop(self, index: int) -> Entry:
        self.engine.waiting -= 1
        self.engine.made_room(self.feeders[index])
        inlet = self.inlets[index]
        entry = inlet.popleft()
        self.feeders[index].behind.took_one(len(inlet), counts=entry is not MARK)
        return entry

    def _at_barrier(self) -> bool:
        # An epoch ends where it has ended in every branch.
        return all(inlet and inlet[0] is MARK for inlet in self.inlets)

    def _next_branch(self) -> int | None:
        count = len(self.inlets)
        for step in range(count):
            index = (self.following + step) % count
            if self.inlets[index] and self.inlets[index][0] is not MARK:
                return index
        return None

    def drained(self) -> bool:
        return not any(self.inlets)

    def discard(self) -> list[Any]:
        rubbish: list[Any] = [entry for inlet in self.inlets for entry in inlet]
        self.engine.waiting -= len(rubbish)
        for inlet in self.inlets:
            inlet.clear()
        return rubbish
