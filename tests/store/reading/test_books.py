"""Threads share the places under way: nobody has more, nobody waits in vain."""

from __future__ import annotations

import threading
import time

import pytest

from spdl.store import StoreError
from spdl.store._reading.books import Books


def full() -> Books:
    books = Books(time.monotonic)
    while books.try_begin():
        pass
    return books


def test_there_are_as_many_places_as_the_limit() -> None:
    books = full()
    assert books.statistics().in_flight == books.statistics().limit == 8


def test_one_waits_until_a_place_is_free() -> None:
    books = full()
    thread = threading.Thread(target=books.begin, args=(30.0,))
    thread.start()
    while not books._waiting:
        time.sleep(0.001)
    books.end()
    thread.join(20)
    assert not thread.is_alive()
    assert books.statistics().in_flight == 8
    assert books.statistics().waited_seconds > 0


def test_nobody_passes_one_who_waits() -> None:
    books = full()
    thread = threading.Thread(target=books.begin, args=(30.0,))
    thread.start()
    while not books._waiting:
        time.sleep(0.001)
    assert not books.try_begin()
    books.end()
    thread.join(20)
    assert not books.try_begin()


def test_waiting_has_an_end() -> None:
    books = full()
    with pytest.raises(StoreError, match=r"8 requests are under way; none ended in 0\.01 s"):
        books.begin(0.01)
    books.end()
    assert books.try_begin()


def test_many_threads() -> None:
    books = Books(time.monotonic)
    most = []

    def work() -> None:
        for _ in range(200):
            books.begin(30.0)
            most.append(books.statistics().in_flight)
            books.answered(100, 100, 0.04, 0.04, 0.0, hedged=0.0, hedges=0, won=False)

    threads = [threading.Thread(target=work) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = books.statistics()
    assert (found.in_flight, found.answers, found.requests) == (0, 10_000, 10_000)
    assert max(most) <= found.limit
