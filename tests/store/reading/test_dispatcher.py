"""Requests are repeated, hedged and bounded: the rules, in virtual time.

Nobody waits here: the clock is the server's, and each answer comes when a script says.
"""

from __future__ import annotations

import random
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.store import StoreError
from spdl.store._reading.attempts import Answer, ExpiredError, FailedAttemptError, Request
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
        self.under_way: list[SimulatedExchange] = []
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
        self.under_way.append(exchange)
        return exchange

    def wait(self, seconds: float | None) -> Sequence[Exchange]:
        self.under_way = under_way = [each for each in self.under_way if not (each.cancelled or each.taken)]
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


ONE = Request("a", 0, 100)


def outcomes(*replies: Reply) -> SimulatedServer:
    return SimulatedServer(lambda request, number: replies[min(number, len(replies) - 1)])


def test_a_failed_attempt_is_repeated_after_a_pause() -> None:
    server = outcomes(Reply(0.04, broken()), Reply(0.04, busy()), Reply(0.04, b"good"))
    (answer,) = server.ask([ONE])
    assert bytes(answer.content) == b"good"
    first, second = server.sent[1].sent_at - server.sent[0].done_at, server.sent[2].sent_at - server.sent[1].done_at
    assert 0 < first <= 0.1
    assert 0 < second <= 0.2
    found = server.books.statistics()
    assert (found.requests, found.answers, found.broken, found.throttled, found.retries) == (3, 1, 1, 1, 2)
    assert found.in_flight == 0


def test_pauses_are_as_long_as_the_server_asks() -> None:
    server = outcomes(Reply(0.04, busy(retry_after=7.0)), Reply(0.04, b"good"))
    server.ask([ONE])
    assert 7 <= server.sent[1].sent_at - server.sent[0].done_at <= 7.1


def test_clients_do_not_come_back_together() -> None:
    times = set()
    for seed in range(20):
        server = SimulatedServer(lambda _, number: Reply(0.0, b"good" if number else broken()), seed=seed)
        server.ask([ONE])
        times.add(server.sent[1].sent_at)
    assert len(times) == 20


def test_what_another_attempt_cannot_help_is_raised_at_once() -> None:
    server = outcomes(Reply(0.04, refused()))
    with pytest.raises(StoreError, match=r"^forbidden$"):
        server.ask([ONE])
    assert len(server.sent) == 1
    assert server.books.statistics().in_flight == 0


def test_there_is_an_end_to_repeating() -> None:
    server = outcomes(Reply(0.04, busy()))
    with pytest.raises(StoreError, match=r"^busy \(attempt \d+, after 1?\d\d\.\d s\)$"):
        server.ask([ONE])
    assert server.now - 1000 <= 120
    assert 12 < len(server.sent) < 60
    assert server.books.statistics().in_flight == 0


def test_a_server_that_asks_for_more_time_than_there_is() -> None:
    server = outcomes(Reply(0.04, busy(retry_after=3600.0)))
    with pytest.raises(StoreError, match=r"^busy \(attempt 1, after 0\.0 s\)$"):
        server.ask([ONE])


@pytest.mark.parametrize("kind", ["cut", "wrong"])
def test_answers_that_stay_wrong_are_not_asked_for_all_the_time(kind: str) -> None:
    server = outcomes(Reply(0.04, FailedAttemptError(kind, "half of it")))
    with pytest.raises(StoreError, match=r"half of it \(attempt 8"):
        server.ask([ONE])
    assert len(server.sent) == 8


def test_silence_ends_an_attempt_and_then_the_request() -> None:
    server = outcomes(Reply(0, None), Reply(0.04, b"good"))
    server.ask([ONE])
    assert server.sent[0].cancelled
    assert 20 <= server.sent[1].sent_at - server.sent[0].sent_at <= 20.1
    assert server.books.statistics().late == 1
    server = outcomes(Reply(0, None))
    with pytest.raises(StoreError, match=r"no answer in 120 s, after \d failed attempts|nothing was heard"):
        server.ask([ONE])
    assert server.now - 1000 <= 121
    assert all(exchange.cancelled for exchange in server.sent)


