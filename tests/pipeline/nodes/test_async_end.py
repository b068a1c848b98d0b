"""Test that nothing is left on the event loop when a pipeline ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import run, source, wait_until

from spdl.pipeline import PipelineFailure, TaskHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from spdl.pipeline import Pipeline


class Generators:
    """An op that makes async generators, and counts how many have begun and ended. Ending takes a while."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds
        self.begun = self.ended = 0

    async def endless(self, item: int) -> AsyncIterator[int]:
        """Yield the item for ever."""
        self.begun += 1
        try:
            while True:
                yield item
        finally:
            await asyncio.sleep(self.seconds)
            self.ended += 1


class Quiet(TaskHook):
    """A hook that does nothing."""

    @contextlib.asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


def pipelines(op: Callable[[int], Any]) -> Iterator[Pipeline[int]]:
    """Yield pipelines that run async generators in every way that there is."""
    # The event loop calls the first op, and a worker calls the second one.
    for made in (op, lambda item: op(item)):  # noqa: PLW0108 - the engine sees the difference.
        for options in ({}, {"output_order": "input"}, {"timeout": 30.0}):
            yield source(range(3)).pipe(made, concurrency=2, **options).add_sink(1).build(num_threads=1)
        hooked = source(range(3)).pipe(made, concurrency=2).add_sink(1)
        yield hooked.build(num_threads=1, task_hook_factory=lambda _: [Quiet()])


def test_generators_under_way_are_closed_before_stop_returns(caplog: pytest.LogCaptureFixture) -> None:
    generators = Generators()
    for pipeline in pipelines(generators.endless):
        before = generators.begun
        with pipeline.auto_stop():
            assert pipeline.get_item(timeout=10) in (0, 1)
        assert before < generators.begun == generators.ended
    gc.collect()
    assert not caplog.records


@pytest.mark.parametrize("sink", [1, 100_000])
def test_closing_is_waited_for_wherever_the_generator_is(sink: int) -> None:
    # Longer than tasks that are not the stages' own may take.
    generators = Generators(1.5)
    with source([0]).pipe(generators.endless).add_sink(sink).build(num_threads=1).auto_stop() as pipeline:
        assert pipeline.get_item(timeout=10) == 0
    assert generators.begun == generators.ended == 1


def test_what_closing_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    variable: ContextVar[int] = ContextVar("variable")
    ended: list[bool] = []

    async def op(item: int) -> AsyncIterator[int]:
        token = variable.set(item)
        try:
            while True:
                yield item
        finally:
            # This raises in any context other than that of the first step.
            variable.reset(token)
            ended.append(True)
            raise OSError("no such host")

    with source([0]).pipe(op, name="stage").add_sink(1).build(num_threads=1).auto_stop() as pipeline:
        assert pipeline.get_item(timeout=10) == 0
    assert ended == [True]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "Stage 'stage'" in record.getMessage()
    assert "op raised when it was closed: OSError: no such host" in record.getMessage()


def test_a_generator_that_a_consumer_of_its_own_left_early_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    generators = Generators()

    async def first(item: int) -> int:
        async for value in generators.endless(item):
            return value
        raise AssertionError

    assert run(source(range(20)).pipe(first, concurrency=4)) == list(range(20))
    gc.collect()
    assert generators.begun == generators.ended == 20
    assert not caplog.records


@pytest.mark.parametrize("complete", [True, False])
def test_tasks_that_ops_have_started_are_cancelled(caplog: pytest.LogCaptureFixture, *, complete: bool) -> None:
    events: list[str] = []

    async def heartbeat() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            events.append("cancelled")
            raise

    async def op(item: int) -> int:
        task = asyncio.create_task(heartbeat())
        await asyncio.sleep(0)
        assert not task.done()
        return item

    with source(range(3)).pipe(op).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        for expected in range(3 if complete else 1):
            assert pipeline.get_item(timeout=10) == expected
    gc.collect()
    assert set(events) == {"cancelled"}
    assert len(events) == 3 if complete else len(events) >= 1
    assert not caplog.records


def test_generators_that_these_tasks_have_used_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    generators = Generators()

    async def consume() -> None:
        async for _ in generators.endless(0):
            await asyncio.sleep(3600)

    tasks: list[asyncio.Future[Any]] = []

    async def op(item: int) -> int:
        tasks.append(asyncio.create_task(consume()))
        await asyncio.sleep(0)
        return item

    assert run(source(range(3)).pipe(op)) == [0, 1, 2]
    del tasks[:]
    gc.collect()
    assert generators.begun == generators.ended == 3
    assert not caplog.records


def test_stop_waits_for_them_no_longer_than_it_is_told() -> None:
    async def lingers() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.8)

    tasks: list[asyncio.Task[None]] = []

    async def op(item: int) -> int:
        tasks.append(asyncio.create_task(lingers()))
        await asyncio.sleep(0)
        return item

    pipeline = source([0]).pipe(op).add_sink(1).build(num_threads=1)
    assert pipeline.get_item(timeout=10) == 0
    # The event loop may take a while to come to them.
    pipeline._engine.request_stop()
    loop = pipeline._engine.event_loop
    assert loop is not None
    assert wait_until(lambda: loop.awaits_others() or not loop.thread.is_alive())
    pipeline.stop(timeout=0.2)
    pipeline.stop()
    assert tasks[0].cancelled()


def test_one_that_ignores_its_cancellation_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    tasks: list[asyncio.Task[None]] = []

    async def op(item: int) -> int:
        if item == 1:
            tasks.append(asyncio.create_task(stubborn()))
        return item

    begin = time.monotonic()
    assert run(source(range(3)).pipe(op)) == [0, 1, 2]
    assert time.monotonic() - begin < 8
    gc.collect()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "stubborn' should have ended with its pipeline and still runs after 1 s" in record.getMessage()


def test_a_coroutine_that_comes_when_its_stage_has_ended_is_closed() -> None:
    async def never() -> None:
        raise AssertionError

    def op(item: int) -> Any:
        if item == 1:
            raise SystemExit
        assert wait_until(lambda: "failed" in repr(pipeline).splitlines()[0])
        return never()

    pipeline = source(range(2)).pipe(op, concurrency=2).add_sink(1).build(num_threads=2)
    pipeline.start()
    with pytest.raises(PipelineFailure):
        pipeline.get_item(timeout=10)
    pipeline.stop()
    # Python complains of coroutines that were never awaited, which fails the test.
    gc.collect()
