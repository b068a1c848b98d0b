"""What carries requests to a server: the part of reading that differs between kinds of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from spdl.store._protocol.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Answer", "Exchange", "FailedAttemptError", "Request", "Transport"]


class Request(NamedTuple):
    """A question to the server.

    Attributes:
        path: The object.
        start: The first byte wanted.
        length: How many bytes are wanted; fewer come if the object ends before. None: only its size and version.
    """

    path: str
    start: int
    length: int | None


class Answer(NamedTuple):
    """What the server said.

    Attributes:
        content: The bytes; a read-only view of memory that belongs to the answer.
        size: The bytes of the whole object.
        etag: The version of the object, if the server says.
    """

    content: memoryview
    size: int
    etag: str | None


class FailedAttemptError(StoreError):
    """Raised if a request failed that may succeed when it is repeated.

    Args:
        kind: The counter that it belongs to: ``"throttled"``, ``"broken"``, ``"wrong"`` or ``"late"``.
        reason: What went wrong.
        retry_after: Seconds that the server asks to wait, if it does.
        at_once: Whether there is nothing to wait for: the connection had been closed before the request was sent.
    """

    def __init__(self, kind: str, reason: str, retry_after: float | None = None, *, at_once: bool = False) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retry_after = retry_after
        self.at_once = at_once


class Exchange(Protocol):
    """A request on its way. Only the thread that sent it uses it."""

    @property
    def done(self) -> bool:
        """Whether `answer` has something to say."""

    @property
    def first_byte_at(self) -> float | None:
        """When the answer began; None before, and if nobody can tell."""

    @property
    def moved_at(self) -> float:
        """When something was last heard of it."""

    def answer(self) -> Answer:
        """Return the answer.

        Raises:
            FailedAttemptError: If another attempt may help.
            FileNotFoundError: If the object is missing.
            StoreError: If no other attempt will help.
        """
        ...

    def cancel(self) -> None:
        """Stop it: nothing more is received."""


class Transport(Protocol):
    """Sends requests, and waits for answers."""

    def send(self, request: Request) -> Exchange:
        """Send a request, without waiting for its answer."""
        ...

    def wait(self, exchanges: Sequence[Exchange], seconds: float | None) -> None:
        """Return when one of the exchanges is done or has moved on, or after so many seconds."""
