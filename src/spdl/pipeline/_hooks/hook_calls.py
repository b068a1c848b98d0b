"""Calls the hooks around one task."""

from __future__ import annotations

import asyncio
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from spdl._check import show
from spdl.pipeline._engine.item_contexts import without_context
from spdl.pipeline._failures.cancellation import end_cancellation
from spdl.pipeline._failures.error_text import note_once

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from .task_hook import TaskHook

__all__ = ["Outcome", "cancelled_by", "run_inside"]


class Outcome(NamedTuple):
    """The outcome of a task and its hooks.

    Attributes:
        value: The result of the task; None if it raised or never began.
        error: The exception that was raised and that no hook swallowed, or None.
        blamed: The hook that raised the exception; None if the task did.
        done: Whether the task returned.
    """

    value: Any
    error: BaseException | None
    blamed: TaskHook | None
    done: bool


async def run_inside(  # noqa: C901, PLR0912 - three steps that handle exceptions differently.
    hooks: Sequence[TaskHook], item: Any, task: Callable[[], Awaitable[Any]]
) -> Outcome:
    """Await a task inside its hooks. The first hook is outermost.

    This does not use an exit stack, because it must know which hook raised an exception or requested a cancellation. A
    cancellation takes effect at the next await, which may be in another hook or around another item.
    """
    current = asyncio.current_task()
    assert current is not None
    before = current.cancelling()
    entered: list[tuple[TaskHook, AbstractAsyncContextManager[None]]] = []
    error: BaseException | None = None
    blamed: TaskHook | None = None
    value = None
    done = False
    for hook in hooks:
        try:
            context = hook.task_hook(without_context(item))
            if not hasattr(context, "__aenter__"):
                _refuse(hook, context)
            await context.__aenter__()
            entered.append((hook, context))
        except BaseException as raised:  # noqa: BLE001 - it becomes the item's failure after the other hooks ran.
            error = raised
        if current.cancelling() > before:
            error = await end_cancellation(current, before) or error
        if error is not None:
            blamed = hook
            break
    else:
        try:
            value = await task()
            done = True
        except BaseException as raised:  # noqa: BLE001 - it becomes the item's failure.
            error = raised
        if current.cancelling() > before:
            error = await end_cancellation(current, before) or error
    seen: BaseException | None = None
    while entered:
        hook, context = entered.pop()
        seen = error
        try:
            if error is None:
                await context.__aexit__(None, None, None)
            elif await context.__aexit__(type(error), error, error.__traceback__):
                error = blamed = None
        except BaseException as raised:  # noqa: BLE001 - it becomes the item's failure.
            error = raised
        if current.cancelling() > before:
            error = await end_cancellation(current, before) or error
        if error is not None and error is not seen:
            blamed = hook
    try:
        return Outcome(value, error if error is None or blamed is None else _name(blamed, error), blamed, done)
    finally:
        # Its traceback holds this frame, and the frame must not hold it.
        error = seen = None


def _refuse(hook: TaskHook, returned: object) -> NoReturn:
    if isinstance(returned, CoroutineType):
        # Otherwise it would warn that it was never awaited.
        returned.close()
    name = f"{type(hook).__qualname__}.task_hook"
    raise TypeError(
        f"`{name}` must return an async context manager, got {show(returned)}. Decorate it with "
        "`contextlib.asynccontextmanager`."
    )


def cancelled_by(hooks: Sequence[TaskHook], error: asyncio.CancelledError) -> RuntimeError:
    """Return the failure of an item whose task was cancelled by one of these hooks."""
    names = " or ".join(repr(type(hook).__qualname__) for hook in hooks)
    failure = RuntimeError(f"The task hook {names} cancelled the task that it wraps.")
    failure.__cause__ = error
    return failure


def _name(hook: TaskHook, error: BaseException) -> BaseException:
    """Return the exception with a note that names the hook that raised it."""
    if isinstance(error, asyncio.CancelledError):
        return cancelled_by([hook], error)
    note_once(error, f"Raised by the task hook {type(hook).__qualname__!r}, not by the op.")
    return error
