"""The interface of the event loop that the engine and its stages use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable, Coroutine
    from types import AsyncGeneratorType, CoroutineType

    from spdl.pipeline._world import Thread

__all__ = ["Awaited", "EventLoop"]

# Results of ops that the loop runs.
Awaited: TypeAlias = "CoroutineType[Any, Any, Any] | AsyncGeneratorType[Any, Any]"


class EventLoop(Protocol):
    """The thread that serves async ops and sources, and whatever coroutine an op returns; `EventLoopThread` is one.

    Attributes:
        thread: The thread.
        closing: The tasks that close a generator, which is not to be interrupted.
    """

    thread: Thread
    closing: set[asyncio.Task[Any]]

    def start(self) -> None:
        """Start the thread."""

    def starts_workers(self) -> bool:
        """Return whether the loop has something to do before the workers may start, and starts them then."""

    def has_left(self) -> bool:
        """Return whether nothing is left that the pipeline must wait for. Called with the engine's lock held."""

    def wake(self) -> None:
        """Have the loop look at its queues. Called with the engine's lock held."""

    def stop_or_wake(self) -> None:
        """Have the loop see that the engine is done or stopping. Needs no lock."""

    def adopt(self, awaited: Awaited, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what an op returned, in a coroutine that ``run`` makes. Called with the engine's lock held."""

    def wait_for_room(self) -> asyncio.Future[None]:
        """Return a future that ends when room may have appeared. Called on the loop's thread with the lock held."""

    def post(self, function: Callable[[], object]) -> None:
        """Have the loop call a function. Needs no lock."""

    async def close(self, generator: AsyncGenerator[Any, None]) -> None:
        """Close an async generator in the current task, which is not interrupted meanwhile."""

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Interrupt a task, unless it is closing a generator. Called on the loop's thread."""

    def awaits_others(self) -> bool:
        """Return whether nothing but tasks that are no stage's keep the thread from ending. Needs no lock."""

    def suspended(self) -> list[asyncio.Task[None]]:
        """Return the tasks that do not end, though the thread is free to run them. Needs no lock."""

    def waits_for_source(self) -> bool:
        """Return whether nothing but a source keeps the thread from ending. Needs no lock."""
