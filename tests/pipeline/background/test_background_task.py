"""Test tasks that run beside the stages."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import Gate, wait_until

from spdl.pipeline import BackgroundTask, PipelineBuilder, PipelineFailure, build_pipeline, config
from spdl.pipeline.defs import Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import Pipeline


@pytest.fixture(autouse=True)
def no_defaults() -> Iterator[None]:
    yield
    config.set_default_background_tasks(None)


class Recorded(BackgroundTask):
    """A background task that records what happens to it."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        events.append("made")

    async def run(self) -> None:
        self.events.append(threading.current_thread().name.rpartition("_")[0])
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.events.append("cancelled")
            raise


def build(*tasks: Any, items: Any = range(3), op: Any = str) -> Pipeline[Any]:
    declaration = PipelineConfig(SourceConfig(items), [Pipe(op)], SinkConfig(3))
    return build_pipeline(declaration, num_threads=1, background_tasks=list(tasks))


ALL_EVENTS = ["made", "spdl_event_loop_thread", "cancelled"]


def test_it_runs_on_the_event_loop_until_the_stages_have_finished() -> None:
    events: list[str] = []
    pipeline = build(lambda: Recorded(events))
    assert events == []
    with pipeline.auto_stop():
        assert list(pipeline) == ["0", "1", "2"]
        # The task is cancelled without a call of `stop`.
        assert wait_until(lambda: events == ALL_EVENTS)


def test_it_is_cancelled_when_the_pipeline_stops() -> None:
    events: list[str] = []
    go = threading.Event()

    def endless() -> Iterator[int]:
        while not go.wait(0.001):
            yield 0

    pipeline = build(lambda: Recorded(events), items=endless())
    with pipeline.auto_stop():
        assert pipeline.get_item(timeout=20) == "0"
        # The event loop begins beside the stages.
        assert wait_until(lambda: events == ALL_EVENTS[:2])
        go.set()
    assert events == ALL_EVENTS


def test_it_is_cancelled_when_the_pipeline_fails_or_is_forgotten() -> None:
    events: list[str] = []

    def fail(_: int) -> None:
        # Not before it runs: nothing begins once the pipeline was stopped.
        assert wait_until(lambda: len(events) == 2)
        raise SystemExit(1)

    pipeline = build(lambda: Recorded(events), op=fail)
    with pytest.raises(PipelineFailure):
        pipeline.get_item(timeout=20)
    pipeline.stop()
    assert events == ALL_EVENTS
    events.clear()
    pipeline = build(lambda: Recorded(events), items=iter(int, 1))
    pipeline.get_item(timeout=20)
    # As above.
    assert wait_until(lambda: len(events) == 2)
    del pipeline
    gc.collect()
    assert wait_until(lambda: events == ALL_EVENTS)


@pytest.mark.filterwarnings("ignore:The source of the pipeline")
def test_it_has_begun_however_short_the_pipeline_is() -> None:
    for _ in range(20):
        events: list[str] = []
        with build(lambda events=events: Recorded(events), items=[]).auto_stop() as pipeline:
            assert list(pipeline) == []
        assert events == ALL_EVENTS


def test_the_process_has_tasks_of_its_own_that_come_first() -> None:
    order: list[str] = []

    def make(name: str) -> Any:
        class Task(BackgroundTask):
            async def run(self) -> None:
                order.append(name)

        return Task

    config.set_default_background_tasks([make("first"), make("second")])
    with build(make("third")).auto_stop() as pipeline:
        list(pipeline)
    assert order == ["first", "second", "third"]
    # Pipelines of a builder have the default tasks, too.
    order.clear()
    with PipelineBuilder[int, int]().add_source([1]).add_sink().build(num_threads=1).auto_stop() as built:
        list(built)
    assert order == ["first", "second"]
    # A pipeline that exists keeps its tasks.
    pipeline = build()
    config.set_default_background_tasks(None)
    with pipeline.auto_stop():
        list(pipeline)
    assert order == 2 * ["first", "second"]


def test_no_event_loop_without_a_task() -> None:
    before = set(threading.enumerate())
    with build().auto_stop() as pipeline:
        started = set(threading.enumerate()) - before
        assert not any("event_loop" in thread.name for thread in started)
        list(pipeline)


class Broken(BackgroundTask):
    async def run(self) -> None:
        raise OSError("no such host")


class Leaving(BackgroundTask):
    async def run(self) -> None:
        raise SystemExit(3)


class Synchronous(BackgroundTask):
    def run(self) -> None:  # type: ignore[override]
        return


def broken_factory() -> BackgroundTask:
    raise LookupError("no such task")


@pytest.mark.parametrize(
    ("factory", "parts"),
    [
        (Broken, ("'Broken' failed", "OSError: no such host")),
        (Leaving, ("'Leaving' failed", "SystemExit: 3")),
        (Synchronous, ("'Synchronous' failed", "await")),
        (BackgroundTask, ("'BackgroundTask' failed", "must override `run`")),
        (broken_factory, ("'broken_factory' could not be made", "LookupError: no such task")),
        (lambda: 3, ("'int' failed", "no attribute 'run'")),
    ],
)
def test_what_goes_wrong_is_logged_only(factory: Any, parts: tuple[str, ...], caplog: pytest.LogCaptureFixture) -> None:
    events: list[str] = []

    async def op(x: int) -> int:
        await asyncio.sleep(0)
        return x

    # The other task and the stage on the event loop go on.
    with build(factory, lambda: Recorded(events), op=op).auto_stop() as pipeline:
        assert list(pipeline) == [0, 1, 2]
    assert events == ALL_EVENTS
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    for part in parts:
        assert part in record.getMessage()


def test_a_task_that_returns_is_done(caplog: pytest.LogCaptureFixture) -> None:
    class Short(BackgroundTask):
        async def run(self) -> None:
            return

    with build(Short).auto_stop() as pipeline:
        assert len(list(pipeline)) == 3
    assert not caplog.records


def test_a_task_that_ignores_its_cancellation_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(BackgroundTask):
        async def run(self) -> None:
            while True:
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue

    begin = time.monotonic()
    with build(Stubborn).auto_stop() as pipeline:
        assert len(list(pipeline)) == 3
    assert time.monotonic() - begin < 40
    gc.collect()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "'Stubborn' should have ended with its pipeline and still runs after 1 s" in record.getMessage()


def test_a_task_may_put_its_things_in_order() -> None:
    events: list[str] = []

    class Orderly(BackgroundTask):
        async def run(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.05)
                events.append("flushed")

    with build(Orderly).auto_stop() as pipeline:
        list(pipeline)
    assert events == ["flushed"]


def test_a_task_that_blocks_is_told_by_stop() -> None:
    go = Gate()

    class Blocking(BackgroundTask):
        async def run(self) -> None:
            go.wait(20)

    pipeline = build(Blocking)
    pipeline.start()
    assert len(list(pipeline)) == 3
    assert go.is_awaited()
    with pytest.raises(TimeoutError, match=r"go\.wait"):
        pipeline.stop(timeout=0.1)
    go.set()
    pipeline.stop()


@pytest.mark.parametrize("tasks", [Recorded, [3], "ab", [BackgroundTask()]])
def test_wrong_tasks(tasks: Any) -> None:
    declaration = PipelineConfig(SourceConfig([1]), [], SinkConfig(1))
    with pytest.raises(TypeError, match="`background_tasks` must be a list of callables without arguments, or None"):
        build_pipeline(declaration, num_threads=1, background_tasks=tasks)
