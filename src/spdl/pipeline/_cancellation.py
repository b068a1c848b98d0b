"""Cancellations that the user's code begins itself: only the engine cancels its tasks from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    import asyncio

__all__ = ["current_task", "end_cancellation", "leave_behind", "not_cancelled", "raise_cancellation"]

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


def leave_behind(task: asyncio.Task[Any]) -> None:
    """Wait no more for a task that was cancelled and goes on, once the user has been told of it."""
    # asyncio would complain, in worse words.
    task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001
    # What ignores its cancellation may go on when it is closed, too, and for ever: it is never collected.
    _LEFT_BEHIND.append(task)


def not_cancelled(error: BaseException) -> BaseException:
    """What an op failed with, if the pipeline goes on."""
    from asyncio import CancelledError  # noqa: PLC0415 - half of what importing the package would cost.

    # That of a library's scope, say, is the item's failure like any other.
    if not isinstance(error, CancelledError):
        return error
    failure = RuntimeError("What the user's code waited for was cancelled from within.")
    failure.__cause__ = error
    return failure
