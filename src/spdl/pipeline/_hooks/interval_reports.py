"""Calls reports at intervals, on the event loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from spdl.pipeline._failures.cancellation import await_end
from spdl.pipeline._failures.error_text import log_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

__all__ = ["reporting"]


@asynccontextmanager
async def reporting(name: str, interval: float, report: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Call ``report`` at intervals while the block runs. Its exceptions are logged.

    Args:
        name: The owner of the ``interval_stats_callback``, for the log.
        interval: Seconds from one call to the next. With 0 or less there are no calls.
        report: Calls the callback.
    """
    reports = None
    if interval > 0:
        reports = asyncio.create_task(_repeat(name, interval, report), name=f"interval_stats_callback of {name}")
    try:
        yield
    finally:
        if reports is not None:
            reports.cancel()
            await await_end({reports})


async def _repeat(name: str, interval: float, report: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(interval)
        try:
            await report()
        except Exception as error:  # noqa: BLE001 - a failed report is no reason to stop.
            log_error(error, "The interval_stats_callback of %s raised, which is ignored", name)
