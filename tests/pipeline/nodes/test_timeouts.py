"""Test ops that take too long on real clocks. What depends on others being in time is in tests/pipeline/timed."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import pytest
from tests.pipeline.support import source, wait_until

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import Pipeline


class Stuck:
    """An op that returns at once, but waits at the given items until its gate opens, or its block ends."""

    def __init__(self, *stuck: int) -> None:
        self.stuck = stuck
        self.gate = threading.Event()

    def __call__(self, x: int) -> int:
        if x in self.stuck:
            assert self.gate.wait(30)
        return x

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()


def test_a_pipeline_may_be_stopped_while_an_async_straggler_is_reported() -> None:
    threads = set(threading.enumerate())
    reporting = threading.Event()

    class Slow(logging.Handler):
        def emit(self, _: logging.LogRecord) -> None:
            reporting.set()
            assert wait_until(
                lambda: all("timer" in thread.name for thread in set(threading.enumerate()) - threads), 20
            )

    pipeline = source([30]).pipe(asyncio.sleep, timeout=0.01, on_timeout="drop").add_sink(1).build(num_threads=1)
    log, handler = logging.getLogger("spdl.pipeline"), Slow()
    log.addHandler(handler)
    try:
        pipeline.start()
        assert reporting.wait(20)
        # The event loop is closed by the time when the straggler would be cancelled.
        pipeline.stop(timeout=30)
    finally:
        log.removeHandler(handler)
    assert pipeline.statistics().stages[1].num_overdue == 1


def read(pipeline: Pipeline[Any], size: int, stuck: int) -> None:
    """Read a pipeline of so many items, of which one is stuck.

    On a busy machine, others may be late as well. If all are, the pipeline fails.
    """
    got: set[int] = set()
    with suppress(PipelineFailure):
        got.update(pipeline.get_iterator(timeout=20))
    failed = {position for each in pipeline.failures() for position in each.positions}
    assert stuck in failed
    assert got == set(range(size)) - failed


def test_timeout_reports_a_straggler_and_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    op = Stuck(3)
    pipeline = source([3]).pipe(op, timeout=0.1, name="slow").add_sink(20).build(num_threads=2)
    with caplog.at_level(logging.WARNING, "spdl.pipeline"), pipeline.auto_stop(), op:
        assert wait_until(lambda: caplog.records)
        op.gate.set()
        assert list(pipeline.get_iterator(timeout=10)) == [3]
    assert pipeline.statistics().stages[1].num_overdue == len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert message.startswith("Stage 'slow' has worked on source item 0 for more than 0.1 seconds. It is here:")
    assert "in __call__" in message
    assert pipeline.failures() == []


@pytest.mark.parametrize("kind", ["thread", "executor"])
def test_timeout_abandons_a_straggler_and_its_thread(kind: str) -> None:
    op = Stuck(3)
    with ThreadPoolExecutor(2) as executor:
        options: dict[str, Any] = {"executor": executor, "concurrency": 2} if kind == "executor" else {}
        builder = source(range(50)).pipe(op, timeout=0.2, on_timeout="drop", **options).pipe(lambda x: x)
        # There is one thread, so only its replacement can work on the other items.
        with builder.add_sink(3).build(num_threads=1).auto_stop() as pipeline, op:
            read(pipeline, 50, stuck=3)


def test_timeout_cancels_an_async_straggler() -> None:
    cancelled = []

    async def op(x: int) -> int:
        if x == 3:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(x)
                raise
        return x

    builder = source(range(10)).pipe(op, timeout=0.2, on_timeout="drop", concurrency=2).add_sink(3)
    with builder.build(num_threads=1).auto_stop() as pipeline:
        read(pipeline, 10, stuck=3)
        assert wait_until(lambda: cancelled == [3])


def test_stop_names_a_straggler_that_was_abandoned() -> None:
    op = Stuck(1)
    pipeline = source(range(3)).pipe(op, timeout=0.2, on_timeout="drop").add_sink(5).build(num_threads=1)
    pipeline.start()
    with op:
        read(pipeline, 3, stuck=1)
        with pytest.raises(TimeoutError, match=r"gate\.wait"):
            pipeline.stop(timeout=0.1)
    pipeline.stop()


def test_ops_in_time_are_left_alone() -> None:
    pipeline = source(range(300)).pipe(lambda x: x, timeout=30, concurrency=3).add_sink(3).build(num_threads=3)
    with pipeline.auto_stop():
        assert sorted(pipeline.get_iterator(timeout=10)) == list(range(300))
    assert pipeline.statistics().stages[1].num_overdue == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"timeout": 0}, ValueError, "`timeout` must be a finite number of seconds, more than 0"),
        ({"timeout": -1}, ValueError, "`timeout` must be a finite number of seconds, more than 0"),
        ({"timeout": float("nan")}, ValueError, "`timeout` must be a finite"),
        ({"timeout": "1"}, TypeError, "`timeout` must be a finite number"),
        ({"on_timeout": "kill"}, ValueError, "`on_timeout` must be one of"),
    ],
)
def test_mistakes(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        source([]).pipe(len, **arguments)


def test_a_step_that_a_stop_forestalls_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Item:
        pass

    made: list[weakref.ref[Item]] = []
    pulled_by: list[threading.Thread] = []
    begun, gate = threading.Event(), threading.Event()

    def make() -> Item:
        item = Item()
        made.append(weakref.ref(item))
        pulled_by.append(threading.current_thread())
        return item

    def items() -> Iterator[Item | None]:
        yield None
        assert begun.wait(20)
        yield make()

    def op(item: Item | None) -> None:
        assert item is None
        begun.set()
        assert gate.wait(20)

    pipeline = source(items()).pipe(op, timeout=20, concurrency=2).add_sink(3).build(num_threads=2)
    engine = pipeline._engine
    timed: Any = engine.nodes[0]
    begin = type(timed.timeout).begin

    def begin_and_stop(timeout: Any, attempt: Any, **options: Any) -> Any:
        # Whoever has pulled the item goes on with it. A finalizer may be called here, when the op's time has begun and
        # the op has not.
        watch = begin(timeout, attempt, **options)
        if threading.current_thread() in pulled_by:
            engine.request_stop()
        return watch

    monkeypatch.setattr(type(timed.timeout), "begin", begin_and_stop)
    pipeline.start()
    try:
        assert wait_until(lambda: engine.stopping)
        pulled_by[0].join(20)
        # The other op is still under way, so the pipeline has not ended.
        assert made[0]() is None
    finally:
        gate.set()
        pipeline.stop()
