"""Cancellations: those that the user's code begins itself, and those of tasks that need not heed them."""

from __future__ import annotations

import logging
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection
    from types import AsyncGeneratorType

__all__ = [
    "await_end",
    "close_generator",
    "current_task",
    "end_cancellation",
    "end_others",
    "not_cancelled",
    "raise_cancellation",
]

_LOG = logging.getLogger("spdl.pipeline")

# How long a cancelled task may take to put its things in order.
_GRACE = 1.0

# Tasks that go on whatever they are told.
_LEFT_BEHIND: list[asyncio.Task[Any]] = []


def current_task() -> asyncio.Task[Any]:
    """The task that runs this."""
    import asyncio  # noqa: PLC0415 - half of what importing the package would cost.

    task = asyncio.current_task()
    assert task is not None
    return task


async def end_cancellation(task: asyncio.Task[Any], before: int = 0) -> asyncio.CancelledError | None:
    """End what was begun by calls of the current task's ``cancel``; return the exception if it was not raised yet.

    It takes effect wherever something is awaited next, which may be for another item.
    """
    import asyncio  # noqa: PLC0415 - as above.

    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError as pending:
        return pending
    finally:
        while task.cancelling() > before:
            task.uncancel()
    return None


async def raise_cancellation(task: asyncio.Task[Any]) -> None:
    """End it likewise, and raise the exception if it was not raised yet."""
    if pending := await end_cancellation(task):
        raise pending


async def await_end(tasks: Collection[asyncio.Task[Any]], what: str) -> None:
    """Wait for tasks that were cancelled, but not for long.

    Those that go on are left behind, with a warning that begins with ``what`` and the name of each.
    """
    import asyncio  # noqa: PLC0415 - as above.

    pending = (await asyncio.wait(tasks, timeout=_GRACE))[1] if tasks else ()
    for task in pending:
        _LOG.warning(
            "%s %r was cancelled and has not ended within %g s: it is left behind. It must let "
            "asyncio.CancelledError through.",
            what,
            _name_of(task),
            _GRACE,
        )
        # asyncio would complain, in worse words.
        task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001
        # What ignores its cancellation may go on when it is closed, too, and for ever: it is never collected.
        _LEFT_BEHIND.append(task)


def _name_of(task: asyncio.Task[Any]) -> str:
    # asyncio numbers tasks that nobody has named.
    name = task.get_name()
    return getattr(task.get_coro(), "__qualname__", name) if name.startswith("Task-") else name


async def close_generator(generator: AsyncGeneratorType[Any, Any]) -> None:
    """Close an async generator, which ends what it began though the current task is cancelled meanwhile."""
    import asyncio  # noqa: PLC0415 - as above.

    await asyncio.shield(asyncio.create_task(generator.aclose()))


async def end_others() -> None:
    """End all tasks of the loop but the current one and those that were left behind, as ``asyncio.run`` does."""
    import asyncio  # noqa: PLC0415 - as above.

    # The loop makes a task of what closes an async generator that was collected, and the task has to begin.
    for _ in range(2):
        await asyncio.sleep(0)
    others = asyncio.all_tasks() - {current_task(), *_LEFT_BEHIND}
    # What closes a generator is no coroutine, and was told to end already.
    if closing := {task for task in others if type(task.get_coro()) is not CoroutineType}:
        await asyncio.wait(closing, timeout=_GRACE)
    for task in others:
        task.cancel()
    await await_end(others, "The unfinished task")


def not_cancelled(error: BaseException) -> BaseException:
    """What an op failed with, if the pipeline goes on."""
    from asyncio import CancelledError  # noqa: PLC0415 - half of what importing the package would cost.

    # That of a library's scope, say, is the item's failure like any other.
    if not isinstance(error, CancelledError):
        return error
    failure = RuntimeError("What the user's code waited for was cancelled from within.")
    failure.__cause__ = error
    return failure
