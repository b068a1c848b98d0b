"""The stage where several branches become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.sentinel import MARK
from spdl.pipeline._metrics.counters import STARVED

if TYPE_CHECKING:
    from spdl.pipeline._engine.channel import Channel, Entry
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.source import Source

__all__ = ["MergeNode"]


class MergeNode(Node):
    """Passes on the items of its branches as they come, one from each in turn.

    Each branch has a queue of its own: in a shared one a fast branch would leave no room for a slow one. No code of the
    user's is involved, so it works under the lock.
    """

    __slots__ = ("branches", "following", "inlets")

    on_workers = False
    has_tasks = counts_gets = False

    def __init__(self, engine: Engine, name: str, branches: int) -> None:
        super().__init__(engine, name, None, concurrency=1)
        self.branches = branches
        self.inlets: list[Channel] = []
        # The branch whose turn it is.
        self.following = 0

    def read_from(self, feeder: Node | Source, channel: Channel) -> None:
        super().read_from(feeder, channel)
        self.inlets.append(channel)

    def inputs(self) -> list[Channel]:
        return self.inlets

    def keeps_order(self) -> bool:
        return False

    def queued(self) -> int:
        return sum(len(inlet.entries) for inlet in self.inlets)

    def ready(self) -> bool:
        return not self.cancelled and (self._next_branch() is not None or self._at_barrier()) and self.has_room(0)

    def turn(self) -> None:
        self.counters.wait(STARVED)
        while self.has_room(0):
            index = self._next_branch()
            if index is not None:
                self.following = (index + 1) % self.branches
                self.counters.completed += 1
                self.counters.emitted += 1
                self.engine.emit(self, self._pop(index))
            elif self._at_barrier():
                self._end_epoch()
            else:
                return

    def _pop(self, index: int) -> Entry:
        self.engine.remove_turns()
        self.engine.made_room(self.feeders[index])
        inlet = self.inlets[index]
        return inlet.take_uncounted(item=inlet.entries[0] is not MARK)

    def _at_barrier(self) -> bool:
        # An epoch ends where it has ended in every branch of which more may come.
        marked = False
        for index, inlet in enumerate(self.inlets):
            if inlet.entries:
                if inlet.entries[0] is not MARK:
                    return False
                marked = True
            elif not self.feeders[index].is_finished():
                return False
        return marked

    def _end_epoch(self) -> None:
        """Pass the end of an epoch on, unless a failure has kept a branch from reaching it."""
        marked = [index for index, inlet in enumerate(self.inlets) if inlet.entries]
        for index in marked:
            self._pop(index)
        if len(marked) < self.branches and self.engine.failures:
            # The epoch would look complete. What is downstream still finishes what has come, but nothing of a later
            # epoch may follow in the place of the mark.
            self.engine.cut_off(self)
        else:
            self.engine.emit_mark(self)

    def _next_branch(self) -> int | None:
        for step in range(self.branches):
            index = (self.following + step) % self.branches
            entries = self.inlets[index].entries
            if entries and entries[0] is not MARK:
                return index
        return None

    def drained(self) -> bool:
        return not self.queued()

    def discard(self) -> list[Any]:
        dropped: list[Any] = [entry for inlet in self.inlets for entry in inlet.entries]
        self.engine.remove_turns(len(dropped))
        for inlet in self.inlets:
            inlet.entries.clear()
        return dropped
