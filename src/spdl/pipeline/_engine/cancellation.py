"""Cancellations, by user code and of tasks and threads that were given up."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


class Abandoned(BaseException):
    """Raised in a worker, with the engine's lock held, whose op returned after it was abandoned."""


_LOG = logging.getLogger("spdl.pipeline")

# A task may take so long to clean up.
_GRACE = 1.0

# Tasks that ignore their cancellation.
_LEFT_BEHIND: list[asyncio.Task[Any]] = []


def current_task() -> asyncio.Task[Any]:
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
    """End it too, and raise the exception if it was not raised yet."""
    pending = await end_cancellation(task)
    try:
        if pending is not None:
            raise pending
    finally:
        # Its traceback holds this frame, and the frame must not hold it.
        pending = None


async def caught(step: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Await a step of user code, and return what it raises or cancels the current task with."""
    task = current_task()
    before = task.cancelling()
    error: BaseException | None = None
    try:
        await step()
    except BaseException as raised:  # noqa: BLE001 - the caller deals with it.
        error = raised
    if task.cancelling() > before:
        error = await end_cancellation(task, before) or error
    try:
        return error
    finally:
        # Its traceback holds this frame, and the frame must not hold it.
        error = None


async def await_end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Wait a moment for tasks that were cancelled. Tasks that do not end are abandoned."""
    import asyncio  # noqa: PLC0415 - as above.

    for task in (await asyncio.wait(tasks, timeout=_GRACE))[1]:
        _leave_behind(task)


async def end_others() -> None:
    """End all tasks of the loop but the current one, as ``asyncio.run`` does. Tasks that do not end are abandoned."""
    import asyncio  # noqa: PLC0415 - as above.

    loop = asyncio.get_running_loop()
    deadline: float | None = None
    while True:
        # The loop makes a task of what closes an async generator that was collected, and the task has to begin.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {current_task(), *_LEFT_BEHIND}
        if not others or (deadline is not None and loop.time() >= deadline):
            break
        if deadline is None:
            # It begins now: each task gets its cancellation and its time, however long the loop was held up before.
            deadline = loop.time() + _GRACE
            # Tasks that start later belong to the end of the first ones.
            for task in others:
                if not _closes_generator(task):
                    task.cancel()
        await asyncio.wait(others, timeout=deadline - loop.time())
    for task in others:
        _leave_behind(task)


def _closes_generator(task: asyncio.Task[Any]) -> bool:
    # The type of what `aclose` returns has no name in `types`.
    return type(task.get_coro()).__name__ == "async_generator_athrow"


def _leave_behind(task: asyncio.Task[Any]) -> None:
    # asyncio numbers tasks without a name.
    name = task.get_name()
    if name.startswith("Task-"):
        name = getattr(task.get_coro(), "__qualname__", "aclose")
    _LOG.warning(
        "The task %r should have ended with its pipeline and still runs after %g s: it is abandoned. It must let "
        "asyncio.CancelledError through.",
        name,
        _GRACE,
    )
    # asyncio would complain, in worse words.
    task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001
    # A task that ignores its cancellation may ignore being closed, too, so it is never collected.
    _LEFT_BEHIND.append(task)


def not_cancelled(error: BaseException) -> BaseException:
    """Return the exception that an op failed with, in a form that lets the pipeline continue."""
    from asyncio import CancelledError  # noqa: PLC0415 - half of what importing the package would cost.

    # That of a library's scope, say, is the item's failure like any other.
    if not isinstance(error, CancelledError):
        return error
    failure = RuntimeError("The user code waited for something that was cancelled from within.")
    failure.__cause__ = error
    return failure
