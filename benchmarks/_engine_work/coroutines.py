"""Coroutines that do nothing, and the rate of an event loop alone."""

from __future__ import annotations

import asyncio
import time

from outcome import figures
from usage import cpu_seconds


async def same_async(item: int) -> int:
    """Do nothing but let other coroutines run."""
    await asyncio.sleep(0)
    return item


def bare(*, items: int, concurrency: int) -> dict[str, float]:
    """Let a number of coroutines take items from one iterator."""
    got: list[int] = []
    source = iter(range(items))

    async def work() -> None:
        for item in source:
            got.append(await same_async(item))  # noqa: PERF401 - the coroutines share one list.

    async def all_of_them() -> None:
        await asyncio.gather(*(work() for _ in range(concurrency)))

    cpu, begin = cpu_seconds(), time.perf_counter()
    asyncio.run(all_of_them())
    return figures(got, items, time.perf_counter() - begin, cpu_seconds() - cpu)
