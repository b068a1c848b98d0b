"""Sends requests: repeats those that failed, and asks a second time if an answer is late."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeVar

from spdl.store._server_limits import RequestCounters
from spdl.store._store import StoreError


class Request(NamedTuple):
    path: str
    start: int
    length: int | None
    """Fewer bytes come if the object ends before. None asks for its size and version only."""
    or_all: bool = False
    """Whether all of the object is as welcome, if the server cannot send parts."""


class Answer(NamedTuple):
    content: memoryview
    """Read-only; its memory belongs to the answer."""
    size: int
    """The bytes of the whole object."""
    etag: str | None


class FailedAttemptError(StoreError):
    """A request has failed that may succeed when it is repeated.

    Args:
        kind: The counter that it belongs to: ``"throttled"``, ``"broken"``, ``"cut"``, ``"wrong"`` or ``"late"``.
        reason: The error's text.
        retry_after: Seconds that the server asks to wait, if it does.
    """

    def __init__(self, kind: str, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retry_after = retry_after


class UnknownSizeError(StoreError):
    """Raised if a server does not say how many bytes an object has, though it answers."""


class SentRequest:
    first_byte_at: float | None = None
    """When the answer began; None before."""

    def run(self) -> Answer:
        """Send it, and return the answer. FailedAttemptError if another attempt may help; else another error."""
        raise NotImplementedError

    def abort(self) -> None:
        """Have `run`, in another thread, raise something soon."""


class Transport:
    """Carries requests: the part of reading that differs between kinds of servers. Threads share it."""

    def prepare(self, until: float, crew: Crew) -> None:
        """Called before requests, by the thread that waits for their answers until then. It may raise anything."""

    def attempt(self, request: Request, until: float, crew: Crew) -> SentRequest:
        """Return an attempt to have a request answered until a time, by the monotonic clock. A crew may help."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go the connections that are kept for the next request."""

    def abandon(self) -> None:
        """Let go everything, in a forked process, and without a word to the servers."""


T = TypeVar("T")


_MOST_HELPERS = 256
_IDLE_SECONDS = 1.0
_LONGEST_PAUSE = 3600.0
"""Systems wait for no more than some weeks at once."""


class Crew:
    """The threads of a store: one looks at what is late, and others help.

    They are started when they are needed, and end after `close` or with the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closing = False
        self._watched: set[_Race] = set()
        self._watching = False
        self._watcher: threading.Thread | None = None
        self._wakes_at = 0.0
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._helpers = 0
        self._idle = 0

    def watch(self, race: _Race) -> None:
        """Look at a request when it is time, until `forget`."""
        with self._lock:
            self._watched.add(race)
            if not self._watching:
                # The thread itself notes that it runs: an interrupt here may come before or after its start.
                watcher = threading.Thread(target=self._watch, name="spdl-store", daemon=True)
                watcher.start()
                self._watcher = watcher
            elif race.at < self._wakes_at:
                self._wakes_at = race.at
                self._wake.put(None)

    def forget(self, race: _Race) -> None:
        with self._lock:
            self._watched.discard(race)
            if self._closing:
                self._wake.put(None)

    def _watch(self) -> None:
        with self._lock:
            if self._watching:
                return
            self._watching = True
        while True:
            now = time.monotonic()
            with self._lock:
                if self._closing and not self._watched:
                    self._watching = False
                    return
                due = [each for each in self._watched if each.at <= now]
            for each in due:
                each.look(now)
            due.clear()  # What they have is large.
            with self._lock:
                self._wakes_at = min((each.at for each in self._watched), default=now + _LONGEST_PAUSE)
            with suppress(Empty):
                self._wake.get(timeout=min(max(0.0, self._wakes_at - time.monotonic()), _LONGEST_PAUSE))

    def help(self, task: Callable[[], None]) -> bool:
        """Return whether another thread calls a function at once; there may be too many."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._tasks.put(task)
                return True
            if self._helpers >= _MOST_HELPERS:
                return False
            self._helpers += 1
        try:
            threading.Thread(target=self._help, args=([task],), name="spdl-store", daemon=True).start()
        except RuntimeError:  # The system has no more of them, or the interpreter ends.
            with self._lock:
                self._helpers -= 1
            return False
        return True

    def fulfil(self, future: Future[T], function: Callable[[], T]) -> None:
        """Let another thread call a function that cannot be ended, for a future, which its waiter may cancel.

        FailedAttemptError if there are too many threads.
        """

        def call() -> None:
            with suppress(InvalidStateError):  # It was cancelled in the meantime.
                try:
                    future.set_result(function())
                except BaseException as error:  # noqa: BLE001 - raised where it is waited for.
                    future.set_exception(error)

        if not self.help(call):
            raise FailedAttemptError("late", "too many threads wait for answers that have not come")

    def _help(self, first: list[Callable[[], None]]) -> None:
        # A thread keeps its arguments, and what a task has is large.
        task: Callable[[], None] | None = first.pop()
        while task is not None:
            task()
            task = None
            with self._lock:
                self._idle += 1
            with suppress(Empty):
                task = self._tasks.get(timeout=0.0 if self._closing else _IDLE_SECONDS)
            if task is None:
                with self._lock:
                    # Without waiting: another thread may have taken what was there.
                    with suppress(Empty):
                        while task is None:
                            task = self._tasks.get_nowait()
                    self._idle -= task is None
        with self._lock:
            self._helpers -= 1
        if self._closing:
            self._tasks.put(None)  # For the next one that is idle.

    def close_soon(self) -> None:
        """End the threads when they have nothing to do. Takes no lock, and waits for nothing.

        The collector may call it in the middle of anything, such as the beginning or the end of a thread.
        """
        self._closing = True
        self._tasks.put(None)
        self._wake.put(None)

    def close(self) -> None:
        """End the threads as `close_soon` does, and wait for that if they have nothing to do."""
        self.close_soon()
        with self._lock:
            watcher = None if self._watched else self._watcher
        if watcher is not None:
            watcher.join()


