"""The threads of a store: what is given to them is done."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any

from tests.pipeline.support import wait_until

from spdl.store._reading.crew import Crew


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
    crew = Crew()
    crew._tasks = Snatched()
    before = threading.active_count()
    assert crew.help(lambda: None)
    assert wait_until(lambda: threading.active_count() == before, 20)
    done = threading.Event()
    assert crew.help(done.set)
    assert done.wait(20)
    crew.close()


def test_a_crew_that_closes_still_helps_those_who_read() -> None:
    crew, done = Crew(), threading.Event()
    crew.close()
    assert crew.help(done.set)
    assert done.wait(20)
    assert wait_until(lambda: not crew._helpers, 20)
