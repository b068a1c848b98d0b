"""The merges of the programs that are not the engine's."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from spdl.pipeline import StageInfo, is_eof, is_epoch_end

from .lab import Lab

Merging: TypeAlias = Callable[[StageInfo, Sequence[asyncio.Queue[Any]], asyncio.Queue[Any]], Coroutine[Any, Any, None]]


def make_merge(lab: Lab) -> Merging:
    """Return a merge that takes turns. An early one returns after so many items, whatever there is."""
    program = lab.program

    async def merge(info: StageInfo, inputs: Sequence[asyncio.Queue[Any]], output: asyncio.Queue[Any]) -> None:
        left = program.merge_count if program.merge == "early" else -1
        queues = list(inputs)
        at_mark: list[asyncio.Queue[Any]] = []
        while queues and left:
            queue = queues.pop(0)
            item = await queue.get()
            if is_eof(item):
                continue
            if is_epoch_end(item):
                # One end of the epoch for all branches.
                at_mark.append(queue)
                if not queues:
                    queues, at_mark = at_mark, []
                    await output.put(item)
                continue
            queues.append(queue)
            await output.put(item)
            left -= 1
        if not left:
            lab.rest.give_up_sources()

    return merge