def test_credentials_are_renewed_by_the_caller_and_without_a_pause() -> None:
    asked: list[str] = []

    def renew() -> bool:
        asked.append("renewed")
        return len(asked) < 3

    server = outcomes(Reply(0.0, ExpiredError("who are you?", renew)), Reply(0.0, b"good"))
    server.ask([ONE])
    assert (server.now, asked) == (1000, ["renewed"])
    server = outcomes(Reply(0.0, ExpiredError("who are you?", renew)))
    with pytest.raises(StoreError, match=r"^who are you\?$"):
        server.ask([ONE])
    assert len(asked) == 3
    assert server.books.statistics().in_flight == 0


def test_credentials_that_are_refused_again_and_again() -> None:
    server = outcomes(Reply(0.0, ExpiredError("who are you?", lambda: True)))
    with pytest.raises(StoreError, match=r"^who are you\? \(attempt 8"):
        server.ask([ONE])
    assert len(server.sent) == 8


def test_before_an_answer_is_called_silent_the_last_bytes_are_taken() -> None:
    server = SimulatedServer(lambda *_: Reply(70.0, b"good"))
    moves = (1015.0, 1030.0, 1045.0, 1060.0)

    class Moving(SimulatedExchange):
        @property
        def moved_at(self) -> float:
            # The system had kept it to itself, until it was asked.
            return max([1000.0, *moves[: self.looked]])

    server.exchanges = Moving
    server.ask([ONE])
    assert len(server.sent) == 1
    assert server.sent[0].looked == 4


def test_a_call_that_nobody_waits_for_is_cancelled() -> None:
    server = SimulatedServer(lambda *_: Reply(1.0, b"x"))
    calls = [Call([Request("a", start, 1) for start in range(20)]) for _ in range(2)]
    for call in calls:
        server.dispatcher.add(call)
    server.dispatcher.step(())
    server.dispatcher.drop(calls[0])
    assert all(exchange.cancelled for exchange in server.sent)
    assert server.books.statistics().in_flight == 0
    server.run()
    assert len(calls[1].answers()) == 20
    assert len([exchange for exchange in server.sent if not exchange.cancelled]) == 20
    assert server.dispatcher.idle


def test_calls_are_served_in_turn() -> None:
    server = SimulatedServer(lambda request, _: Reply(0.04, b"%d" % request.start))
    calls = [Call([Request("a", start, 1)]) for start in range(100)]
    for call in calls:
        server.dispatcher.add(call)
    server.run()
    assert [exchange.request.start for exchange in server.sent] == list(range(100))
    assert server.books.statistics().waited_seconds > 0


def test_what_was_answered_is_not_kept() -> None:
    server = SimulatedServer(lambda *_: Reply(0.01, b"x"))
    for _ in range(5000):
        server.ask([ONE])
        server.sent.clear()
    assert len(server.dispatcher._timers) <= 2048
    assert not server.dispatcher._timed
    assert not server.dispatcher._carried


def test_an_error_cancels_all_others() -> None:
    server = SimulatedServer(lambda request, _: Reply(0.5, refused()) if request.start == 7 else Reply(1.0, b"x"))
    with pytest.raises(StoreError):
        server.ask([Request("a", start, 1) for start in range(10)])
    assert all(exchange.cancelled for exchange in server.sent)
    assert server.books.statistics().in_flight == 0


def test_a_call_has_no_more_requests_under_way_than_the_limit() -> None:
    server = SimulatedServer(lambda request, _: Reply(0.04, b"%d" % request.start))
    answers = server.ask([Request("a", start, 1) for start in range(500)])
    assert [int(bytes(answer.content)) for answer in answers] == list(range(500))
    assert 8 < server.most_at_once <= server.books.statistics().limit
    assert server.now - 1000 < 500 / 32 * 0.04 + 0.2


