"""Requests are repeated and bounded: the rules, in virtual time; and hedged, where a server keeps an answer back."""

from __future__ import annotations

import random
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.support import wait_until
from tests.store.http.scripted_server import LETTERS, say_part, serving

from spdl.store import HTTPStore, StoreError
from spdl.store import _requests as crew
from spdl.store._identity import SecretAddress
from spdl.store._remote import RemoteStore
from spdl.store._requests import Answer, Crew, FailedAttemptError, Request, Sender, SentRequest, Transport
from spdl.store._server_limits import Hedging, RequestCounters

if TYPE_CHECKING:
    from collections.abc import Callable

START = 1e12
"""Later than any clock, so that nobody takes a time of these for one that has passed."""


class Reply(NamedTuple):
    """What the server does with a request: after so many seconds a content or an error, or None for silence."""

    seconds: float
    outcome: bytes | Answer | Exception | None


class SimulatedServer(Transport):
    """A transport, and the clock.

    Args:
        script: Returns the reply to a request; it is told how many were sent before.
    """

    def __init__(self, script: Callable[[Request, int], Reply], seconds: float = 120.0, seed: int = 0) -> None:
        self.now = START
        self.script = script
        self.sent: list[float] = []
        self.pauses: list[float] = []
        self.counters = RequestCounters()
        chance = random.Random(seed)  # noqa: S311 - a script.
        self.sender = Sender(
            self, self.counters, seconds, monotonic=lambda: self.now, sleep=self.sleep, random=chance.random
        )

    def sleep(self, _: threading.Event, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def attempt(self, request: Request, until: float, crew: object) -> SimulatedAttempt:
        del crew
        self.sent.append(self.now)
        return SimulatedAttempt(self, self.script(request, len(self.sent) - 1), until)

    def ask(self, request: Request | None = None) -> Answer:
        try:
            return self.sender.answer(request or Request("a", 0, 100), self.sender.until())
        finally:
            assert self.counters.statistics().in_flight == 0
            self.sender.close()


class SimulatedAttempt(SentRequest):
    def __init__(self, server: SimulatedServer, reply: Reply, until: float) -> None:
        self.until = until
        self.server = server
        self.reply = reply

    def run(self) -> Answer:
        seconds = 20.0 if self.reply.outcome is None else self.reply.seconds
        self.server.now = min(self.until, self.server.now + seconds)
        self.first_byte_at = self.server.now
        if self.reply.outcome is None or self.server.now == self.until:
            raise FailedAttemptError("late", "nothing was heard")
        if isinstance(self.reply.outcome, Exception):
            raise self.reply.outcome
        if isinstance(self.reply.outcome, Answer):
            return self.reply.outcome
        return Answer(memoryview(self.reply.outcome), 1 << 40, "v1")

    def abort(self) -> None: ...


def busy(retry_after: float | None = None) -> FailedAttemptError:
    return FailedAttemptError("throttled", "busy", retry_after)


def outcomes(*replies: Reply) -> SimulatedServer:
    return SimulatedServer(lambda _, number: replies[min(number, len(replies) - 1)])


def test_a_failed_attempt_is_repeated_after_a_pause() -> None:
    server = outcomes(Reply(0.04, FailedAttemptError("broken", "reset")), Reply(0.04, busy()), Reply(0.04, b"good"))
    assert bytes(server.ask().content) == b"good"
    assert 0 < server.pauses[0] <= 0.1
    assert 0 < server.pauses[1] <= 0.2
    found = server.counters.statistics()
    assert (found.requests, found.answers, found.broken, found.throttled, found.retries) == (3, 1, 1, 1, 2)


def test_pauses_are_as_long_as_the_server_asks() -> None:
    server = outcomes(Reply(0.04, busy(retry_after=7.0)), Reply(0.04, b"good"))
    server.ask()
    assert 7 <= server.pauses[0] <= 7.1


def test_clients_do_not_come_back_together() -> None:
    times = set()
    for seed in range(20):
        server = SimulatedServer(lambda _, number: Reply(0.0, b"good" if number else busy()), seed=seed)
        server.ask()
        times.add(server.pauses[0])
    assert len(times) == 20


def test_what_another_attempt_cannot_help_is_raised_at_once() -> None:
    server = outcomes(Reply(0.04, StoreError("forbidden")))
    with pytest.raises(StoreError, match=r"^forbidden$"):
        server.ask()
    assert len(server.sent) == 1


def test_there_is_an_end_to_repeating() -> None:
    server = outcomes(Reply(0.04, busy()))
    with pytest.raises(StoreError, match=r"^busy \(attempt \d+, after 1?\d\d\.\d s\)$"):
        server.ask()
    assert server.now - START <= 120
    assert 12 < len(server.sent) < 60


def test_a_server_that_asks_for_more_time_than_there_is() -> None:
    with pytest.raises(StoreError, match=r"^busy \(attempt 1, after 0\.0 s\)$"):
        outcomes(Reply(0.04, busy(retry_after=3600.0))).ask()


@pytest.mark.parametrize("kind", ["cut", "wrong"])
def test_answers_that_stay_wrong_are_not_asked_for_all_the_time(kind: str) -> None:
    server = outcomes(Reply(0.04, FailedAttemptError(kind, "half of it")))
    with pytest.raises(StoreError, match=r"half of it \(attempt 8"):
        server.ask()
    assert len(server.sent) == 8


def test_silence_ends_an_attempt_and_then_the_request() -> None:
    server = outcomes(Reply(0, None), Reply(0.04, b"good"))
    server.ask()
    assert server.counters.statistics().late == 1
    server = outcomes(Reply(0, None))
    with pytest.raises(StoreError, match=r"nothing was heard \(attempt \d, after \d+"):
        server.ask()
    assert server.now - START <= 120


def take_all_places(counters: RequestCounters) -> list[threading.Lock]:
    turns = []
    while counters.has_room:
        turns.append(threading.Lock())
        assert counters.begin(turns[-1], 0)
    return turns


def test_a_request_that_waits_for_its_turn_ends_in_time() -> None:
    server = SimulatedServer(lambda *_: Reply(0.04, b"good"), seconds=0.2)
    turns = take_all_places(server.counters)
    with pytest.raises(StoreError, match=r"^no answer in 0\.2 s: too many other requests were under way$"):
        server.sender.answer(Request("a", 0, 100), server.sender.until())
    assert not server.sent
    server.counters.end(turns[0])
    assert bytes(server.sender.answer(Request("a", 0, 100), server.sender.until()).content) == b"good"
    server.sender.close()


def test_a_deadline_names_the_last_failure() -> None:
    server = SimulatedServer(lambda *_: Reply(0.04, busy()), seconds=0.2)

    def wait_while_others_come(_: threading.Event, seconds: float) -> None:
        server.now += seconds
        take_all_places(server.counters)

    server.sleep = wait_while_others_come  # type: ignore[method-assign]
    server.sender = Sender(server, server.counters, 0.2, monotonic=lambda: server.now, sleep=server.sleep)
    with pytest.raises(StoreError, match=r"^no answer in 0\.2 s: too many other .* under way; attempt 1 failed: busy$"):
        server.sender.answer(Request("a", 0, 100), server.sender.until())
    server.sender.close()


class SimulatedStore(RemoteStore):
    def __init__(self, server: SimulatedServer) -> None:
        self._server = server
        super().__init__(SecretAddress("http://host"), server.sender.seconds)
        self._sender, self._request_counters = server.sender, server.counters

    def _make_transport(self, _: RequestCounters) -> SimulatedServer:
        return self._server


def test_a_call_that_begins_anew_ends_in_time() -> None:
    server = SimulatedServer(lambda _, number: Reply(0.4, Answer(memoryview(bytes(10)), 1000, f"v{number}")), 1.0)
    with pytest.raises(StoreError, match=r"^a in "):
        SimulatedStore(server).get_ranges("a", [0], [100])
    assert len(server.sent) == 3
    assert server.now - START <= 1.0
    server.sender.close()


@given(
    script=st.lists(st.sampled_from(["good", "busy", "broken", "cut", "silent"]), max_size=60),
    count=st.integers(1, 20),
)
def test_every_request_has_its_own_answer_once(script: list[str], count: int) -> None:
    lock = threading.Lock()
    following = iter(script)

    def reply(request: Request, _: int) -> Reply:
        with lock:
            what = next(following, "good")
        return {
            "good": Reply(0.04, b"%d" % request.start),
            "busy": Reply(0.01, busy()),
            "broken": Reply(0.02, FailedAttemptError("broken", "reset")),
            "cut": Reply(0.03, FailedAttemptError("cut", "cut")),
            "silent": Reply(0.0, None),
        }[what]

    server = SimulatedServer(reply, seconds=1e6)
    found: dict[int, bytes] = {}
    requests = (Request("a", start, 1) for start in range(count))

    def take(request: Request, answer: Answer) -> None:
        found[request.start] = bytes(answer.content)

    try:
        server.sender.answer_all(requests, take)
    except StoreError:
        assert script.count("cut") >= 8, "otherwise there is no reason to give up"
    else:
        assert found == {start: b"%d" % start for start in range(count)}
        counted = server.counters.statistics()
        assert counted.answers == count
        assert counted.requests == len(server.sent) == count + counted.retries
    assert wait_until(lambda: server.counters.statistics().in_flight == 0, 60)
    server.sender.close()


def test_an_error_ends_the_whole_call() -> None:
    server = SimulatedServer(lambda request, _: Reply(0.0, StoreError("no") if request.start == 7 else b"x"))
    with pytest.raises(StoreError, match=r"^no$"):
        server.sender.answer_all((Request("a", start, 1) for start in range(10**9)), lambda *_: None)
    assert len(server.sent) < 1000
    server.sender.close()


def test_places_are_given_in_turn_and_no_more_than_the_limit() -> None:
    counters, order = RequestCounters(), list[int]()
    turns = take_all_places(counters)
    assert len(turns) == 8

    def begin(number: int) -> None:
        assert counters.begin(threading.Lock(), 60)
        order.append(number)

    with ThreadPoolExecutor(5) as pool:
        for number in range(5):
            pool.submit(begin, number)
            assert wait_until(lambda number=number: len(counters._waiting) == number + 1, 60)  # type: ignore[misc]
        assert counters.statistics().in_flight == counters.statistics().limit == 8
        for number in range(5):
            counters.end(turns.pop())
            assert wait_until(lambda number=number: len(order) == number + 1, 60)  # type: ignore[misc]
    assert order == [0, 1, 2, 3, 4]
    assert counters.statistics().waited_seconds > 0


# ---- hedges -------------------------------------------------------------------------------------------------------


class Keeping:
    """A server that keeps the first answers to a path back until as many requests for it have come as are told."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.asked = 0
        self.keep = 0
        self.enough = threading.Event()
        self.ends = threading.Event()

    def answer(self, method: str, wanted: str) -> tuple[bytes, bool]:
        del method
        reply = say_part(LETTERS, wanted)
        if not self.keep:
            return reply, True
        self.asked += 1
        number = self.asked
        if number > self.keep:
            self.enough.set()
            return reply, True
        self.ends.wait(20)
        return b"", False


@pytest.mark.parametrize("kept", [1, 2])
def test_late_requests_are_sent_again_and_the_first_answer_counts(kept: int) -> None:
    server = Keeping()
    with serving(server.answer) as (url, _):
        store = HTTPStore(url, timeout=60)
        for _ in range(1000):  # So that it knows what is late, and none of these is.
            store.get("x")
        before = store.statistics()
        server.keep = kept
        assert bytes(store.get("x")) == LETTERS
        found = store.statistics()
        assert server.enough.is_set()
        hedges = found.hedges - before.hedges
        assert hedges in (kept, 2)  # The second one may be late itself, on a busy machine.
        assert found.hedges_won - before.hedges_won == 1
        assert found.hedged_bytes - before.hedged_bytes == hedges * len(LETTERS)
        assert (found.retries, found.in_flight) == (0, 0)
        server.ends.set()
        store.close()


def test_a_hedge_that_no_thread_sends_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    server, tried = Keeping(), list[object]()

    def refuse(_: Crew, task: object) -> bool:
        tried.append(task)
        return False

    with serving(server.answer) as (url, _), ThreadPoolExecutor(1) as pool:
        store = HTTPStore(url, timeout=60)
        for _ in range(1000):
            store.get("x")
        before = store.statistics()
        server.keep = 1
        monkeypatch.setattr(Crew, "help", refuse)
        reading = pool.submit(store.get, "x")
        assert wait_until(lambda: len(tried) > 5, 60)
        server.ends.set()
        assert bytes(reading.result()) == LETTERS
        found = store.statistics()
        assert (found.hedges, found.hedged_bytes) == (before.hedges, before.hedged_bytes)
        assert found.requests - before.requests == 1 + found.retries - before.retries
        store.close()


def test_in_an_outage_there_are_hardly_more_requests() -> None:
    hedging = Hedging()
    for _ in range(2000):
        hedging.count()
        hedging.learn(100, 100, 0.04)
    taken = 0
    for _ in range(2000):
        hedging.count()
        taken += hedging.take(urgent=True)
        hedging.learn(100, 100, 5.0)
    assert 90 <= taken <= 0.05 * 2000 + 10


def test_bytes_that_came_twice_are_saved_before_others_may() -> None:
    hedging = Hedging()
    for _ in range(2000):
        hedging.count()
        hedging.learn(100, 100, 0.04)
    assert hedging.take(urgent=True)
    hedging.learn(100_000, 100_000, 0.04, hedges=1)
    assert not hedging.take(urgent=True)
    for _ in range(15):
        hedging.learn(100_000, 100_000, 0.04)
    assert not hedging.take(urgent=True)
    for _ in range(5):
        hedging.learn(100_000, 100_000, 0.04)
    assert hedging.take(urgent=True)


def test_the_last_of_the_budget_is_for_what_is_most_late() -> None:
    hedging = Hedging()
    for _ in range(2000):
        hedging.count()
        hedging.learn(100, 100, 0.04)
    while hedging.take(urgent=False):
        pass
    assert hedging.take(urgent=True)


def test_large_requests_are_not_hedged() -> None:
    hedging = Hedging()
    for _ in range(3000):
        hedging.count()
        hedging.learn((1 << 23) + 1, 1, 0.1)
        hedging.learn(100, 100, 0.1)
    assert hedging.delay((1 << 23) + 1) is None
    assert hedging.delay(100) is not None


# ---- threads ------------------------------------------------------------------------------------------------------


class Snatched(SimpleQueue[Any]):
    """A queue from which another thread takes whatever is there as soon as this one has looked."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 - as it is called.
        if timeout is not None:
            raise Empty
        return super().get(block)

    def empty(self) -> bool:
        return False

    def get_nowait(self) -> Any:
        raise Empty


def test_a_helper_that_finds_nothing_lets_the_others_go_on() -> None:
    helpers = Crew()
    helpers._tasks = Snatched()
    before = threading.active_count()
    assert helpers.help(lambda: None)
    assert wait_until(lambda: threading.active_count() == before, 20)
    done = threading.Event()
    assert helpers.help(done.set)
    assert done.wait(20)
    helpers.close()


def test_a_crew_that_closes_still_helps_those_who_read() -> None:
    helpers, done = Crew(), threading.Event()
    helpers.close()
    assert helpers.help(done.set)
    assert done.wait(20)
    assert wait_until(lambda: not helpers._helpers, 20)


def test_threads_that_have_helped_keep_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_IDLE_SECONDS", 600.0)
    content = bytes(20 << 20)
    with serving(lambda _, wanted: (say_part(content, wanted), True)) as (url, _):
        store = HTTPStore(url, timeout=60)
        found: Any = memoryview(store.get("x"))
        assert len(found) == len(content)
        memory = weakref.ref(found.obj)
        del found
        assert wait_until(lambda: memory() is None, 20)
        store.close()
