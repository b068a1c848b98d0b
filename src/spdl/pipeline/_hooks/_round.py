"""One task inside its hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from ._task_hook import TaskHook

__all__ = ["Outcome", "run_inside"]


class Outcome(NamedTuple):
    """What came of a task.

    Attributes:
        value: What the task returned; None if it raised or never began.
        error: What is left to be told, if anything was raised and not swallowed.
        blamed: The hook that raised it; None if it was the task.
        done: Whether the task returned.
    """

    value: Any
    error: BaseException | None
    blamed: TaskHook | None
    done: bool


async def run_inside(hooks: Sequence[TaskHook], item: Any, task: Callable[[], Awaitable[Any]]) -> Outcome:
    """Await a task inside its hooks, the first one outermost.

    Written out instead of with an exit stack, so that it is known who raised what.
    """
    entered: list[tuple[TaskHook, AbstractAsyncContextManager[None]]] = []
    value = None
    done = False
    error, blamed = await _enter(hooks, item, entered)
    if error is None:
        try:
            value = await task()
            done = True
        except BaseException as raised:  # noqa: BLE001 - it becomes the item's failure, once the hooks have seen it.
            error = raised
    while entered:
        hook, context = entered.pop()
        try:
            if error is None:
                await context.__aexit__(None, None, None)
            elif await context.__aexit__(type(error), error, error.__traceback__):
                error = blamed = None
        except BaseException as raised:  # noqa: BLE001 - as above.
            if raised is not error:
                error, blamed = raised, hook
    if error is not None and blamed is not None:
        error.add_note(f"Raised by the task hook {type(blamed).__qualname__!r}, not by the op.")
    return Outcome(value, error, blamed, done)


async def _enter(
    hooks: Sequence[TaskHook], item: Any, entered: list[tuple[TaskHook, AbstractAsyncContextManager[None]]]
) -> tuple[BaseException | None, TaskHook | None]:
    for hook in hooks:
        try:
            context = hook.task_hook(item)
            await context.__aenter__()
        except BaseException as raised:  # noqa: BLE001 - it becomes the item's failure.
            return raised, hook
        entered.append((hook, context))
    return None, None
