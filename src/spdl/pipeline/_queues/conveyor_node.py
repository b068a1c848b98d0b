"""The part of a graph in which items pass through asyncio queues."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.sentinel import EOF, EPOCH_END, MARK
from spdl.pipeline._engine.source import Source
from spdl.pipeline._failures.cancellation import not_cancelled

from .ledger import Manifest

if TYPE_CHECKING:
    import asyncio

    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.lineage import Root
    from spdl.pipeline._engine.node import Entry

__all__ = ["ConveyorNode"]


class ConveyorNode(Node):
    """Moves items from its inlets through queues to the next stage; the user's code sees the items alone.

    One task of the event loop does it all, from the start of the pipeline to the end of its input.
    """

    __slots__ = ("asking", "begun", "ending", "inlets", "manifest", "over")

    on_loop = True
    has_tasks = counts_gets = False

    def __init__(self, engine: Engine, name: str, branches: int = 1) -> None:
        super().__init__(engine, name, None, limit=1)
        self.inlets: list[deque[Entry]] = [self.queue, *(deque() for _ in range(branches - 1))]
        self.manifest = Manifest()
        # The task was started; it has ended.
        self.begun = self.over = False
        # The user's code is asked for the next object, and has been given the end of an inlet.
        self.asking = self.ending = False

    @abstractmethod
    async def carry(self) -> None:
        """Move all items. Ends when the input has ended and all of it has come out."""

    def connect(self, following: Node | None, out: deque[Entry], capacity: int) -> None:
        super().connect(following, out, capacity)
        # It has no slots that finished items could keep: they stay in its queue.
        self.room = capacity

    def inlet(self, index: int) -> deque[Entry]:
        return self.inlets[index]

    def queued(self) -> int:
        return sum(map(len, self.inlets))

    def drained(self) -> bool:
        return not any(self.inlets)

    def end_input(self) -> bool:
        return self.over

    def discard(self) -> list[Any]:
        rubbish: list[Any] = [*self.manifest.clear(), *(entry for inlet in self.inlets for entry in inlet)]
        for inlet in self.inlets:
            inlet.clear()
        return rubbish

    def wants_server(self) -> bool:
        wanted = not self.begun
        self.begun = True
        return wanted

    async def serve(self) -> None:
        """Do the work, and fail the pipeline if it cannot be done."""
        engine = self.engine
        failure: BaseException | None = None
        try:
            await self.carry()
        except BaseException as error:
            if engine.is_over():
                raise
            # Only the engine cancels from outside: what a queue or a merge raises of that kind is its failure.
            failure = not_cancelled(error)
        finally:
            with engine.lock:
                self.over = True
                if failure is not None:
                    engine.fail(self, None, failure)
                engine.concluded()

    async def feed(self, index: int, queue: asyncio.Queue[Any]) -> None:
        """Put what arrives at an inlet into a queue, and at last the end of the input."""
        engine = self.engine
        lane = engine.lane
        assert lane is not None
        inlet = self.inlets[index]
        while not (self.cancelled or engine.stopping):
            item = waiter = None
            with engine.lock:
                if inlet:
                    item = self._take(index)
                elif self._has_ended(index):
                    item = EOF
                    self.ending = True
                else:
                    waiter = lane.wait_for_room()
            if waiter is not None:
                await waiter
                continue
            await queue.put(item)
            if item is EOF:
                return

    def _has_ended(self, index: int) -> bool:
        feeder = self.feeders[index]
        return feeder.finished() if isinstance(feeder, Source) else feeder.finished

    def _take(self, index: int) -> Any:
        inlet = self.inlets[index]
        entry = inlet.popleft()
        self.feeders[index].behind.took_one(len(inlet), counts=entry is not MARK)
        self.engine.made_room(self.feeders[index])
        self.engine.concluded()
        if entry is MARK:
            self.manifest.epochs += 1
            return EPOCH_END
        root, item = entry
        self.manifest.add(root, item)
        return item

    async def drain(self, queue: asyncio.Queue[Any]) -> None:
        """Pass on what comes out of a queue, until the end of the input does."""
        while not self.cancelled:
            self.asking = True
            item = await queue.get()
            self.asking = False
            if item is EOF:
                return
            await self._pass_on(item)

    @abstractmethod
    def root_of(self, item: Any) -> Root:
        """Where something comes from that came out. Called with the lock held."""

    def mark_came_out(self) -> None:
        """Learn that the end of an epoch came out. Called with the lock held."""

    async def _pass_on(self, item: Any) -> None:
        engine = self.engine
        lane = engine.lane
        assert lane is not None
        while True:
            with engine.lock:
                if self.cancelled or engine.stopping:
                    return
                if self.has_room(0):
                    self._emit(item)
                    engine.concluded()
                    return
                self.wants_room = True
                waiter = lane.wait_for_room()
            await waiter

    def _emit(self, item: Any) -> None:
        if item is EPOCH_END:
            self.mark_came_out()
            self.engine.emit_mark(self)
            return
        root = self.root_of(item)
        self.completed += 1
        self.emitted += 1
        self.engine.emit(self, (root, item))
