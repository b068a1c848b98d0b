"""A server in virtual time: nobody waits, and each answer comes when a script says."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from spdl.store._protocol.errors import StoreError
from spdl.store._reading.attempts import Answer, FailedAttemptError, Request
from spdl.store._reading.books import Books
from spdl.store._reading.requests import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.store._reading.attempts import Exchange


class Reply(NamedTuple):
    """What the server does with a request.

    Attributes:
        seconds: When it is done.
        outcome: The content, an error, or None for silence.
        first: When the first byte comes; None means when it is done.
    """

    seconds: float
    outcome: bytes | Exception | None
    first: float | None = None


class SimulatedExchange:
    def __init__(self, server: SimulatedServer, request: Request, reply: Reply) -> None:
        self.server = server
        self.request = request
        self.reply = reply
        self.sent_at = server.now
        self.done_at = server.now + reply.seconds
        self.cancelled = False

    @property
    def done(self) -> bool:
        return self.reply.outcome is not None and self.server.now >= self.done_at

    @property
    def first_byte_at(self) -> float | None:
        return self.sent_at + (self.reply.seconds if self.reply.first is None else self.reply.first)

    @property
    def moved_at(self) -> float:
        return self.sent_at

    def answer(self) -> Answer:
        assert self.done
        self.server.answered += 1
        if isinstance(self.reply.outcome, Exception):
            raise self.reply.outcome
        assert self.reply.outcome is not None
        return Answer(memoryview(self.reply.outcome), 1 << 40, "v1")

    def cancel(self) -> None:
        self.cancelled = True


class SimulatedServer:
    """A transport, and the clock.

    Args:
        script: Returns the reply to a request; it is told how many were sent before.
    """

    def __init__(self, script: Callable[[Request, int], Reply], seconds: float = 120.0, seed: int = 0) -> None:
        self.now = 1000.0
        self.script = script
        self.sent: list[SimulatedExchange] = []
        self.answered = 0
        self.most_at_once = 0
        self.books = Books(lambda: self.now)
        self.surroundings = Surroundings(self, self.books, seconds, lambda: self.now, random.Random(seed).random)  # noqa: S311

    def send(self, request: Request) -> SimulatedExchange:
        exchange = SimulatedExchange(self, request, self.script(request, len(self.sent)))
        self.sent.append(exchange)
        return exchange

    def wait(self, exchanges: Sequence[Exchange], seconds: float | None) -> None:
        self.most_at_once = max(self.most_at_once, len(exchanges))
        ours = [each for each in exchanges if isinstance(each, SimulatedExchange)]
        times = [each.done_at for each in ours if each.reply.outcome is not None]
        if seconds is not None:
            times.append(self.now + seconds)
        assert times, "it would wait for ever"
        self.now = max(self.now, min(times))


def busy(retry_after: float | None = None) -> FailedAttemptError:
    return FailedAttemptError("throttled", "busy", retry_after)


def broken() -> FailedAttemptError:
    return FailedAttemptError("broken", "reset")


def refused() -> StoreError:
    return StoreError("forbidden")
