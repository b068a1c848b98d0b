"""What is left on the event loop when a pipeline ends: nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import run, source

from spdl.pipeline import TaskHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from spdl.pipeline import Pipeline


class Life:
    """Notes when an op's async generator begins and ends, which takes it a while."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    async def endless(self, item: int) -> AsyncIterator[int]:
        """Yield the item for ever."""
        self.begun += 1
        try:
            while True:
                yield item
        finally:
            await asyncio.sleep(0.01)
            self.ended += 1


class Quiet(TaskHook):
    """A hook that does nothing."""

    @contextlib.asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


def pipelines(op: Callable[[int], Any]) -> Iterator[Pipeline[int]]:
    """Pipelines that run an op in each of the ways that an async generator is run."""
    # On the event loop, and begun by a worker.
    for made in (op, lambda item: op(item)):  # noqa: PLW0108 - the engine sees the difference.
        for options in ({}, {"output_order": "input"}, {"timeout": 30.0}):
            yield source(range(3)).pipe(made, concurrency=2, **options).add_sink(1).build(num_threads=1)
        hooked = source(range(3)).pipe(made, concurrency=2).add_sink(1)
        yield hooked.build(num_threads=1, task_hook_factory=lambda _: [Quiet()])


def test_generators_under_way_are_closed_before_stop_returns(caplog: pytest.LogCaptureFixture) -> None:
    life = Life()
    for pipeline in pipelines(life.endless):
        before = life.begun
        with pipeline.auto_stop():
            assert pipeline.get_item(timeout=10) in (0, 1)
        assert before < life.begun == life.ended
    gc.collect()
    assert not caplog.records


def test_a_generator_that_a_consumer_of_its_own_left_early_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    life = Life()

    async def first(item: int) -> int:
        async for value in life.endless(item):
            return value
        raise AssertionError

    assert run(source(range(20)).pipe(first, concurrency=4)) == list(range(20))
    gc.collect()
    assert life.begun == life.ended == 20
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
    assert "stubborn' was cancelled and has not ended within 1 s" in record.getMessage()
