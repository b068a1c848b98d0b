"""The background tasks of a running pipeline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spdl.pipeline._declare.op import name_of
from spdl.pipeline._failures.cancellation import await_end
from spdl.pipeline._failures.error_text import log_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .task import BackgroundTaskFactory

__all__ = ["RunningTasks"]


class RunningTasks:
    """Starts, cancels and awaits the background tasks. All its methods run on the event loop thread."""

    def __init__(self, factories: Sequence[BackgroundTaskFactory]) -> None:
        self._factories = factories
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Start all tasks, and let each run to its first wait, so that even in a short pipeline it has begun."""
        self._tasks = [asyncio.create_task(_run(factory), name=name_of(factory)) for factory in self._factories]
        await asyncio.sleep(0)

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        """Wait for the cancelled tasks, but not for long."""
        await await_end(self._tasks)


async def _run(factory: BackgroundTaskFactory) -> None:
    """Run a task and log its exceptions. Even a SystemExit is caught, since it would end the event loop."""
    try:
        task = factory()
    except BaseException as error:  # noqa: BLE001 - not even a SystemExit.
        log_error(error, "The background task %r could not be made, and the pipeline runs without it", name_of(factory))
        return
    try:
        await task.run()
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - not even a SystemExit.
        log_error(error, "The background task %r failed, and the pipeline goes on without it", type(task).__name__)
