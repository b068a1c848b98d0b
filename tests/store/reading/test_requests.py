"""Requests are repeated, hedged and bounded, in virtual time."""

from __future__ import annotations

import random
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.reading.simulated import Reply, SimulatedServer, broken, busy, refused

from spdl.store import StoreError
from spdl.store._reading.attempts import FailedAttemptError, Request
from spdl.store._reading.requests import answer_all

ONE = Request("a", 0, 100)


def outcomes(*replies: Reply) -> SimulatedServer:
    return SimulatedServer(lambda request, number: replies[min(number, len(replies) - 1)])


def test_a_failed_attempt_is_repeated_after_a_pause() -> None:
    server = outcomes(Reply(0.04, broken()), Reply(0.04, busy()), Reply(0.04, b"good"))
    (answer,) = answer_all([ONE], server.surroundings)
    assert bytes(answer.content) == b"good"
    first, second = server.sent[1].sent_at - server.sent[0].done_at, server.sent[2].sent_at - server.sent[1].done_at
    assert 0 < first <= 0.1
    assert 0 < second <= 0.2
    found = server.books.statistics()
    assert (found.requests, found.answers, found.broken, found.throttled, found.retries) == (3, 1, 1, 1, 2)
    assert found.in_flight == 0


def test_pauses_are_as_long_as_the_server_asks() -> None:
    server = outcomes(Reply(0.04, busy(retry_after=7.0)), Reply(0.04, b"good"))
    answer_all([ONE], server.surroundings)
    assert 7 <= server.sent[1].sent_at - server.sent[0].done_at <= 7.1


def test_clients_do_not_come_back_together() -> None:
    times = set()
    for seed in range(20):
        server = SimulatedServer(lambda _, number: Reply(0.0, b"good" if number else broken()), seed=seed)
        answer_all([ONE], server.surroundings)
        times.add(server.sent[1].sent_at)
    assert len(times) == 20


def test_what_another_attempt_cannot_help_is_raised_at_once() -> None:
    server = outcomes(Reply(0.04, refused()))
    with pytest.raises(StoreError, match=r"^forbidden$"):
        answer_all([ONE], server.surroundings)
    assert len(server.sent) == 1
    assert server.books.statistics().in_flight == 0


def test_there_is_an_end_to_repeating() -> None:
    server = outcomes(Reply(0.04, busy()))
    with pytest.raises(StoreError, match=r"^busy \(attempt \d+, after 1?\d\d\.\d s\)$"):
        answer_all([ONE], server.surroundings)
    assert server.now - 1000 <= 120
    assert 12 < len(server.sent) < 60
    assert server.books.statistics().in_flight == 0


def test_a_server_that_asks_for_more_time_than_there_is() -> None:
    server = outcomes(Reply(0.04, busy(retry_after=3600.0)))
    with pytest.raises(StoreError, match=r"^busy \(attempt 1, after 0\.0 s\)$"):
        answer_all([ONE], server.surroundings)


@pytest.mark.parametrize("kind", ["cut", "wrong"])
def test_answers_that_stay_wrong_are_not_asked_for_all_the_time(kind: str) -> None:
    server = outcomes(Reply(0.04, FailedAttemptError(kind, "half of it")))
    with pytest.raises(StoreError, match=r"half of it \(attempt 8"):
        answer_all([ONE], server.surroundings)
    assert len(server.sent) == 8


def test_silence_ends_an_attempt_and_then_the_request() -> None:
    server = outcomes(Reply(0, None), Reply(0.04, b"good"))
    answer_all([ONE], server.surroundings)
    assert server.sent[0].cancelled
    assert 20 <= server.sent[1].sent_at - server.sent[0].sent_at <= 20.1
    assert server.books.statistics().late == 1
    server = outcomes(Reply(0, None))
    with pytest.raises(StoreError, match=r"no answer in 120 s, after \d failed attempts|nothing was heard"):
        answer_all([ONE], server.surroundings)
    assert server.now - 1000 <= 121
    assert all(exchange.cancelled for exchange in server.sent)


def test_a_connection_that_was_closed_costs_no_pause() -> None:
    closed = FailedAttemptError("broken", "closed", at_once=True)
    server = outcomes(Reply(0.0, closed), Reply(0.0, b"good"))
    answer_all([ONE], server.surroundings)
    assert server.now == 1000


def test_an_error_cancels_all_others() -> None:
    server = SimulatedServer(lambda request, _: Reply(0.5, refused()) if request.start == 7 else Reply(1.0, b"x"))
    with pytest.raises(StoreError):
        answer_all([Request("a", start, 1) for start in range(10)], server.surroundings)
    assert all(exchange.cancelled for exchange in server.sent)
    assert server.books.statistics().in_flight == 0


def test_a_call_has_no_more_requests_under_way_than_the_limit() -> None:
    server = SimulatedServer(lambda request, _: Reply(0.04, b"%d" % request.start))
    answers = answer_all([Request("a", start, 1) for start in range(500)], server.surroundings)
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
        answers = answer_all(requests, server.surroundings)
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
        answer_all([ONE], server.surroundings)
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
    (answer,) = answer_all([ONE], server.surroundings)
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
        answer_all([Request("a", 0, (1 << 23) + 1)], server.surroundings)
    assert server.books.statistics().hedges == 0
