"""The queues of the programs: some only pass everything on, others are at fault."""

from typing import Any

from spdl.pipeline import AsyncQueue, StageInfo, is_eof, is_epoch_end

from .expected import RAISE_AFTER
from .lab import Lab, ProvokedError

# How many items a queue keeps to itself before it gives any: more than may wait in front of it.
_HOARD = 5


class Passing(AsyncQueue[Any]):
    """A queue that passes everything on, each object as it is or another one that stands for it."""

    def __init__(self, lab: Lab, info: StageInfo, buffer_size: int) -> None:
        super().__init__(info, buffer_size=buffer_size)
        self.lab = lab
        self.kind = lab.program.queue
        self.items = 0
        self.is_first = info.stage_name in ("src", "src[0]")
        self.hoard: list[Any] = []

    async def put(self, item: Any) -> None:
        if is_eof(item) or is_epoch_end(item):
            await self._put_end(item)
            return
        self.items += 1
        if self.kind == "wrap":
            item = list(item) if isinstance(item, list) else item.copy()
        if self.kind == "hoard":
            self.hoard.append(item)
            if len(self.hoard) == _HOARD:
                await self._put_hoard()
            return
        if self.items == RAISE_AFTER:
            await self._put_chosen(item)
            return
        await super().put(item)
        # The end of an epoch, if one was kept back.
        await self._put_hoard()

    async def _put_end(self, end: Any) -> None:
        if self.is_first and self.kind == "keep":
            return
        if self.is_first and self.kind == "overtake" and is_epoch_end(end):
            self.hoard.append(end)
            return
        await self._put_hoard()
        await super().put(end)

    async def _put_chosen(self, item: Any) -> None:
        """Put the item in at which a queue is at fault."""
        if self.kind == "raise":
            raise ProvokedError("queue")
        if self.is_first and self.kind == "lose":
            return
        if self.is_first and self.kind == "double":
            await super().put(item)
        await super().put(item)
        await self._put_hoard()

    async def _put_hoard(self) -> None:
        hoard, self.hoard = self.hoard, []
        for kept in hoard:
            await super().put(kept)
