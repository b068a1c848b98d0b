"""A server in virtual time: nobody waits, and each answer comes when a script says."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from spdl.store._protocol.errors import StoreError
from spdl.store._reading.attempts import Answer, FailedAttemptError, Request
from spdl.store._reading.books import Books
from spdl.store._reading.calls import Call
from spdl.store._reading.dispatcher import Dispatcher, Surroundings

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
        self.taken = False
        self.looked = 0

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

    def look(self) -> None:
        self.looked += 1

    def cancel(self) -> None:
        self.cancelled = True


class SimulatedServer:
    """A transport, and the clock.

    Args:
        script: Returns the reply to a request; it is told how many were sent before.
    """

    def __init__(self, script: Callable[[Request, int], Reply], seconds: float = 120.0, seed: int = 0) -> None:
        self.now = 1000.0
        self.exchanges = SimulatedExchange
        self.script = script
        self.sent: list[SimulatedExchange] = []
        self.answered = 0
        self.most_at_once = 0
        self.books = Books()
        generator = random.Random(seed)  # noqa: S311 - a script.
        self.dispatcher = Dispatcher(Surroundings(self, self.books, seconds, lambda: self.now, generator.random))

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Return the answers, as a caller gets them. What the thread does otherwise is done here."""
        call = Call(requests)
        self.dispatcher.add(call)
        done: Sequence[Exchange] = ()
        while True:
            self.dispatcher.step(done)
            self.dispatcher.tell_callers()
            if not call.news.empty():
                found = call.news.get()
                if found is None:
                    assert self.dispatcher.idle
                    return call.answers()
                index, refused = found
                if not refused.renew():
                    self.dispatcher.drop(call)
                    raise StoreError(refused.reason)
                self.dispatcher.resume(call, index)
                done = ()
                continue
            done = self.wait(self.dispatcher.pause())

    def run(self) -> None:
        """Carry requests until there is no call."""
        done: Sequence[Exchange] = ()
        while True:
            self.dispatcher.step(done)
            if self.dispatcher.idle:
                return
            done = self.wait(self.dispatcher.pause())

    def prepare(self) -> None: ...

    def begin(self) -> None: ...

    def wake(self) -> None: ...

    def rest(self) -> None: ...

    def abandon(self) -> None: ...

    def send(self, request: Request) -> SimulatedExchange:
        exchange = self.exchanges(self, request, self.script(request, len(self.sent)))
        self.sent.append(exchange)
        return exchange

    def wait(self, seconds: float | None) -> Sequence[Exchange]:
        under_way = [each for each in self.sent if not (each.cancelled or each.taken)]
        self.most_at_once = max(self.most_at_once, len(under_way))
        times = [each.done_at for each in under_way if each.reply.outcome is not None]
        if seconds is not None:
            times.append(self.now + seconds)
        assert times, "it would wait for ever"
        self.now = max(self.now, min(times))
        done = [each for each in under_way if each.done]
        for each in done:
            each.taken = True
        return done


def busy(retry_after: float | None = None) -> FailedAttemptError:
    return FailedAttemptError("throttled", "busy", retry_after)


def broken() -> FailedAttemptError:
    return FailedAttemptError("broken", "reset")


def refused() -> StoreError:
    return StoreError("forbidden")
