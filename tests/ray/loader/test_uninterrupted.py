"""Test calls that a Ctrl-C does not interrupt. They need no cluster."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from spdl.ray._loader.uninterrupted import Uninterrupted

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def alarm_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm_interrupts")
def test_a_call_goes_on_after_an_interrupt_and_is_waited_for() -> None:
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


def test_what_a_call_raises_comes_out() -> None:
    def call() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Uninterrupted().call(call)
