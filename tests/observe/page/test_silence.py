"""A page tells what begins while every worker that could write it runs an op or sleeps."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.observe.programs import own_page
from tests.pipeline.support import rests, source, wait_until

from spdl.pipeline import BackgroundTask, build_pipeline

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from spdl.pipeline import PipelineBuilder

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]


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
            deadline = time.monotonic() + 60
            while page.observe().stages[0].running != 1 or page.observe().failures != 1:
                assert time.monotonic() < deadline, page.observe()
                time.sleep(0.01)
        finally:
            gate.set()
        assert list(pipeline) == [1]


class Gates:
    """Ops that wait, each until the test lets it go on."""

    def __init__(self) -> None:
        self.first, self.second = threading.Event(), threading.Event()

    def source(self) -> Iterator[int]:
        self.first.wait(30)
        yield 0

    def one(self, item: int) -> int:
        self.first.wait(30)
        return item

    def generate(self, item: int) -> Iterator[int]:
        self.first.wait(30)
        yield item

    def two(self, item: int) -> int:
        self.second.wait(30)
        return item


def plain(gates: Gates) -> PipelineBuilder[Any]:
    return source([0]).pipe(gates.one).pipe(gates.two)


def in_order(gates: Gates) -> PipelineBuilder[Any]:
    return source([0]).pipe(gates.one, output_order="input").pipe(gates.two, output_order="input")


def with_timeouts(gates: Gates) -> PipelineBuilder[Any]:
    return source([0]).pipe(gates.one, timeout=60).pipe(gates.two, timeout=60)


def with_retries(gates: Gates) -> PipelineBuilder[Any]:
    return source([0]).pipe(gates.one, retries=1).pipe(gates.two, retries=1)


def a_generator(gates: Gates) -> PipelineBuilder[Any]:
    return source([0]).pipe(gates.generate).pipe(gates.two)


def a_slow_source(gates: Gates) -> PipelineBuilder[Any]:
    return source(gates.source()).pipe(gates.two)


@pytest.mark.parametrize(
    ("stages", "max_bytes"),
    [
        (plain, None),
        (plain, 1 << 20),
        (in_order, None),
        (with_timeouts, None),
        (with_retries, None),
        (a_generator, None),
        (a_slow_source, None),
    ],
)
def test_what_follows_a_long_silence_is_told(
    stages: Callable[[Gates], PipelineBuilder[Any]], max_bytes: int | None
) -> None:
    gates = Gates()
    # One worker does all of it. The other, which is idle, has found no change and looks only once a minute.
    pipeline = stages(gates).add_sink().build(num_threads=2, max_bytes=max_bytes)
    with pipeline.auto_stop():
        page = own_page(pipeline)
        try:
            time.sleep(1.3)
            assert not page.observe().stages[-1].running
            gates.first.set()
            deadline = time.monotonic() + 60
            while not page.observe().stages[-1].running:
                assert time.monotonic() < deadline, page.observe()
                time.sleep(0.01)
        finally:
            gates.first.set()
            gates.second.set()
        assert list(pipeline) == [0]


async def numbers() -> AsyncIterator[int]:
    for number in range(1_000):
        await asyncio.sleep(0.002)
        yield number


async def same(item: int) -> int:
    await asyncio.sleep(0)
    return item


@pytest.mark.parametrize("dedicated", [False, True])
def test_what_runs_on_the_event_loop_alone_is_told(*, dedicated: bool) -> None:
    begin = itertools.repeat(0) if dedicated else numbers()
    pipeline = source(begin, dedicated_thread=dedicated).pipe(same).add_sink(3).build(num_threads=2)
    with pipeline.auto_stop():
        page = own_page(pipeline)
        reads = iter(pipeline)
        for count in range(1, 501):
            next(reads)
            time.sleep(0.002)
            if count % 100:
                continue
            # It is told a moment later, although no thread runs an op.
            deadline = time.monotonic() + 60
            while page.observe().delivered < count:
                assert time.monotonic() < deadline, page.observe()
                time.sleep(0.01)


def test_coroutines_that_begin_after_the_event_loop_was_blocked_are_told() -> None:
    gate = threading.Event()

    class Blocks(BackgroundTask):
        async def run(self) -> None:
            gate.wait(60)

    async def op(item: int) -> int:
        await asyncio.Event().wait()
        return item

    config = source(range(10)).pipe(op, concurrency=2).add_sink().get_config()
    with build_pipeline(config, num_threads=2, background_tasks=[Blocks]).auto_stop() as pipeline:
        page = own_page(pipeline)
        try:
            # Items wait for the loop, and no thread will write again by itself.
            assert wait_until(lambda: rests(pipeline) and not pipeline._engine.page.flushing)
        finally:
            gate.set()
        assert wait_until(lambda: page.observe().stages[0].running == 2)


def test_the_time_on_a_page_never_runs_backwards() -> None:
    begin = threading.Event()

    def slowly() -> Iterator[int]:
        begin.wait(30)
        for number in range(12):
            time.sleep(0.15)
            yield number

    def op(item: int) -> int:
        time.sleep(0.002)
        return item

    with source(slowly()).pipe(op).add_sink(20).build(num_threads=2).auto_stop() as pipeline:
        page = own_page(pipeline)
        begin.set()
        last = page.observe().now
        # What came last may not have been written down when it ended.
        while (seen := page.observe()).sources[0].emitted < 12 and page.state() == "running":
            assert seen.now >= last
            last = seen.now
            time.sleep(0.0005)
        assert len(list(pipeline)) == 12


@pytest.mark.parametrize("pause", [0.3, 2.5])
def test_what_the_consumer_takes_is_told_while_the_workers_have_nothing_to_do(pause: float) -> None:
    gate = threading.Event()

    def numbers() -> Iterator[int]:
        yield from range(100)
        gate.wait(60)

    with source(numbers()).pipe(lambda x: x).add_sink(100).build(num_threads=2).auto_stop() as pipeline:
        page, taken = own_page(pipeline), 0
        try:
            items = pipeline.get_iterator(timeout=60)
            for more in (0, 1, 5, 24):
                taken += len(list(itertools.islice(items, more)))
                deadline = time.monotonic() + 60
                while (page.observe().sink_size, page.observe().delivered) != (100 - taken, taken):
                    assert time.monotonic() < deadline, page.observe()
                    time.sleep(0.01)
                # The workers see that nothing else goes on, and then that the consumer does not either.
                time.sleep(pause)
        finally:
            gate.set()