@given(
    script=st.lists(st.sampled_from(["good", "slow", "busy", "broken", "cut", "silent"]), max_size=60),
    count=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_every_request_has_its_own_answer_once(script: list[str], count: int, seed: int) -> None:
    def reply(request: Request, number: int) -> Reply:
        good = b"%d" % request.start
        what = script[number] if number < len(script) else "good"
        return {
            "good": Reply(0.04, good),
            "slow": Reply(1.0, good),
            "busy": Reply(0.01, busy()),
            "broken": Reply(0.02, broken()),
            "cut": Reply(0.03, FailedAttemptError("cut", "cut")),
            "silent": Reply(0.0, None),
        }[what]

    server = SimulatedServer(reply, seconds=10_000, seed=seed)
    requests = [Request("a", start, 1) for start in range(count)]
    try:
        answers = server.ask(requests)
    except StoreError:
        assert script.count("cut") >= 8, "otherwise there is no reason to give up"
    else:
        assert [int(bytes(answer.content)) for answer in answers] == list(range(count))
        found = server.books.statistics()
        assert found.answers == count
        assert found.requests == len(server.sent)
        assert found.requests == count + found.retries + found.hedges
    assert server.books.statistics().in_flight == 0


def stalling(share: float, seed: int) -> SimulatedServer:
    generator = random.Random(seed)  # noqa: S311 - a script.

    def reply(_: Request, __: int) -> Reply:
        seconds = 0.04 + generator.expovariate(1 / 0.004)
        return Reply(seconds + (generator.random() < share), b"x" * 100, first=seconds)

    return SimulatedServer(reply)


def times(server: SimulatedServer, count: int) -> list[float]:
    taken = []
    for _ in range(count):
        start = server.now
        server.ask([ONE])
        taken.append(server.now - start)
    return taken


@pytest.mark.parametrize("seed", range(3))
def test_late_requests_are_sent_twice(seed: int) -> None:
    server = stalling(0.01, seed)
    before = times(server, 1000)
    assert server.books.statistics().hedges == 0, "nothing is known yet"
    after = times(server, 20_000)
    found = server.books.statistics()
    assert quantiles(before, n=1000)[990] > 1
    assert quantiles(after, n=1000)[994] < 0.15
    assert found.hedges <= 0.05 * found.requests + 1
    assert found.hedged_bytes <= 0.05 * found.bytes + 1000
    assert found.hedges_won > 150
    assert found.answers == 21_000
    # All but those that were answered were cancelled.
    assert sum(not exchange.cancelled for exchange in server.sent) == 21_000


def test_in_an_outage_there_are_hardly_more_requests() -> None:
    server = stalling(0.0, 1)
    times(server, 2000)
    before = server.books.statistics().hedges
    server.script = lambda _, __: Reply(5.0, b"x" * 100)
    times(server, 2000)
    assert server.books.statistics().hedges - before <= 0.05 * 2000 + 10


def test_a_hedge_whose_first_fails_goes_on() -> None:
    server = stalling(0.0, 1)
    times(server, 2000)
    server.script = lambda _, number: Reply(1.0, broken()) if number == len(before) else Reply(2.0, b"good")
    before = list(server.sent)
    (answer,) = server.ask([ONE])
    assert bytes(answer.content) == b"good"
    assert server.sent[len(before) + 1].sent_at < server.sent[len(before)].done_at
    assert server.books.statistics().retries == 0, "the hedge was on its way before the first failed"


def test_a_hedge_that_is_late_is_hedged_once_more() -> None:
    server = stalling(0.0, 1)
    times(server, 2000)
    before = len(server.sent)
    server.script = lambda _, number: Reply(1.0 if number < before + 2 else 0.04, b"good")
    assert times(server, 1)[0] < 0.3
    assert len(server.sent) == before + 3


def test_what_is_most_late_may_use_the_last_of_the_budget() -> None:
    server = stalling(0.0, 1)
    times(server, 2000)
    hedging = server.books._hedging
    while hedging.take(100, urgent=False) is not None:
        pass
    before = len(server.sent)
    server.script = lambda _, number: Reply(1.0 if number == before else 0.04, b"good")
    assert times(server, 1)[0] < 0.3
    while hedging.take(100, urgent=True) is not None:
        pass
    before = len(server.sent)
    assert times(server, 1)[0] == pytest.approx(1.0)


def test_large_requests_are_not_hedged() -> None:
    generator = random.Random(1)  # noqa: S311 - a script.
    server = SimulatedServer(lambda *_: Reply(0.1 + (generator.random() < 0.1), b"x"))
    for _ in range(3000):
        server.ask([Request("a", 0, (1 << 23) + 1)])
    assert server.books.statistics().hedges == 0


def test_there_are_as_many_places_as_the_limit() -> None:
    books = Books()
    while books.try_begin():
        pass
    assert books.statistics().in_flight == books.statistics().limit == 8
    books.end()
    assert books.try_begin()
    assert not books.try_begin()
