"""What carries requests to a server: the part of reading that differs between kinds of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from spdl.store._protocol.store import StoreError

if TYPE_CHECKING:
    from spdl.store._reading.crew import Crew

__all__ = ["Answer", "Attempt", "FailedAttemptError", "Request", "Transport", "UnknownSizeError"]


class Request(NamedTuple):
    """A question to the server.

    Attributes:
        path: The object.
        start: The first byte wanted.
        length: How many bytes are wanted; fewer come if the object ends before. None: only its size and version.
        or_all: Whether all of the object is as welcome, if the server cannot send parts.
    """

    path: str
    start: int
    length: int | None
    or_all: bool = False


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
        kind: The counter that it belongs to: ``"throttled"``, ``"broken"``, ``"cut"``, ``"wrong"`` or ``"late"``.
        reason: What went wrong.
        retry_after: Seconds that the server asks to wait, if it does.
    """

    def __init__(self, kind: str, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retry_after = retry_after


class UnknownSizeError(StoreError):
    """Raised if a server does not say how many bytes an object has, though it answers."""


class Attempt(Protocol):
    """A request that is sent once.

    Attributes:
        first_byte_at: When the answer began; None before.
    """

    first_byte_at: float | None

    def run(self) -> Answer:
        """Send it, and return the answer.

        Raises:
            FailedAttemptError: If another attempt may help.
            FileNotFoundError: If the object is missing.
            Exception: Another one if no other attempt will help.
        """
        ...

    def abort(self) -> None:
        """Have `run`, in another thread, raise something soon."""


class Transport(Protocol):
    """Carries requests. Threads share it."""

    def prepare(self, until: float, crew: Crew, /) -> None:
        """Called before requests, by the thread that waits for their answers until then. It may raise anything."""

    def attempt(self, request: Request, until: float, crew: Crew, /) -> Attempt:
        """Return an attempt to have a request answered until a time, by the monotonic clock. A crew may help."""
        ...

    def close(self) -> None:
        """Let go what is kept for the next request: there may be none."""

    def abandon(self) -> None:
        """Let go everything, in a process forked from that which uses it, and without a word to anybody."""
