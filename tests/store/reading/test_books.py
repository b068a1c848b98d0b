"""There are as many places as the limit, and all is counted."""

from __future__ import annotations

import threading

from spdl.store._reading.books import Books


def full() -> Books:
    books = Books()
    while books.try_begin():
        pass
    return books


def test_there_are_as_many_places_as_the_limit() -> None:
    books = full()
    assert books.statistics().in_flight == books.statistics().limit == 8
    books.end()
    assert books.try_begin()
    assert not books.try_begin()


def test_it_may_be_read_while_it_is_written() -> None:
    books = Books()
    stop = threading.Event()
    wrong = []

    def look() -> None:
        while not stop.is_set():
            found = books.statistics()
            if found.requests - found.in_flight != found.answers or found.bytes != 100 * found.answers:
                wrong.append(found)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5000):
        assert books.try_begin()
        books.answered(100, 100, 0.04, 0.04, 0.0, hedged=0.0, hedges=0, won=False)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
