"""Sends requests until all are answered: repeats what failed, and asks a second time where an answer is late."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from spdl.store._protocol.errors import StoreError
from spdl.store._reading.attempts import FailedAttemptError
from spdl.store._reading.backoff import full_jitter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.store._reading.attempts import Answer, Exchange, Request, Transport
    from spdl.store._reading.books import Books

__all__ = ["Surroundings", "answer_all"]

_SILENCE_SECONDS = 20.0
_MOST_FAULTY = 8
"""Answers that are cut or wrong come from a server or a proxy that works, and often stay so."""
_FAULTY = ("cut", "wrong")
_MOST_HEDGES = 2
_URGENT = 2.0
"""The last part of the budget is for requests that are so many times as late as others."""


class Surroundings(NamedTuple):
    """What requests are sent by, and what they share.

    Attributes:
        transport: Sends them.
        books: Counts them, and knows how many there may be.
        seconds: How long one may take, with all attempts.
        monotonic: The clock, in seconds.
        random: Returns a number from 0 to 1.
    """

    transport: Transport
    books: Books
    seconds: float
    monotonic: Callable[[], float]
    random: Callable[[], float]


class _Task:
    """A request, with the exchanges that try to have it answered."""

    __slots__ = (
        "exchanges",
        "failures",
        "faulty",
        "hedge_at",
        "hedged",
        "hedges",
        "index",
        "ready_at",
        "request",
        "sent_at",
        "until",
    )

    def __init__(self, index: int, request: Request) -> None:
        self.index = index
        self.request = request
        self.exchanges: list[tuple[Exchange, float]] = []
        self.failures = 0
        self.faulty = 0
        self.ready_at = 0.0
        self.sent_at = 0.0
        self.hedge_at = math.inf
        self.hedged = 0.0
        self.hedges = 0
        self.until = math.inf


def answer_all(requests: Sequence[Request], surroundings: Surroundings) -> list[Answer]:
    """Return the answers of all requests, which are sent by this thread, several at a time.

    Raises:
        FileNotFoundError: If the object of one is missing.
        StoreError: If one cannot be answered. All others are cancelled.
    """
    return _Run(requests, surroundings).run()


class _Run:
    def __init__(self, requests: Sequence[Request], surroundings: Surroundings) -> None:
        self._transport, self._books, self._seconds, self._monotonic, self._random = surroundings
        self._fresh = deque(_Task(index, request) for index, request in enumerate(requests))
        self._pausing: list[_Task] = []
        self._under_way: list[_Task] = []
        self._answers: list[Answer | None] = [None] * len(requests)

    def run(self) -> list[Answer]:
        try:
            while self._fresh or self._pausing or self._under_way:
                now = self._send_waiting()
                self._transport.wait([each for task in self._under_way for each, _ in task.exchanges], self._pause(now))
                self._look()
        finally:
            # Only if something was raised: none is left otherwise.
            for task in self._under_way:
                for exchange, _ in task.exchanges:
                    exchange.cancel()
                self._books.end()
        return self._answers  # type: ignore[return-value]

    def _send_waiting(self) -> float:
        now = self._monotonic()
        while True:
            task = next((each for each in self._pausing if each.ready_at <= now), None)
            if task is None and self._fresh:
                task = self._fresh[0]
                task.until = now + self._seconds
            if task is None:
                return now
            if not self._under_way:
                self._books.begin(task.until - now)
                now = self._monotonic()
            elif not self._books.try_begin():
                return now
            if self._fresh and task is self._fresh[0]:
                self._fresh.popleft()
            else:
                self._pausing.remove(task)
            self._under_way.append(task)
            task.sent_at = now
            task.hedged, task.hedges = 0.0, 0
            asked = task.request.length
            delay = None if asked is None else self._books.hedge_delay(asked)
            task.hedge_at = math.inf if delay is None else now + delay
            self._send(task, now)

    def _send(self, task: _Task, now: float) -> None:
        task.exchanges.append((self._transport.send(task.request), now))

    def _pause(self, now: float) -> float | None:
        """Return for how many seconds nothing has to be done but to receive."""
        if not self._under_way:
            return max(0.0, min(task.ready_at for task in self._pausing) - now)
        until = min(min(task.until, task.hedge_at) for task in self._under_way)
        # One that is ready waits for a place; one of ours may become free.
        until = min([until, *(task.ready_at for task in self._pausing if task.ready_at > now)])
        return max(0.0, min(until - now, _SILENCE_SECONDS))

    def _look(self) -> None:
        now = self._monotonic()
        for task in self._under_way[:]:
            for exchange, sent_at in task.exchanges[:]:
                if exchange.done:
                    if self._take_answer(task, exchange, sent_at, now):
                        break
                elif now - exchange.moved_at >= _SILENCE_SECONDS:
                    exchange.cancel()
                    failure = FailedAttemptError("late", f"nothing was heard for {_SILENCE_SECONDS:g} s")
                    self._attempt_failed(task, exchange, failure, now)
            if task.exchanges:
                self._look_at_time(task, now)

    def _look_at_time(self, task: _Task, now: float) -> None:
        if now >= task.until:
            raise StoreError(f"no answer in {self._seconds:g} s{_after(task)}")
        if now >= task.hedge_at:
            # The next one may be late as well, or the budget may have grown meanwhile.
            asked = task.request.length or 0
            delay = self._books.hedge_delay(asked) or math.inf
            task.hedge_at = now + delay
            if len(task.exchanges) > _MOST_HEDGES:
                return
            taken = self._books.take_hedge(asked, urgent=now - task.sent_at >= _URGENT * delay)
            if taken is not None:
                task.hedges += 1
                task.hedged += taken
                self._send(task, now)

    def _take_answer(self, task: _Task, exchange: Exchange, sent_at: float, now: float) -> bool:
        """Return whether the task is answered."""
        try:
            answer = exchange.answer()
        except FailedAttemptError as failure:
            self._attempt_failed(task, exchange, failure, now)
            return False
        for other, _ in task.exchanges:
            if other is not exchange:
                other.cancel()
        won = len(task.exchanges) > 1 and exchange is not task.exchanges[0][0]
        began = exchange.first_byte_at
        self._under_way.remove(task)
        task.exchanges.clear()
        self._answers[task.index] = answer
        self._books.answered(
            task.request.length or 0,
            len(answer.content),
            now - task.sent_at,
            None if began is None else began - sent_at,
            0.0 if began is None else now - began,
            hedged=task.hedged,
            hedges=task.hedges,
            won=won,
        )
        return True

    def _attempt_failed(self, task: _Task, exchange: Exchange, failure: FailedAttemptError, now: float) -> None:
        task.exchanges = [each for each in task.exchanges if each[0] is not exchange]
        ended = not task.exchanges
        if ended:
            self._under_way.remove(task)
        self._books.failed(failure.kind, ended=ended)
        task.failures += 1
        task.faulty += failure.kind in _FAULTY
        if not ended:
            return
        pause = 0.0 if failure.at_once else full_jitter(task.failures, self._random)
        if failure.retry_after is not None:
            pause += failure.retry_after
        if task.faulty >= _MOST_FAULTY or now + pause >= task.until:
            spent = now - (task.until - self._seconds)
            raise StoreError(f"{failure.reason} (attempt {task.failures}, after {spent:.1f} s)") from failure
        task.ready_at = now + pause
        self._pausing.append(task)
        self._books.count("retries")


def _after(task: _Task) -> str:
    return f", after {task.failures} failed attempts" if task.failures else ""