_MOST_FAULTY = 8
"""Answers that are cut or wrong come from a server or a proxy that works, and often stay so."""
_FAULTY = ("cut", "wrong")
_MOST_UNREACHED = 8
"""If no request was ever answered, the address is likely to be wrong. These attempts take about ten seconds."""
_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 10.0
_MOST_HEDGES = 2
_URGENT = 2.0
"""The last part of the budget is for requests that are this many times as late as others."""


def full_jitter(failures: int, random: Callable[[], float]) -> float:
    """Return seconds between 0 and a bound that doubles with each failure: clients do not come back together."""
    return random() * min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(failures - 1, 30))


class Sender:
    """Sends requests in the threads of their callers, and a second time in another one. Threads share it.

    Args:
        transport: Carries them.
        counters: Counts the requests, and decides how many may run.
        seconds: How long one may take from when it is asked for, with all attempts.
        monotonic, sleep, random: The clock, the pause and the chance, which tests replace.
    """

    def __init__(
        self,
        transport: Transport,
        counters: RequestCounters,
        seconds: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[threading.Event, float], object] = threading.Event.wait,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.transport = transport
        self.counters = counters
        self.seconds = seconds
        self.monotonic = monotonic
        self.crew = Crew()
        self._sleep = sleep
        self._random = random

    def until(self) -> float:
        """Return when a request ends that is asked for now, by the monotonic clock."""
        return self.monotonic() + self.seconds

    def answer(self, request: Request, until: float, call: _AnswerCall | None = None) -> Answer:
        """Return the answer of a request, which ends at a time that `until` has returned."""
        counters, crew = self.counters, self.crew if call is None else call.crew
        self.transport.prepare(until, crew)
        failures, faulty = 0, 0
        before = ""
        while True:
            turn = threading.Lock()
            try:
                if not counters.begin(turn, until - self.monotonic()):
                    raise StoreError(f"no answer in {self.seconds:g} s: too many other requests were under way{before}")
                race = _Race(self, crew, request, until)
                answer = race.run() if call is None else call.run(race)
                if not isinstance(answer, Exception):
                    race.book(answer)
                    return answer
            finally:
                try:
                    counters.end(turn)
                except BaseException:  # A Ctrl-C.
                    counters.end(turn)
                    raise
            now = self.monotonic()
            failures += race.failures
            if not isinstance(answer, FailedAttemptError):
                raise StoreError(f"{answer}{before}") if before and now >= until else answer
            before = f"; attempt {failures} failed: {answer.reason}"
            faulty += answer.kind in _FAULTY
            pause = full_jitter(failures, self._random) + (answer.retry_after or 0.0)
            unreached = failures >= _MOST_UNREACHED and not counters.reached
            if faulty >= _MOST_FAULTY or unreached or now + pause >= until:
                spent = now - (until - self.seconds)
                raise StoreError(f"{answer.reason} (attempt {failures}, after {spent:.1f} s)") from answer
            counters.count("retries")
            self._sleep(threading.Event() if call is None else call.given_up, pause)
            if call is not None and call.given_up.is_set():
                raise answer

    def answer_all(self, requests: Iterator[Request], take: Callable[[Request, Answer], None]) -> None:
        """Have all requests answered, several at once, each in its own time. Any thread calls `take` with an answer."""
        call = _AnswerCall(self, requests, take)
        try:
            call.work()
            if call.error is None:
                call.wait()
        except BaseException as error:
            call.end(error)
            raise
        if call.error is not None:
            raise call.error

    def close(self) -> None:
        """End the threads, and let go what the transport keeps, when all calls have ended. The next call begins again.

        It waits for the end only without calls.
        """
        crew, self.crew = self.crew, Crew()
        self.transport.close()
        crew.close()

    def close_soon(self) -> None:
        """End the threads. Takes no lock, and waits for nothing."""
        self.crew.close_soon()


