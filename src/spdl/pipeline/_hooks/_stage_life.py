"""The user's context managers around the life of a stage."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spdl.pipeline._source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from spdl.pipeline._node import Node

__all__ = ["StageLife"]


class StageLife:
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
        try:
            for context in self._contexts:
                await context.__aenter__()
                self._entered.append(context)
        except asyncio.CancelledError:
            # The pipeline stops.
            raise
        except BaseException as error:  # noqa: BLE001 - the consumer is told.
            self._fail(error)

    def is_over(self) -> bool:
        """Whether it is to be left now. Called with the lock held."""
        stage = self.stage
        return not self.leaving and (stage.finished() if isinstance(stage, Source) else stage.finished)

    async def leave(self) -> None:
        """Leave in reverse order those that were entered, however the stage ended."""
        engine = self.stage.engine
        while self._entered:
            context = self._entered.pop()
            try:
                await context.__aexit__(None, None, None)
            except BaseException as error:  # noqa: BLE001 - it fails the pipeline; the others are left all the same.
                self._fail(error)
        with engine.lock:
            self.ended = True
            engine.concluded()

    def _fail(self, error: BaseException) -> None:
        engine = self.stage.engine
        error.add_note("Raised by a context manager around the stage's life.")
        with engine.lock:
            engine.fail(self.stage, None, error)
