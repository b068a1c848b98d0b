"""Merges that the user writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.channel import CAPACITY
from spdl.pipeline._engine.sentinel import EOF
from spdl.pipeline._failures.cancellation import not_cancelled

from .async_queue import AsyncQueue
from .conveyor_node import ConveyorNode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from spdl.pipeline._declare.stage_info import StageInfo
    from spdl.pipeline._engine.channel import Channel
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.groups import Root
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._engine.source import Source

__all__ = ["MergeOpNode"]


class MergeOpNode(ConveyorNode):
    """A merge that runs ``op(info, input_queues, output_queue)``, which takes from the branches' queues as it likes."""

    __slots__ = ("ends", "marks", "merge")

    def __init__(
        self,
        engine: Engine,
        name: str,
        op: Callable[[StageInfo, Sequence[asyncio.Queue[Any]], asyncio.Queue[Any]], Awaitable[None]],
    ) -> None:
        super().__init__(engine, name)
        self.merge: Any = op
        # How many ends of epochs each branch has given, and how many have come out.
        self.marks: list[int] = []
        self.ends = 0

    def read_from(self, feeder: Node | Source, channel: Channel) -> None:
        super().read_from(feeder, channel)
        self.marks.append(0)

    def let_go(self) -> list[Any]:
        merge, self.merge = self.merge, None
        return [*super().let_go(), merge]

    def root_of(self, item: Any) -> Root:
        taken = self.ledger.take(item)
        if taken is not None and taken.item is not item:
            self.engine.drops.append(taken)
        # If nothing is inside, the op has made this object itself.
        return self.engine.lineage.gather([]) if taken is None else taken.root

    def mark_goes_in(self, index: int) -> None:
        self.marks[index] += 1

    def mark_came_out(self) -> bool:
        if self.engine.failures and any(self._lacks_end(index) for index in range(len(self.inlets))):
            # The epoch would look complete. What is downstream still finishes what has come.
            self.engine.cut_off(self)
            return False
        self.ends += 1
        return True

    def _lacks_end(self, index: int) -> bool:
        """Return whether a branch has ended within the epoch whose end comes out."""
        inlet = self.inlets[index]
        given = self.marks[index] + len(inlet.entries) - inlet.items()
        return given <= self.ends and self.feeders[index].is_finished()

    async def carry(self) -> None:
        inputs = [AsyncQueue[Any](feeder.info, buffer_size=CAPACITY) for feeder in self.feeders]
        output = AsyncQueue[Any](self.info, buffer_size=CAPACITY)
        feeding = [asyncio.ensure_future(self.feed(index, queue)) for index, queue in enumerate(inputs)]
        draining = asyncio.ensure_future(self.drain(output))
        producing = asyncio.ensure_future(self._produce(inputs, output))
        try:
            # If draining fails, the op must not wait for room for ever.
            await asyncio.wait([producing, draining], return_when=asyncio.FIRST_COMPLETED)
            await draining
            error = await producing
        finally:
            for task in (*feeding, draining, producing):
                task.cancel()
        if error is not None:
            raise error
        engine = self.engine
        with engine.lock:
            # The op may have dropped items, or returned before its input ended. Nobody waits for the rest.
            # These objects go with this frame, after the lock.
            left = self.ledger.clear()
            for entry in left:
                engine.lineage.drop(entry.root)
            engine.cut_off(self)

    async def _produce(self, inputs: Sequence[AsyncQueue[Any]], output: AsyncQueue[Any]) -> BaseException | None:
        """Run the op. Objects that it put out before it raised are still passed on first."""
        failure: BaseException | None = None
        try:
            await self.merge(self.info, inputs, output)
        except BaseException as error:
            if self.engine.is_over():
                raise
            # An interrupt must not leave the event loop from here.
            failure = not_cancelled(error)
        await output.put(EOF)
        return failure
