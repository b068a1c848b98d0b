"""An edge of the graph that a queue of the user's carries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from spdl.pipeline._lineage import describe

from ._conveyor_node import ConveyorNode

if TYPE_CHECKING:
    from spdl.pipeline._engine import Engine

    from ._async_queue import AsyncQueue

__all__ = ["QueueNode"]


class QueueNode(ConveyorNode):
    """Carries what one stage gives out through the user's queue."""

    __slots__ = ("carrier",)

    is_stage = False

    def __init__(self, engine: Engine, name: str, carrier: AsyncQueue[Any]) -> None:
        super().__init__(engine, name)
        self.carrier = carrier

    async def carry(self) -> None:
        feeding = asyncio.ensure_future(self.feed(0, self.carrier))
        draining = asyncio.ensure_future(self.drain(self.carrier))
        try:
            await asyncio.gather(feeding, draining)
        finally:
            feeding.cancel()
            draining.cancel()
        lost = self.manifest.clear()
        if lost and not self.cancelled:
            lineage, engine = self.engine.lineage, self.engine
            origins = [origin for root, _ in lost for origin in lineage.locate(root)]
            raise RuntimeError(
                f"The queue {type(self.carrier).__name__!r} of stage {self.carrier.info} lost {len(lost)} item(s): "
                f"{describe(origins, sources=len(engine.sources))}. What is put into a queue must come out of it."
            )
