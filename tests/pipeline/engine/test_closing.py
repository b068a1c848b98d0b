"""Test that `stop` waits for what cleans up: sources and ops whose generators are closed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import Gate, rests, source, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.mark.parametrize(
    "kind", ["source", "dedicated", "async", "op", "ordered op", "op in threads", "op in an executor"]
)
def test_stop_waits_for_generators_that_clean_up(kind: str) -> None:
    steps: list[str] = []
    # Longer than `stop` gives a source that blocks.
    cleans_up = 0.8

    def generator(item: int) -> Iterator[int]:
        try:
            while True:
                yield item
                time.sleep(0.01)
        finally:
            time.sleep(cleans_up)
            steps.append("closed")

    async def async_generator() -> AsyncIterator[int]:
        try:
            while True:
                yield 0
        finally:
            await asyncio.sleep(cleans_up)
            steps.append("closed")

    with ExitStack() as stack:
        executor: Any = None
        if kind == "op in threads":
            executor = stack.enter_context(ThreadPoolExecutor(1))
        elif kind == "op in an executor":
            executor = stack.enter_context(_OfAnotherKind())
        if kind == "async":
            builder = source(async_generator())
        elif "op" in kind:
            order: Any = "input" if "ordered" in kind else "completion"
            builder = source([1]).pipe(generator, executor=executor, output_order=order)
        else:
            builder = source(generator(0), dedicated_thread=kind == "dedicated")
        with builder.add_sink(3).build(num_threads=1).auto_stop() as pipeline:
            pipeline.get_item(timeout=10)
            # A stop would not wait for a source that is asked for an item at that moment, and takes its time.
            assert "op" in kind or wait_until(lambda: rests(pipeline))
        assert steps == ["closed"]


class _OfAnotherKind(Executor):
    """An executor that a pipeline knows nothing of, and that is slow to call the callbacks of its futures."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        # Added before the pipeline adds its own.
        future.add_done_callback(lambda _: time.sleep(0.05))
        self._pool.submit(lambda: future.set_result(function(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - its base's.
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)


def test_stop_names_a_source_that_takes_too_long_to_close() -> None:
    goes_on = Gate()

    def items() -> Iterator[int]:
        try:
            yield from range(10**9)
        finally:
            goes_on.wait(20)

    pipeline = source(items()).add_sink(3).build(num_threads=1)
    assert pipeline.get_item(timeout=10) == 0
    # As above.
    assert wait_until(lambda: rests(pipeline))
    pipeline._engine.request_stop()
    assert goes_on.is_awaited()
    with pytest.raises(TimeoutError, match=r"(?s)1 op.*Source 'src', which is being closed, in .*goes_on.wait"):
        pipeline.stop(timeout=0.8)
    goes_on.set()
    pipeline.stop(timeout=10)


def test_the_interpreter_waits_for_a_source_that_cleans_up() -> None:
    code = """
import time
from spdl.pipeline import PipelineBuilder

def items():
    try:
        yield from range(10**9)
    finally:
        time.sleep(1)
        print("cleaned up")

pipeline = PipelineBuilder().add_source(items()).add_sink(3).build(num_threads=1)
pipeline.get_item()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == "cleaned up\n"
