"""A page tells what begins while every worker that could write it runs an op or sleeps."""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.observe.programs import own_page
from tests.pipeline.support import source

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory")


def test_an_op_that_begins_after_a_slow_finalizer_is_told(caplog: pytest.LogCaptureFixture) -> None:
    gate = threading.Event()

    class Slow:
        def __del__(self) -> None:
            time.sleep(0.5)

    def op(item: int) -> int:
        if item == 0:
            raise ValueError(Slow())
        gate.wait(20)
        return item

    # The records of a failure would keep it.
    caplog.set_level(logging.CRITICAL)
    # One worker lets the first failure go while the other, which is idle, looks at the page and finds no op that runs.
    with source([0, 1]).pipe(op).add_sink().build(num_threads=2).auto_stop() as pipeline:
        page = own_page(pipeline)
        try:
            deadline = time.monotonic() + 20
            while page.observe().stages[0].running != 1 or page.observe().failures != 1:
                assert time.monotonic() < deadline, page.observe()
                time.sleep(0.01)
        finally:
            gate.set()
        assert list(pipeline) == [1]


def test_the_next_op_of_an_item_is_told_after_a_long_silence() -> None:
    first, second = threading.Event(), threading.Event()

    def wait(gate: threading.Event) -> Callable[[int], int]:
        def op(item: int) -> int:
            gate.wait(30)
            return item

        return op

    # One worker runs both ops of the item. The other, which is idle, has found no change and looks only once a minute.
    stages = source([0]).pipe(wait(first), name="first").pipe(wait(second), name="second")
    with stages.add_sink().build(num_threads=2).auto_stop() as pipeline:
        page = own_page(pipeline)
        try:
            time.sleep(2)
            assert [stage.running for stage in page.observe().stages] == [1, 0]
            first.set()
            deadline = time.monotonic() + 10
            while [stage.running for stage in page.observe().stages] != [0, 1]:
                assert time.monotonic() < deadline, page.observe()
                time.sleep(0.01)
        finally:
            first.set()
            second.set()
        assert list(pipeline) == [0]
