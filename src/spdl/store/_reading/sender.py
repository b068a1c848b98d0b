"""Has requests answered: repeats what failed, and asks a second time where an answer is late."""

from __future__ import annotations

import math
import random
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING

from spdl.store._protocol.store import StoreError
from spdl.store._reading.attempts import ExpiredError, FailedAttemptError
from spdl.store._reading.crew import Crew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.store._reading.attempts import Answer, Attempt, Request, Transport
    from spdl.store._reading.books import Books

__all__ = ["Sender", "full_jitter"]

_MOST_FAULTY = 8
"""Answers that are cut or wrong come from a server or a proxy that works, and often stay so."""
_FAULTY = ("cut", "wrong")
_MOST_UNREACHED = 8
"""If nobody has ever answered, the address is likely to be wrong. These attempts take about ten seconds."""
_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 10.0
_MOST_HEDGES = 2
_URGENT = 2.0
"""The last part of the budget is for requests that are so many times as late as others."""


def _sleep(seconds: float, woken: threading.Event) -> None:
    woken.wait(seconds)


def full_jitter(failures: int, random: Callable[[], float]) -> float:
    """Return seconds between 0 and a bound that doubles with each failure: clients do not come back together."""
    return random() * min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(failures - 1, 30))


class Sender:
    """Sends requests in the threads of their callers, and a second time in another one. Threads share it.

    Args:
        transport: Carries them.
        books: Counts them, and knows how many there may be.
        seconds: How long one may take from when it is asked for, with all attempts.
        monotonic: The clock, in seconds.
        sleep: Waits for so many seconds, or until an event.
        random: Returns a number from 0 to 1.
    """

    def __init__(
        self,
        transport: Transport,
        books: Books,
        seconds: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float, threading.Event], object] = _sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.transport = transport
        self.books = books
        self.seconds = seconds
        self.monotonic = monotonic
        self._sleep = sleep
        self._random = random
        self._crew = Crew()

    def until(self) -> float:
        """Return when a request ends that is asked for now, by the monotonic clock."""
        return self.monotonic() + self.seconds

    def is_over(self, until: float) -> bool:
        """Return whether there is no time for another request."""
        return self.monotonic() >= until

    def answer(self, request: Request, until: float, call: _Call | None = None) -> Answer:
        """Return the answer of a request, which ends at a time that `until` has returned."""
        books = self.books
        crew = self._crew if call is None else call.crew
        self.transport.prepare(until, crew)
        failures, faulty = 0, 0
        while True:
            self._take_place(until, failures)
            try:
                race = _Race(self, crew, request, until)
                answer = race.run() if call is None else call.run(race)
                if not isinstance(answer, Exception):
                    race.book(answer)
                    return answer
            finally:
                books.end()
            now = self.monotonic()
            failures += race.failures
            if not isinstance(answer, FailedAttemptError):
                if now >= until and failures:
                    answer = StoreError(f"{answer}, after {failures} failed attempts")
                raise answer
            faulty += answer.kind in _FAULTY
            pause = full_jitter(failures, self._random) + (answer.retry_after or 0.0)
            if isinstance(answer, ExpiredError) and faulty < _MOST_FAULTY:
                if not answer.renew():
                    raise StoreError(answer.reason)
                pause = 0.0
            unreached = failures >= _MOST_UNREACHED and not books.reached
            if faulty >= _MOST_FAULTY or unreached or now + pause >= until:
                spent = now - (until - self.seconds)
                raise StoreError(f"{answer.reason} (attempt {failures}, after {spent:.1f} s)") from answer
            books.count("retries")
            if pause:
                self._sleep(pause, threading.Event() if call is None else call.given_up)
            if call is not None and call.given_up.is_set():
                raise answer

    def _take_place(self, until: float, failures: int) -> None:
        if not self.books.begin(until - self.monotonic()):
            before = f", after {failures} failed attempts" if failures else ""
            raise StoreError(f"no answer in {self.seconds:g} s: too many other requests were under way{before}")

    def answer_all(self, requests: Iterator[Request], take: Callable[[Request, Answer, float], None]) -> None:
        """Have all requests answered, several at a time, each in its own time from when it is its turn.

        `take` is called with each answer, and the time at which its request would have ended, by any thread.
        """
        call = _Call(requests, take, self._crew)
        try:
            call.get_help(self)
            call.wait()
        except BaseException as error:
            call.end(error)
            raise
        if call.error is not None:
            raise call.error

    @property
    def has_room(self) -> bool:
        """Whether one more request would have to wait for nothing."""
        return self.books.has_room

    def close(self) -> None:
        """End the threads, and let go what the transport keeps, when all calls have ended. The next call begins anew.

        This waits for the end only if there are no calls.
        """
        crew, self._crew = self._crew, Crew()
        self.transport.close()
        crew.close()

    def close_soon(self) -> None:
        """Have the threads end. Takes no lock, and waits for nothing."""
        self._crew.close_soon()


