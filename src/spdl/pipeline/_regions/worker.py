"""What a region asks of its workers, wherever they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._engine.engine import Engine

    from .messages import Job

__all__ = ["Channel", "Kind", "Worker"]


class Channel(Protocol):
    """The pipeline's end of a connection, as `spdl.pipeline._transport.channel` describes it."""

    def send(self, items: Sequence[object], timeout: float | None = None) -> None: ...

    def receive(self, timeout: float | None = None) -> list[Any]: ...

    def has_room(self) -> bool: ...

    def descriptors(self) -> list[int]: ...


class Worker(Protocol):
    """A worker that has been started."""

    @property
    def channel(self) -> Channel: ...

    def close(self) -> None:
        """Have it end by itself. Somebody else waits for it."""

    def end(self, grace: float) -> str:
        """Have it end, within so many seconds if there is a way, and return how it ended, in words."""

    def engines(self) -> list[Engine]:
        """Return the engine that runs its stages, if that is in this process's threads."""


class Kind(Protocol):
    """Starts the workers of one region."""

    def prepare(self, region: str, job: Job) -> None:
        """Make ready what all workers need.

        Args:
            region: The region's name, for messages.
            job: The work.

        Raises:
            TypeError: If something that they need cannot be sent to them.
            RuntimeError: If there can be none here.
        """

    def start(self, number: int) -> Worker:
        """Start one. It begins by itself; nobody waits for it."""

    def let_go(self) -> list[Any]:
        """Return the user's objects, and forget them."""
