"""The user's context managers around the lifespan of a stage."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from spdl.pipeline._failures.cancellation import end_cancellation, not_cancelled
from spdl.pipeline._failures.error_text import note_once

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from .node import Node
    from .source import Source

__all__ = ["Lifespan"]


class Lifespan:
    """Enters the context managers before the pipeline works, and leaves them once the stage has ended.

    Both run on the event loop. The pipeline does not end before they are left, so what is raised there is told.
    """

    __slots__ = ("_contexts", "_entered", "ended", "leaving", "stage")

    def __init__(self, stage: Node | Source, contexts: Sequence[AbstractAsyncContextManager[None]]) -> None:
        self.stage = stage
        self._contexts = contexts
        self._entered: list[AbstractAsyncContextManager[None]] = []
        # The event loop leaves them now, and has left them. Guarded by the engine's lock.
        self.leaving = False
        self.ended = False

    async def enter(self) -> None:
        """Enter them in order. What they raise fails the pipeline."""
        for context in self._contexts:
            error = await _run(partial(self._enter, context))
            if error is None:
                continue
            if isinstance(error, asyncio.CancelledError) and self.stage.engine.is_over():
                try:
                    raise error
                finally:
                    # As in `_run`.
                    del error
            self._fail(error)
            return

    async def _enter(self, context: AbstractAsyncContextManager[None]) -> None:
        await context.__aenter__()
        self._entered.append(context)

    def begins_to_end(self) -> bool:
        """Return True, once, if the context managers are to be left now. Called with the lock held."""
        if self.leaving or not self.stage.is_finished():
            return False
        self.leaving = True
        return True

    async def leave(self) -> None:
        """Leave in reverse order those that were entered, however the stage ended."""
        engine = self.stage.engine
        while self._entered:
            error = await _run(partial(self._entered.pop().__aexit__, None, None, None))
            if error is not None:
                # The others are left all the same.
                self._fail(error)
        with engine.lock:
            self.ended = True
            engine.concluded()

    def _fail(self, error: BaseException) -> None:
        engine = self.stage.engine
        error = not_cancelled(error)
        note_once(error, "Raised by a context manager around the stage's lifespan.")
        with engine.lock:
            engine.fail(self.stage, None, error)


async def _run(step: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Take a step into a context manager or out of it, and return what it raises or cancels itself with."""
    current = asyncio.current_task()
    assert current is not None
    before = current.cancelling()
    error: BaseException | None = None
    try:
        await step()
    except BaseException as raised:  # noqa: BLE001 - the consumer is told.
        error = raised
    if current.cancelling() > before:
        error = await end_cancellation(current, before) or error
    try:
        return error
    finally:
        # Its traceback holds this frame, and the frame must not hold it.
        error = None