class _Race:
    """A request that is sent, and sent again if it is late: the first answer counts.

    Attributes:
        at: When it has to be looked at.
        failures: How many of its attempts have failed.
    """

    def __init__(self, sender: Sender, crew: Crew, request: Request, until: float) -> None:
        self._sender = sender
        self._books = sender.books
        self._crew = crew
        self._request = request
        self._until = until
        self._sent_at = self._sender.monotonic()
        delay = None if request.length is None else self._books.hedge_delay(request.length)
        self._hedge_at = math.inf if delay is None else self._sent_at + delay
        self.at = min(until, self._hedge_at)
        self.failures = 0
        self._hedges = 0
        self._hedged = 0.0
        self._lock = threading.Lock()
        self._under_way: dict[Attempt, float] = {}
        self._outcome: Answer | Exception | None = None
        self._won = False
        self._began: tuple[float, float] | None = None
        self._ended: SimpleQueue[None] = SimpleQueue()

    def run(self) -> Answer | Exception:
        """Return the answer, or why there is none."""
        try:
            self._crew.watch(self)
            self._carry(first=True)
            if self._outcome is None:
                self._ended.get()
        finally:
            self._crew.forget(self)
            if self._outcome is None:  # It was interrupted.
                self.end(StoreError("nobody waits for it"))
        assert self._outcome is not None
        return self._outcome

    def _carry(self, *, first: bool) -> None:
        attempt = self._sender.transport.attempt(self._request, self._until, self._crew)
        sent_at = self._sender.monotonic()
        with self._lock:
            if self._outcome is not None:
                return
            self._under_way[attempt] = sent_at
        try:
            answer = attempt.run()
        except FailedAttemptError as error:
            with self._lock:
                if self._outcome is not None:
                    return
                del self._under_way[attempt]
                self.failures += 1
                self._books.failed(error.kind)
                if self._under_way:
                    return
            self.end(error)
        except Exception as error:  # noqa: BLE001 - it is the caller's.
            self.end(error)
        else:
            began = attempt.first_byte_at
            self.end(answer, attempt, won=not first, began=None if began is None else (sent_at, began))

    def end(
        self,
        outcome: Answer | Exception,
        winner: Attempt | None = None,
        *,
        won: bool = False,
        began: tuple[float, float] | None = None,
    ) -> None:
        """Have this be the outcome, unless there is one, and stop all attempts but one."""
        with self._lock:
            if self._outcome is not None:
                return
            self._outcome, self._won, self._began = outcome, won, began
            losers = [attempt for attempt in self._under_way if attempt is not winner]
        for attempt in losers:
            attempt.abort()
        self._ended.put(None)

    def look(self, now: float) -> None:
        """Stop it if nobody waits for it anymore, and send it once more if it is late and may be."""
        if now >= self._until:
            self.end(StoreError(f"no answer in {self._sender.seconds:g} s"))
            self.at = math.inf
            return
        if now >= self._hedge_at:
            asked = self._request.length or 0
            # The next one may be late as well, or the budget may have grown meanwhile.
            delay = self._books.hedge_delay(asked) or math.inf
            taken = self._books.take_hedge(asked, urgent=now - self._sent_at >= _URGENT * delay)
            if taken is not None:
                # Before: its answer may come at once.
                self._hedges += 1
                self._hedged += taken
                if not self._crew.help(lambda: self._carry(first=False)):
                    self._hedges -= 1
                    self._hedged -= taken
                    self._books.give_back_hedge(taken)
            self._hedge_at = now + delay if self._hedges < _MOST_HEDGES else math.inf
        self.at = min(self._until, self._hedge_at)

    def book(self, answer: Answer) -> None:
        """Have the books learn from its answer."""
        now = self._sender.monotonic()
        self._books.answered(
            self._request.length or 0,
            len(answer.content),
            now - self._sent_at,
            None if self._began is None else self._began[1] - self._began[0],
            0.0 if self._began is None else now - self._began[1],
            hedged=self._hedged,
            hedges=self._hedges,
            won=self._won,
        )


class _Call:
    """Requests whose answers one caller waits for, while other threads have them answered.

    Attributes:
        crew: The other threads.
        error: Why there will be no answers.
        given_up: Is set when there is an error.
    """

    def __init__(self, requests: Iterator[Request], take: Callable[[Request, Answer, float], None], crew: Crew) -> None:
        self.crew = crew
        self.given_up = threading.Event()
        self.error: BaseException | None = None
        self._take = take
        self._lock = threading.Lock()
        self._requests = requests
        self._following = next(requests, None)
        self._working = 0
        self._races: set[_Race] = set()
        self._ended: SimpleQueue[None] = SimpleQueue()

    def get_help(self, sender: Sender) -> None:
        """Have one more thread work for it if there is something to do, or this one if there is none at all."""
        with self._lock:
            if self._following is None or self.error is not None:
                if not self._working:
                    self._ended.put(None)
                return
            self._working += 1
            first = self._working == 1
        if not (sender.has_room and self.crew.help(lambda: self._work(sender))):
            if first:
                self._work(sender)
            else:
                self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._working -= 1
            if not self._working:
                self._ended.put(None)

    def _work(self, sender: Sender) -> None:
        while True:
            with self._lock:
                request, more = self._following, False
                if request is not None and self.error is None:
                    self._following = next(self._requests, None)
                    more = self._following is not None
            if request is None or self.error is not None:
                break
            if more:
                self.get_help(sender)
            try:
                until = sender.until()
                self._take(request, sender.answer(request, until, self), until)
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for.
                self.end(error)
        self._leave()

    def run(self, race: _Race) -> Answer | Exception:
        """Run a race that ends with the call."""
        with self._lock:
            self._races.add(race)
        if self.error is not None:
            race.end(StoreError("nobody waits for it"))
        try:
            return race.run()
        finally:
            with self._lock:
                self._races.discard(race)

    def end(self, error: BaseException) -> None:
        """Stop what is under way, since one has failed or nobody waits for the answers."""
        with self._lock:
            self.error = self.error or error
            races = list(self._races)
        self.given_up.set()
        for race in races:
            race.end(StoreError("nobody waits for it"))
        self._ended.put(None)

    def wait(self) -> None:
        """Wait for the end."""
        self._ended.get()