class _Race:
    """A request that is sent, and sent again if it is late: the first answer counts."""

    def __init__(self, sender: Sender, crew: Crew, request: Request, until: float) -> None:
        self._sender = sender
        self._counters = sender.counters
        self._crew = crew
        self._request = request
        self._until = until
        self._sent_at = self._sender.monotonic()
        delay = None if request.length is None else self._counters.hedging.delay(request.length)
        self._hedge_at = math.inf if delay is None else self._sent_at + delay
        # When it has to be looked at.
        self.at = min(until, self._hedge_at)
        # How many of its attempts have failed.
        self.failures = 0
        self._hedges = 0
        self._lock = threading.Lock()
        self._under_way: dict[SentRequest, float] = {}
        self._outcome: Answer | Exception | None = None
        self._first: SentRequest | None = None
        self._winner: SentRequest | None = None
        self._ended: SimpleQueue[None] = SimpleQueue()

    def run(self) -> Answer | Exception:
        try:
            self._crew.watch(self)
            self._first = self._new_attempt()
            self._carry(self._first)
            if self._outcome is None:
                self._ended.get()
        finally:
            try:
                self._leave()
            except BaseException:  # A Ctrl-C.
                self._leave()
                raise
        assert self._outcome is not None
        return self._outcome

    def _leave(self) -> None:
        self._crew.forget(self)
        if self._outcome is None:  # It was interrupted.
            self.end(StoreError("nobody waits for it"))

    def _new_attempt(self) -> SentRequest:
        return self._sender.transport.attempt(self._request, self._until, self._crew)

    def _carry(self, attempt: SentRequest) -> None:
        with self._lock:
            if self._outcome is not None:
                return
            self._under_way[attempt] = self._sender.monotonic()
        try:
            self.end(attempt.run(), attempt)
        except FailedAttemptError as error:
            with self._lock:
                if self._outcome is not None:
                    return
                del self._under_way[attempt]
                self.failures += 1
                self._counters.count(error.kind)
                if self._under_way:
                    return
            self.end(error)
        except Exception as error:  # noqa: BLE001 - it is the caller's.
            self.end(error)

    def end(self, outcome: Answer | Exception, winner: SentRequest | None = None) -> None:
        """Set the outcome, unless there is one, and stop all attempts but the winner."""
        with self._lock:
            if self._outcome is not None:
                return
            self._outcome, self._winner = outcome, winner
            losers = [attempt for attempt in self._under_way if attempt is not winner]
        for attempt in losers:
            attempt.abort()
        self._ended.put(None)

    def look(self, now: float) -> None:
        """Stop it if its deadline has passed, and send it once more if it is late and the budget allows it."""
        if now >= self._until:
            self.end(StoreError(f"no answer in {self._sender.seconds:g} s"))
            self.at = math.inf
            return
        if now >= self._hedge_at:
            # The next one may be late as well, or the budget may have grown by then.
            delay = self._counters.hedging.delay(self._request.length or 0) or math.inf
            urgent = now - self._sent_at >= _URGENT * delay
            self._crew.help(lambda: self._hedge(urgent=urgent))
            self._hedge_at = now + delay if self._hedges < _MOST_HEDGES else math.inf
        self.at = min(self._until, self._hedge_at)

    def _hedge(self, *, urgent: bool) -> None:
        with self._lock:
            if self._outcome is not None or self._hedges >= _MOST_HEDGES:
                return
            if not self._counters.take_hedge(urgent=urgent):
                return
            self._hedges += 1
        self._carry(self._new_attempt())

    def book(self, answer: Answer) -> None:
        now = self._sender.monotonic()
        assert self._winner is not None
        began = self._winner.first_byte_at
        self._counters.answered(
            self._request.length or 0,
            len(answer.content),
            now - self._sent_at,
            None if began is None else began - self._under_way[self._winner],
            0.0 if began is None else now - began,
            hedges=self._hedges,
            won=self._winner is not self._first,
        )


class _AnswerCall:
    """Requests whose answers one caller waits for, who has them answered, with other threads."""

    def __init__(self, sender: Sender, requests: Iterator[Request], take: Callable[[Request, Answer], None]) -> None:
        self.crew = sender.crew
        self.error: BaseException | None = None
        # Set when there is an error.
        self.given_up = threading.Event()
        self._sender = sender
        self._take = take
        self._lock = threading.Lock()
        self._requests = requests
        self._following = next(requests, None)
        self._working = 1
        self._races: set[_Race] = set()
        self._ended: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Have requests answered until there are no more, and get help if there is room."""
        try:
            while (request := self._next()) is not None:
                self._take(request, self._sender.answer(request, self._sender.until(), self))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for.
            self.end(error)
        self._leave()

    def _next(self) -> Request | None:
        with self._lock:
            if self.error is not None:
                return None
            request = self._following
            self._following = next(self._requests, None)
            helped = self._following is not None and self._sender.counters.has_room
            self._working += helped
        if helped and not self.crew.help(self.work):
            self._leave()
        return request

    def _leave(self) -> None:
        with self._lock:
            self._working -= 1
            if not self._working:
                self._ended.put(None)

    def run(self, race: _Race) -> Answer | Exception:
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
        """Stop what is under way, since one has failed or the caller was interrupted."""
        with self._lock:
            self.error = self.error or error
            races = list(self._races)
        self.given_up.set()
        for race in races:
            race.end(StoreError("nobody waits for it"))
        self._ended.put(None)

    def wait(self) -> None:
        self._ended.get()
