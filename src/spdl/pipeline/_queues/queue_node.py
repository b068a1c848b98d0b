"""Edges of the graph whose items pass through a user's queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .conveyor_node import ConveyorNode
from .ledger import Past

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.groups import Root

    from .async_queue import AsyncQueue

__all__ = ["QueueNode"]

# Seconds that the end of the input may take to come out, once nothing precedes it. If the `get` of asyncio waits, the
# end is lost, since nobody will put it in again. A user's own `get` may just be asleep, so it has longer.
_PATIENCE = 5.0
_PATIENCE_WITH_OWN_GET = 60.0


class QueueNode(ConveyorNode):
    """Carries one stage's output through a user's queue, and checks that each object comes out once."""

    __slots__ = ("carrier", "epochs", "past")

    is_stage = False

    def __init__(self, engine: Engine, name: str, carrier: AsyncQueue[Any]) -> None:
        super().__init__(engine, name)
        self.carrier: Any = carrier
        self.past = Past()
        # How many ends of epochs have come out.
        self.epochs = 0

    async def carry(self) -> None:
        feeding = asyncio.ensure_future(self.feed(0, self.carrier))
        draining = asyncio.ensure_future(self._drain())
        watching = asyncio.ensure_future(self._watch(feeding, draining))
        try:
            await asyncio.gather(feeding, draining, watching)
        finally:
            for task in (feeding, draining, watching):
                task.cancel()
        if self.cancelled:
            return
        lost = self._describe_lost()
        if lost:
            raise self._fault(f"lost {lost}")
        if self.epochs < self.ledger.epochs:
            raise self._fault("lost the end of an epoch")

    def let_go(self) -> list[Any]:
        kept = [self.carrier, self.past]
        self.carrier, self.past = None, Past()
        return [*super().let_go(), *kept]

    async def _drain(self) -> None:
        await self.drain(self.carrier)
        if not (self.ending or self.cancelled):
            raise self._fault("returned the end of the input before it was put in")

    async def _watch(self, feeding: asyncio.Future[None], draining: asyncio.Future[None]) -> None:
        """Raise if the end of the input was put in and does not come out."""
        await feeding
        waited = 0.0
        while not (draining.done() or self.cancelled):
            before = self.counters.emitted
            await asyncio.wait([draining], timeout=_PATIENCE)
            carrier = self.carrier
            if self.counters.emitted != before or not (self.asking and carrier.empty()):
                waited = 0.0
                continue
            waited += _PATIENCE
            # True if `get` waits where `asyncio.Queue.get` does. There is no public way to know.
            waits = bool(carrier._getters)  # noqa: SLF001 - no public way.
            if waits or (not self.ledger and waited >= _PATIENCE_WITH_OWN_GET):
                if draining.done() or self.cancelled:
                    return
                items = self._describe_lost()
                raise self._fault(f"lost {items}, and the end of the input" if items else "lost the end of the input")

    def root_of(self, item: Any) -> Root:
        if item not in self.ledger and (origin := self.past.root_of(item)) is not None:
            raise self._fault(f"returned the same object twice: {self._describe([origin])}")
        taken = self.ledger.take(item)
        if taken is None:
            raise self._fault(f"returned an object although nothing is inside: one of type {type(item).__name__!r}")
        if taken.item is not item:
            self.engine.drops.append(taken)
        if taken.epoch > self.epochs:
            raise self._fault(f"lost the end of an epoch, or let {self._describe([taken.root])} overtake it")
        if taken.item is item:
            self.past.add(item, taken.root)
        return taken.root

    def mark_came_out(self) -> bool:
        self.epochs += 1
        if self.epochs > self.ledger.epochs:
            raise self._fault("returned the end of an epoch that has not ended")
        return True

    def _describe_lost(self) -> str:
        lost = self.ledger.clear()
        return f"{len(lost)} item(s): {self._describe([entry.root for entry in lost])}" if lost else ""

    def _describe(self, roots: Sequence[Root]) -> str:
        return self.engine.lineage.describe(self.engine.lineage.gather(list(roots)))

    def _fault(self, what: str) -> RuntimeError:
        return RuntimeError(
            f"The queue {type(self.carrier).__name__!r} of stage {self.carrier.info} {what}. Each object that is put "
            "into a queue must come out of it once, including those for which `is_eof` or `is_epoch_end` is true."
        )
