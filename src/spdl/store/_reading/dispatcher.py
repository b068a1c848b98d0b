"""Sends requests until all are answered: repeats what failed, and asks a second time where an answer is late."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from spdl.store._protocol.errors import StoreError
from spdl.store._reading.attempts import ExpiredError, FailedAttemptError
from spdl.store._reading.backoff import full_jitter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spdl.store._reading.attempts import Exchange, Request, Transport
    from spdl.store._reading.books import Books
    from spdl.store._reading.calls import Call

__all__ = ["Dispatcher", "Surroundings"]

_SILENCE_SECONDS = 20.0
_MOST_FAULTY = 8
"""Answers that are cut or wrong come from a server or a proxy that works, and often stay so."""
_FAULTY = ("cut", "wrong")
_MOST_UNREACHED = 8
"""If nobody has ever answered, the address is likely to be wrong. These attempts take about ten seconds."""
_MOST_HEDGES = 2
_MANY = 16
_NAP_SHARE = 0.06
_SHORTEST_NAP = 0.0005
_LONGEST_PAUSE = 3600.0
"""Systems wait for no more than some weeks at once."""
_LONGEST_NAP = 0.008
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
    """A request of a call, with the exchanges that try to have it answered."""

    __slots__ = (
        "added_at",
        "call",
        "exchanges",
        "failures",
        "faulty",
        "hedge_at",
        "hedged",
        "hedges",
        "index",
        "request",
        "sent_at",
        "timer",
        "until",
    )

    def __init__(self, call: Call, index: int, now: float) -> None:
        self.call = call
        self.index = index
        self.request: Request = call.requests[index]
        self.added_at = now
        self.exchanges: list[tuple[Exchange, float]] = []
        self.failures = 0
        self.faulty = 0
        self.sent_at = 0.0
        self.hedge_at = math.inf
        self.hedged = 0.0
        self.hedges = 0
        self.timer = -1
        self.until = math.inf


class Dispatcher:
    """Sends the requests of all calls of a store, several at a time. One thread uses it, and nothing in it waits."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._transport, self._books, self._seconds, self._monotonic, self._random = surroundings
        self._tasks: dict[Call, list[_Task]] = {}
        self._fresh: deque[_Task] = deque()
        self._again: deque[_Task] = deque()
        self._carried: dict[Exchange, _Task] = {}
        # When to look at a task: because it is late, silent, out of time, or has paused. Timers that nobody needs stay
        # in the heap for a while, but not their tasks, which have large answers.
        self._timers: list[tuple[float, int]] = []
        self._timed: dict[int, _Task] = {}
        self._numbers = itertools.count()
        self._news: list[tuple[Call, tuple[int, ExpiredError] | None]] = []

    @property
    def idle(self) -> bool:
        """Whether there is no call."""
        return not self._tasks

    def add(self, call: Call) -> None:
        """Take a call, whose requests are sent by `step`."""
        now = self._monotonic()
        tasks = [_Task(call, index, now) for index in range(len(call.requests))]
        if tasks:
            self._tasks[call] = tasks
            self._fresh += tasks
        else:
            self._end(call, None)

    def resume(self, call: Call, index: int) -> None:
        """Send a request again, whose credentials have been renewed."""
        if call in self._tasks:
            self._again.append(self._tasks[call][index])

    def drop(self, call: Call, error: BaseException | None = None) -> None:
        """End a call, and cancel its requests."""
        for task in self._tasks.pop(call, ()):
            self._timed.pop(task.timer, None)
            if task.exchanges:
                self._cancel(task)
                self._books.end()
        self._end(call, error)

    def _end(self, call: Call, error: BaseException | None) -> None:
        call.end(error)
        self._news.append((call, None))

    def drop_all(self, error: BaseException) -> None:
        """End all calls."""
        for call in list(self._tasks):
            self.drop(call, error)

    def tell_callers(self) -> None:
        """Tell callers whose calls have ended, or who have to do something. Do this last: they want the GIL then."""
        for call, news in self._news:
            call.news.put(news)
        self._news.clear()

    def nap(self) -> float:
        """Return for how many seconds nobody misses anything if nothing is done; 0 if every answer is waited for.

        If much is under way, it is cheaper to wake up for several answers than for each one.
        """
        if len(self._carried) < _MANY:
            return 0.0
        nap = min(_LONGEST_NAP, _NAP_SHARE * self._books.typical_seconds)
        return nap if nap >= _SHORTEST_NAP else 0.0

    def pause(self) -> float | None:
        """Return for how many seconds nothing has to be done but to receive, at least; None if for ever."""
        timers = self._timers
        while timers and timers[0][1] not in self._timed:
            heapq.heappop(timers)
        return min(max(0.0, timers[0][0] - self._monotonic()), _LONGEST_PAUSE) if timers else None

    def step(self, done: Iterable[Exchange]) -> None:
        """Take answers, do what is due, and send what may be sent."""
        now = self._monotonic()
        for exchange in done:
            task = self._carried.get(exchange)
            if task is not None:  # It was cancelled otherwise, just before.
                self._take_answer(task, exchange, now)
        timers = self._timers
        while timers and timers[0][0] <= now:
            late = self._timed.pop(heapq.heappop(timers)[1], None)
            if late is not None:
                self._look_at(late, now)
        self._send_waiting(now)

    # ---- sending ----------------------------------------------------------------------------------------------

    def _send_waiting(self, now: float) -> None:
        while self._again or self._fresh:
            first = self._again or self._fresh
            task = first[0]
            if task.call.ended:
                first.popleft()
                continue
            if not self._books.try_begin():
                return
            first.popleft()
            if task.until == math.inf:
                task.until = now + self._seconds
                if task.added_at < now and not task.index:
                    self._books.waited(now - task.added_at)
            task.sent_at = now
            task.hedged, task.hedges = 0.0, 0
            asked = task.request.length
            delay = None if asked is None else self._books.hedge_delay(asked)
            task.hedge_at = math.inf if delay is None else now + delay
            if self._send(task, now):
                self._set_timer(task, min(task.until, task.hedge_at, now + _SILENCE_SECONDS))

    def _send(self, task: _Task, now: float) -> bool:
        try:
            exchange = self._transport.send(task.request)
        except Exception as error:  # noqa: BLE001 - it is the caller's.
            if not task.exchanges:
                self._books.end()
            self.drop(task.call, error)
            return False
        task.exchanges.append((exchange, now))
        self._carried[exchange] = task
        return True

    def _set_timer(self, task: _Task, at: float) -> None:
        timers = self._timers
        if len(timers) > 4 * len(self._timed) + 1024:
            timers[:] = [each for each in timers if each[1] in self._timed]
            heapq.heapify(timers)
        task.timer = next(self._numbers)
        self._timed[task.timer] = task
        heapq.heappush(timers, (at, task.timer))

    def _cancel(self, task: _Task, *, but: Exchange | None = None) -> None:
        for exchange, _ in task.exchanges:
            self._carried.pop(exchange, None)
            if exchange is not but:
                exchange.cancel()
        task.exchanges = []

    # ---- what is due ------------------------------------------------------------------------------------------

    def _look_at(self, task: _Task, now: float) -> None:
        if not task.exchanges:  # It has paused.
            self._again.append(task)
            return
        for exchange, sent_at in task.exchanges[:]:
            self._look_at_silence(task, exchange, sent_at, now)
        if not task.exchanges:
            return
        if now >= task.until:
            self._fail(task, StoreError(f"no answer in {self._seconds:g} s{_after(task)}"))
            return
        if now >= task.hedge_at and not self._hedge(task, now):
            return
        silent = min(exchange.moved_at for exchange, _ in task.exchanges) + _SILENCE_SECONDS
        self._set_timer(task, min(task.until, task.hedge_at, max(silent, now + 1e-3)))

    def _look_at_silence(self, task: _Task, exchange: Exchange, sent_at: float, now: float) -> None:
        if now - exchange.moved_at < _SILENCE_SECONDS or exchange not in self._carried:
            return
        exchange.look()
        if exchange.done:
            self._take_answer(task, exchange, now)
        elif now - exchange.moved_at >= _SILENCE_SECONDS:
            exchange.cancel()
            failure = FailedAttemptError("late", f"nothing was heard for {now - max(sent_at, exchange.moved_at):.0f} s")
            self._attempt_failed(task, exchange, failure, now)

    def _hedge(self, task: _Task, now: float) -> bool:
        """Return whether the task goes on; it is sent once more, if it may."""
        # The next one may be late as well, or the budget may have grown meanwhile.
        asked = task.request.length or 0
        delay = self._books.hedge_delay(asked) or math.inf
        task.hedge_at = now + delay if len(task.exchanges) <= _MOST_HEDGES else math.inf
        if len(task.exchanges) > _MOST_HEDGES:
            return True
        taken = self._books.take_hedge(asked, urgent=now - task.sent_at >= _URGENT * delay)
        if taken is None:
            return True
        task.hedges += 1
        task.hedged += taken
        return self._send(task, now)

    # ---- answers ----------------------------------------------------------------------------------------------

    def _take_answer(self, task: _Task, exchange: Exchange, now: float) -> None:
        try:
            answer = exchange.answer()
        except FailedAttemptError as failure:
            self._attempt_failed(task, exchange, failure, now)
            return
        except Exception as error:  # noqa: BLE001 - it is the caller's.
            self._fail(task, error)
            return
        won, sent_at = False, task.sent_at
        if len(task.exchanges) > 1 or task.exchanges[0][1] != sent_at:
            sent_at = next(at for each, at in task.exchanges if each is exchange)
            won = exchange is not task.exchanges[0][0]
        self._cancel(task, but=exchange)
        self._timed.pop(task.timer, None)
        began = exchange.first_byte_at
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
        call = task.call
        call.take(task.index, answer)
        if call.ended:
            self._tasks.pop(call, None)
            self._news.append((call, None))

    def _fail(self, task: _Task, error: Exception) -> None:
        self.drop(task.call, error)

    def _attempt_failed(self, task: _Task, exchange: Exchange, failure: FailedAttemptError, now: float) -> None:
        self._carried.pop(exchange, None)
        task.exchanges = [each for each in task.exchanges if each[0] is not exchange]
        task.failures += 1
        task.faulty += failure.kind in _FAULTY
        self._books.failed(failure.kind)
        if task.exchanges:
            return
        self._books.end()
        self._timed.pop(task.timer, None)
        if isinstance(failure, ExpiredError) and task.faulty < _MOST_FAULTY:
            self._books.count("retries")
            self._news.append((task.call, (task.index, failure)))
            return
        pause = full_jitter(task.failures, self._random) + (failure.retry_after or 0.0)
        unreached = task.failures >= _MOST_UNREACHED and not self._books.reached
        if task.faulty >= _MOST_FAULTY or unreached or now + pause >= task.until:
            spent = now - (task.until - self._seconds)
            error = StoreError(f"{failure.reason} (attempt {task.failures}, after {spent:.1f} s)")
            error.__cause__ = failure
            self._fail(task, error)
            return
        self._books.count("retries")
        self._set_timer(task, now + pause)


def _after(task: _Task) -> str:
    return f", after {task.failures} failed attempts" if task.failures else ""
