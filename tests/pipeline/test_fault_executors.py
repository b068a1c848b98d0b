"""Test a finalizer that stops the pipeline at any line of a call in an executor: it must not wait for that call."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source
from tests.pipeline.test_fault_sections import AtLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import Pipeline

PREFIX = "elsewhere"
COUNT = 2
DEADLINE = 10


class AnyExecutor(Executor):
    """An executor of which nothing is known but its interface."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self.pool.submit(function, *args, **kwargs)


class AtLineElsewhere(AtLine):
    """Counts the lines in the executor's threads alone, but for those that note whose the thread is."""

    def __call__(self, frame: Any, event: str, argument: object) -> Any:
        if not threading.current_thread().name.startswith(PREFIX) or frame.f_code.co_name == "call":
            return None
        return super().__call__(frame, event, argument)


def plain(pool: ThreadPoolExecutor) -> Pipeline[Any]:
    return source(range(COUNT)).pipe(abs, executor=pool).pipe(float, executor=pool).add_sink(2).build(num_threads=1)


def unknown(pool: ThreadPoolExecutor) -> Pipeline[Any]:
    return source(range(COUNT)).pipe(abs, executor=AnyExecutor(pool)).add_sink(2).build(num_threads=1)


@pytest.mark.parametrize("graph", [plain, unknown])
def test_a_finalizer_at_any_line_of_a_call_does_not_wait_for_the_call(
    graph: Callable[[ThreadPoolExecutor], Pipeline[Any]],
) -> None:
    before = sys.gettrace()
    number = 0
    while True:
        seconds: list[float] = []
        with ThreadPoolExecutor(1, thread_name_prefix=PREFIX) as pool:
            pipeline = graph(pool)

            def stop(pipeline: Pipeline[Any] = pipeline, seconds: list[float] = seconds) -> None:
                begin = time.monotonic()
                with suppress(TimeoutError):
                    pipeline.stop(timeout=DEADLINE)
                seconds.append(time.monotonic() - begin)

            tracer = AtLineElsewhere(number, stop)
            threading.settrace(tracer)
            try:
                with pipeline.auto_stop(timeout=2 * DEADLINE):
                    got = list(pipeline.get_iterator(timeout=2 * DEADLINE))
            finally:
                threading.settrace(before)
        if not tracer.done:
            break
        assert seconds[0] < DEADLINE / 2, tracer.where
        assert len(got) == len(set(got)), tracer.where
        number += 1
    assert got == list(range(COUNT))
    assert number > 10
