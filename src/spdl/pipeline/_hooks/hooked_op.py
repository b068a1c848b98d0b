"""Wraps the ops of stages with hooks, for the event loop to run."""

from __future__ import annotations

from asyncio import CancelledError
from contextlib import aclosing
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl.pipeline._world import Lock

from .executor_calls import Whole
from .hook_calls import run_inside

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

    from .task_hook import TaskHook

    # Calls a synchronous function where it may block: in a worker, or in the user's executor.
    Caller: TypeAlias = Callable[[Callable[[Any], Any], Any], Awaitable[Any]]
    # Closes an async generator, and is not interrupted.
    Closer: TypeAlias = Callable[[AsyncGenerator[Any, None]], Awaitable[None]]

__all__ = ["Caller", "Closer", "hooked_async_generator", "hooked_coroutine", "hooked_function", "hooked_generator"]


def hooked_function(
    op: Callable[[Any], Any], hooks: Sequence[TaskHook], call: Caller, close: Closer, is_over: Callable[[], bool]
) -> Callable[[Any], Any]:
    """Return a coroutine function that calls ``op`` inside its hooks."""

    async def run(item: Any) -> Any:
        value = await call(op, item)
        # A lambda may return a coroutine, for example.
        if not isinstance(value, CoroutineType):
            return value
        try:
            _check_wanted(is_over)
        except CancelledError:
            # As where there are no hooks: one that comes too late is closed.
            value.close()
            raise
        return await value

    async def task(item: Any) -> Any:
        value = await _run(hooks, item, lambda: run(item))
        if isinstance(value, GeneratorType):
            return _steps(value, item, hooks, call)
        if isinstance(value, AsyncGeneratorType):
            return _async_steps(value, item, hooks, close, is_over)
        return value.each() if isinstance(value, Whole) else value

    return task


def hooked_coroutine(
    op: Callable[[Any], Any], hooks: Sequence[TaskHook], is_over: Callable[[], bool]
) -> Callable[[Any], Any]:
    """Return a coroutine function that awaits ``op``, a coroutine function, inside its hooks, unless all is over."""

    async def run(item: Any) -> Any:
        _check_wanted(is_over)
        return await op(item)

    async def task(item: Any) -> Any:
        return await _run(hooks, item, lambda: run(item))

    return task


def hooked_generator(op: Callable[[Any], Any], hooks: Sequence[TaskHook], call: Caller) -> Callable[[Any], Any]:
    """Return an async generator function that takes each step of a generator inside the hooks."""
    return lambda item: _steps(op(item), item, hooks, call)


def hooked_async_generator(
    op: Callable[[Any], Any], hooks: Sequence[TaskHook], close: Closer, is_over: Callable[[], bool]
) -> Callable[[Any], Any]:
    """Return an async generator function that takes each step of an async generator inside the hooks."""
    return lambda item: _async_steps(op(item), item, hooks, close, is_over)


def _check_wanted(is_over: Callable[[], bool]) -> None:
    """End the task if the pipeline was stopped while hooks were entered, before the stop's cancellation has come."""
    if is_over():
        raise CancelledError


async def _run(hooks: Sequence[TaskHook], item: Any, task: Callable[[], Awaitable[Any]]) -> Any:
    outcome = await run_inside(hooks, item, task)
    if outcome.error is not None:
        try:
            raise outcome.error
        finally:
            # The exception's frames hold the outcome, and the outcome must not hold the exception.
            del outcome
    return outcome.value


class _Generator:
    """A generator whose steps other threads take, one at a time, and which is closed when no step is wanted any more.

    A step may still be under way then. Whoever takes it closes the generator afterwards.
    """

    def __init__(self, generator: Iterator[Any]) -> None:
        self._generator = generator
        self._lock = Lock()
        self._under_way = self._unwanted = False

    def step(self, _: object) -> tuple[Any, ...]:
        """Return the next result in a tuple, or () at the end: a coroutine cannot raise StopIteration."""
        with self._lock:
            if self._unwanted:
                return ()
            self._under_way = True
        try:
            return (next(self._generator),)
        except StopIteration:
            return ()
        finally:
            with self._lock:
                self._under_way = False
                unwanted = self._unwanted
            if unwanted:
                self._close()

    def end(self) -> None:
        """Take no further step, and close the generator."""
        with self._lock:
            self._unwanted = True
            under_way = self._under_way
        if not under_way:
            self._close()

    def _close(self) -> None:
        # Other iterators, such as that of a list, have nothing to close.
        if isinstance(self._generator, GeneratorType):
            self._generator.close()


async def _steps(
    generator: Iterator[Any], item: Any, hooks: Sequence[TaskHook], call: Caller
) -> AsyncGenerator[Any, None]:
    steps = _Generator(generator)

    async def step() -> Any:
        result = await call(steps.step, None)
        if not result:
            raise StopAsyncIteration
        return result[0]

    try:
        async with aclosing(_hooked_steps(step, item, hooks)) as values:
            async for value in values:
                yield value
    finally:
        steps.end()


async def _async_steps(
    generator: AsyncGenerator[Any, None],
    item: Any,
    hooks: Sequence[TaskHook],
    close: Closer,
    is_over: Callable[[], bool],
) -> AsyncGenerator[Any, None]:
    async def step() -> Any:
        _check_wanted(is_over)
        return await anext(generator)

    try:
        async with aclosing(_hooked_steps(step, item, hooks)) as values:
            async for value in values:
                yield value
    finally:
        # A hook may have failed, and a stop come while the generator has something to save.
        await close(generator)


async def _hooked_steps(
    step: Callable[[], Awaitable[Any]], item: Any, hooks: Sequence[TaskHook]
) -> AsyncGenerator[Any, None]:
    ended = False

    async def noted() -> Any:
        # Noted here, because a hook may swallow the exception.
        nonlocal ended
        try:
            return await step()
        except StopAsyncIteration:
            ended = True
            raise

    while not ended:
        outcome = await run_inside(hooks, item, noted)
        if outcome.error is not None and not (ended and outcome.blamed is None):
            try:
                raise outcome.error
            finally:
                # As above.
                del outcome
        if not ended:
            yield outcome.value
