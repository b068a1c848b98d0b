"""Queues as users write them, on real clocks and in simulated time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from spdl.pipeline import AsyncQueue, StatsQueue, is_eof

if TYPE_CHECKING:
    from spdl.pipeline import QueuePerfStats, StageInfo

__all__ = ["EndsNot", "Kept", "Plain"]


class Kept(StatsQueue[Any]):
    """A queue class that keeps its instances, and the statistics that their callbacks get."""

    made: list[Kept]

    def __init__(self, info: StageInfo, *, buffer_size: int = 1, interval: float = -1) -> None:
        super().__init__(info, buffer_size=buffer_size, interval=interval)
        self.laps: list[QueuePerfStats] = []
        self.made.append(self)

    async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
        await asyncio.sleep(0)
        self.laps.append(stats)


class EndsNot(AsyncQueue[Any]):
    """A queue that loses the end of the input on its way in."""

    async def put(self, item: Any) -> None:
        if not is_eof(item):
            await super().put(item)


class Plain(AsyncQueue[Any]):
    """A queue that the engine uses, since it is no class of the library's own."""
