"""Nodes whose items pass through asyncio queues."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.sentinel import EOF, EPOCH_END, MARK
from spdl.pipeline._failures.cancellation import not_cancelled

from .ledger import Ledger

if TYPE_CHECKING:
    import asyncio

    from spdl.pipeline._engine.channel import Channel
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.groups import Root
    from spdl.pipeline._engine.source import Source

__all__ = ["ConveyorNode"]


class ConveyorNode(Node):
    """A node that moves items from its inlets through queues to the next stage. User code sees only the items.

    One task of the event loop does all of this, from the start of the pipeline to the end of its input.
    """

    hides_items = True

    __slots__ = ("asking", "begun", "ending", "inlets", "ledger", "over")

    on_loop = True
    has_tasks = counts_gets = False

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(engine, name, None, concurrency=1)
        self.inlets: list[Channel] = []
        self.ledger = Ledger()
        # True once the task was started, and once it has ended.
        self.begun = self.over = False
        # True while user code is asked for the next object, and once it has received the end of an inlet.
        self.asking = self.ending = False

    @abstractmethod
    async def carry(self) -> None:
        """Move all items. Return when the input has ended and all of it has come out."""

    def read_from(self, feeder: Node | Source, channel: Channel) -> None:
        super().read_from(feeder, channel)
        self.inlets.append(channel)

    def keeps_order(self) -> bool:
        return False

    def inputs(self) -> list[Channel]:
        return self.inlets

    def limits_changed(self) -> None:
        # Finished items do not count towards its concurrency: they stay in its queue.
        self.room = self.output.capacity

    def queued(self) -> int:
        return sum(len(inlet.entries) for inlet in self.inlets)

    def drained(self) -> bool:
        return not self.queued()

    def end_input(self) -> bool:
        return self.over

    def discard(self) -> list[Any]:
        dropped: list[Any] = [*self.ledger.clear(), *(entry for inlet in self.inlets for entry in inlet.entries)]
        for inlet in self.inlets:
            inlet.entries.clear()
        return dropped

    def wants_server(self) -> bool:
        wanted = not self.begun
        self.begun = True
        return wanted

    async def serve(self) -> None:
        """Move all items, and fail the pipeline if that raises."""
        engine = self.engine
        failure: BaseException | None = None
        try:
            await self.carry()
        except BaseException as error:
            if engine.is_over():
                raise
            # Only the engine cancels from outside, so a CancelledError of a queue or a merge is its own failure.
            failure = not_cancelled(error)
        finally:
            with engine.lock:
                self.over = True
                if failure is not None:
                    engine.fail(self, None, failure)
                engine.concluded()

    async def feed(self, index: int, queue: asyncio.Queue[Any]) -> None:
        """Put everything that arrives at an inlet into a queue, and finally the end of the input."""
        engine = self.engine
        event_loop = engine.event_loop
        assert event_loop is not None
        entries = self.inlets[index].entries
        while not (self.cancelled or engine.stopping):
            item = waiter = None
            with engine.lock:
                if entries:
                    item = self._take(index)
                elif self.feeders[index].is_finished():
                    item = EOF
                    self.ending = True
                else:
                    waiter = event_loop.wait_for_room()
            if waiter is not None:
                await waiter
                continue
            await queue.put(item)
            if item is EOF:
                return

    def _take(self, index: int) -> Any:
        inlet = self.inlets[index]
        entry = inlet.take_uncounted(item=inlet.entries[0] is not MARK)
        self.engine.made_room(self.feeders[index])
        self.engine.concluded()
        if entry is MARK:
            self.ledger.end_epoch()
            self.mark_goes_in(index)
            return EPOCH_END
        root, item = entry
        self.ledger.add(root, item)
        return item

    async def drain(self, queue: asyncio.Queue[Any]) -> None:
        """Pass on everything that comes out of a queue, until the end of the input comes out."""
        while not self.cancelled:
            self.asking = True
            item = await queue.get()
            self.asking = False
            if item is EOF:
                return
            await self._pass_on(item)

    @abstractmethod
    def root_of(self, item: Any) -> Root:
        """Return the root of an object that came out. Called with the lock held."""

    def mark_goes_in(self, index: int) -> None:
        """Called with the lock held when the end of an epoch is taken from an inlet."""

    def mark_came_out(self) -> bool:
        """Return whether the end of an epoch that came out goes on. Called with the lock held."""
        return True

    async def _pass_on(self, item: Any) -> None:
        engine = self.engine
        event_loop = engine.event_loop
        assert event_loop is not None
        while True:
            with engine.lock:
                if self.cancelled or engine.stopping:
                    return
                if self.has_room(0):
                    self._emit(item)
                    engine.concluded()
                    if engine.drops:
                        engine.drop_deferred()
                    return
                self.want_room()
                waiter = event_loop.wait_for_room()
            await waiter

    def _emit(self, item: Any) -> None:
        if item is EPOCH_END:
            if self.mark_came_out():
                self.engine.emit_mark(self)
            return
        root = self.root_of(item)
        self.counters.completed += 1
        self.counters.emitted += 1
        self.engine.emit(self, (root, item))
