"""Rules of `spdl.ray` that hold without a cluster, and that no call of the user shows there."""

from __future__ import annotations

import json
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.ray._actor import InOrder
from spdl.ray._crew import Uninterrupted
from spdl.ray._leases import PartlyReceived

if TYPE_CHECKING:
    from collections.abc import Iterator

# ---- results of items that are not delivered as a whole ----


def test_parts_that_are_received_are_not_made_again_and_those_delivered_are_saved() -> None:
    parts = PartlyReceived()
    parts.receive([(5, 0), (5, 1), (5, 3), (7, 2, 4), (7, 2, 5)])
    parts.deliver([(5, 0), (7, 2, 4)])
    assert sorted(parts.received_of(0, 6)) == [(5, 0), (5, 1), (5, 3)]
    assert parts.received_of(6, 8) == [(7, 2, 4), (7, 2, 5)]
    again = PartlyReceived(json.loads(json.dumps(parts.to_state())))
    assert sorted(again.received_of(0, 10)) == [(5, 0), (7, 2, 4)]
    parts.forget([(4, 6)])
    assert parts.received_of(0, 6) == []
    assert parts.to_state() == [[[7, 2], [0, 4, 1]]]


# ---- positions are told of in their order, however they come ----


@given(st.permutations(range(12)), st.lists(st.integers(1, 11), max_size=3, unique=True), st.integers(1, 5))
def test_in_order_tells_of_each_range_from_its_beginning(order: list[int], cuts: list[int], at_once: int) -> None:
    edges = [0, *sorted(cuts), 12]
    in_order = InOrder()
    for start, stop in zip(edges, edges[1:], strict=False):  # noqa: RUF007 - as the ranges of a table.
        in_order.expect(start, stop)
    told: list[int] = []
    for first in range(0, 12, at_once):
        came = order[first : first + at_once]
        for start, stop in in_order.pass_on(came, None):
            told += range(start, stop)
        assert set(told) <= set(order[: first + at_once])
        assert told == list(range(len(told)))
    assert told == list(range(12))


def test_in_order_waits_for_nothing_behind_the_end() -> None:
    in_order = InOrder()
    in_order.expect(0, 10)
    in_order.expect(10, 20)
    assert in_order.pass_on([1, 2], None) == []
    assert in_order.pass_on([0], 3) == [(0, 3)]
    in_order.expect(20, 22)
    assert in_order.pass_on([20, 21], None) == [(20, 22)]


# ---- calls that a Ctrl-C does not interrupt ----


@pytest.fixture
def alarm_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm_interrupts")
def test_uninterrupted_call_goes_on_after_an_interrupt_and_is_waited_for() -> None:
    may_end = threading.Event()
    ended: list[str] = []
    uninterrupted = Uninterrupted()

    def call() -> None:
        # It comes while the caller waits for this.
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert may_end.wait(30)
        ended.append("call")

    with pytest.raises(KeyboardInterrupt):
        uninterrupted.call(call)
    timer = threading.Timer(0.2, may_end.set)
    timer.start()
    uninterrupted.wait()
    assert ended == ["call"]
    timer.join()


def test_uninterrupted_call_raises_what_it_raised() -> None:
    def call() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Uninterrupted().call(call)
