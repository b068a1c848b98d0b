"""What callers wait for."""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.store._reading.attempts import Answer, ExpiredError, Request

__all__ = ["Call"]


class Call:
    """Requests whose answers one caller waits for, in a thread of its own.

    Attributes:
        requests: The requests.
        ended: Whether nobody waits anymore: all are answered, one has failed, or the caller was interrupted.
        news: What the caller is told: the index of a request and why it was refused, or at the end None.
        error: Why it failed.

    Args:
        requests: The requests.
    """

    __slots__ = ("_answers", "_left", "ended", "error", "news", "requests")

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.ended = False
        self.error: BaseException | None = None
        self.news: SimpleQueue[tuple[int, ExpiredError] | None] = SimpleQueue()
        self._answers: list[Answer | None] = [None] * len(requests)
        self._left = len(requests)

    def take(self, index: int, answer: Answer) -> None:
        """Take the answer of a request; the last one ends the call."""
        self._answers[index] = answer
        self._left -= 1
        if not self._left:
            self.end(None)

    def end(self, error: BaseException | None) -> None:
        """End the call; its caller is told later."""
        if not self.ended:
            self.ended = True
            self.error = error

    def answers(self) -> list[Answer]:
        """Return the answers, or raise the error."""
        if self.error is not None:
            raise self.error
        return self._answers  # type: ignore[return-value]
