"""Test ops that take too long, in threads, on the event loop and in executors: reported only, or abandoned."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import pytest
from tests.delays import tolerates_delays
from tests.pipeline.support import source, wait_until

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

# An op that is to be in time may be late.
pytestmark = tolerates_delays


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


def test_a_straggler_is_reported_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    op = Stuck(3)
    pipeline = source(range(10)).pipe(op, timeout=0.2, name="slow", concurrency=2).add_sink(20).build(num_threads=2)
    with caplog.at_level(logging.WARNING, "spdl.pipeline"), pipeline.auto_stop(), op:
        assert wait_until(lambda: caplog.records)
        op.gate.set()
        assert sorted(pipeline.get_iterator(timeout=10)) == list(range(10))
    assert pipeline.statistics().stages[1].num_overdue == len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert message.startswith("Stage 'slow' has worked on source item 3 for more than 0.2 seconds. It is here:")
    assert "gate.wait" in message
    assert pipeline.failures() == []


@pytest.mark.parametrize("order", ["completion", "input"])
def test_a_straggler_is_abandoned_and_the_others_go_on(order: Any) -> None:
    op = Stuck(3)
    builder = source(range(50)).pipe(op, timeout=0.2, on_timeout="drop", name="slow", output_order=order)
    pipeline = builder.pipe(lambda x: x).add_sink(3).build(num_threads=1)
    with pipeline.auto_stop(), op:
        # There is one thread, so only its replacement can work on the other items.
        assert list(pipeline.get_iterator(timeout=10)) == [x for x in range(50) if x != 3]
    stage = pipeline.statistics().stages[1]
    assert (stage.num_overdue, stage.num_failed, stage.num_completed) == (1, 1, 49)
    (item,) = pipeline.failures()
    assert item.positions == (3,)
    assert item.error.startswith("TimeoutError: The op took more than 0.2 seconds.")
    assert pipeline.statistics().in_flight == 0


def test_a_late_result_is_discarded() -> None:
    op = Stuck(0)
    more = threading.Event()

    def items() -> Iterator[int]:
        yield from (0, 1)
        assert more.wait(20)
        yield 2

    pipeline = source(items()).pipe(op, timeout=1.0, on_timeout="drop").add_sink(5).build(num_threads=2)
    with pipeline.auto_stop(), op:
        assert pipeline.get_item(timeout=20) == 1
        assert wait_until(lambda: pipeline._engine.workers.abandoned == 1)
        op.gate.set()
        assert wait_until(lambda: pipeline._engine.workers.abandoned == 0)
        more.set()
        assert list(pipeline.get_iterator(timeout=10)) == [2]


def test_threads_of_abandoned_ops_that_have_ended_are_forgotten() -> None:
    gates = [threading.Event() for _ in range(20)]

    def items() -> Iterator[int]:
        for number, gate in enumerate(gates):
            yield number
            assert wait_until(lambda number=number: pipeline.statistics().stages[1].num_failed > number)  # type: ignore[misc]
            gate.set()
            assert wait_until(lambda: not pipeline._engine.workers.abandoned)

    def op(number: int) -> None:
        assert gates[number].wait(20)

    pipeline = source(items()).pipe(op, timeout=0.01, on_timeout="drop").add_sink(1).build(num_threads=1)
    with contextlib.suppress(PipelineFailure), pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=20)) == []
    assert pipeline.statistics().stages[1].num_overdue == 20
    assert len(pipeline._engine.workers.threads) < 10


def test_too_many_stragglers_fail_the_pipeline() -> None:
    op = Stuck(*range(10))
    pipeline = source(range(10)).pipe(op, timeout=0.1, on_timeout="drop", name="slow").add_sink(1).build(num_threads=1)
    pipeline.start()
    with pytest.raises(PipelineFailure) as caught:
        pipeline.get_item(timeout=10)
    assert "3 ops that were abandoned still run" in str(caught.value.exceptions[0])
    assert "'slow'" in str(caught.value.exceptions[0])
    op.gate.set()
    pipeline.stop()


def test_what_is_finished_comes_out_before_too_many_stragglers_fail_the_pipeline() -> None:
    """The last straggler has the only thread, which the stage downstream needs, too."""
    op = Stuck(*range(3, 10))
    pipeline = (
        source(range(10)).pipe(op, timeout=0.3, on_timeout="drop").aggregate(100).add_sink(1).build(num_threads=1)
    )
    with op:
        assert pipeline.get_item(timeout=10) == [0, 1, 2]
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=10)
    pipeline.stop()


def test_stop_names_a_straggler_that_was_abandoned() -> None:
    op = Stuck(1)
    pipeline = source(range(3)).pipe(op, timeout=0.3, on_timeout="drop").add_sink(5).build(num_threads=1)
    pipeline.start()
    with op:
        assert sorted(pipeline.get_iterator(timeout=10)) == [0, 2]
        with pytest.raises(TimeoutError, match=r"gate\.wait"):
            pipeline.stop(timeout=0.1)
    pipeline.stop()


def test_a_generators_results_are_timed_one_by_one() -> None:
    gate = threading.Event()

    def op(x: int) -> Iterator[int]:
        for i in range(5):
            time.sleep(0.005)
            yield 10 * x + i
        if x == 1:
            gate.wait(30)

    pipeline = source(range(3)).pipe(op, timeout=0.3, on_timeout="drop").add_sink(5).build(num_threads=1)
    with pipeline.auto_stop():
        got = list(pipeline.get_iterator(timeout=10))
        gate.set()
    assert sorted(got) == sorted(10 * x + i for x in range(3) for i in range(5))
    assert pipeline.statistics().stages[1].num_overdue == 1


def test_an_async_straggler_is_cancelled() -> None:
    cancelled = []

    async def op(x: int) -> int:
        if x == 3:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(x)
                raise
        return x

    pipeline = (
        source(range(10)).pipe(op, timeout=0.2, on_timeout="drop", concurrency=2).add_sink(3).build(num_threads=1)
    )
    with pipeline.auto_stop():
        assert sorted(pipeline.get_iterator(timeout=10)) == [x for x in range(10) if x != 3]
        assert wait_until(lambda: cancelled == [3])
    assert pipeline.failures()[0].positions == (3,)


def test_waiting_for_a_place_is_no_time_of_an_async_generators() -> None:
    async def op(x: int) -> AsyncIterator[int]:
        for i in range(3):
            await asyncio.sleep(0)
            yield 10 * x + i

    got = []
    builder = source(range(3)).pipe(op, timeout=0.2, on_timeout="drop").add_sink(1)
    with builder.build(num_threads=1).auto_stop() as pipeline:
        for item in pipeline.get_iterator(timeout=10):
            got.append(item)
            time.sleep(0.25)
        assert pipeline.failures() == []
    assert got == [10 * x + i for x in range(3) for i in range(3)]


@pytest.mark.parametrize("order", ["completion", "input"])
def test_what_an_async_generator_yields_late_is_discarded(order: Any) -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        yield from range(2)
        # Without another item the pipeline could end before the late results come.
        assert closed.wait(20)
        yield 2

    async def op(x: int) -> AsyncIterator[str]:
        yield f"{x} in time"
        if x == 1:
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(30)
                yield "late"
                yield "later"
            finally:
                closed.set()
        yield f"{x} at last"

    builder = source(items()).pipe(op, timeout=0.2, on_timeout="drop", concurrency=3, output_order=order)
    with builder.add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        got = list(pipeline.get_iterator(timeout=10))
        assert [failed.positions for failed in pipeline.failures()] == [(1,)]
        assert pipeline.statistics().in_flight == 0
    expected = ["0 in time", "0 at last", "1 in time", "2 in time", "2 at last"]
    assert (got if order == "input" else sorted(got)) == (expected if order == "input" else sorted(expected))


def test_a_late_cancellation_does_not_reach_the_next_item() -> None:
    reporting, go_on, begun = threading.Event(), threading.Event(), threading.Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "abandoned" in record.getMessage():
                reporting.set()
                assert begun.wait(20)

    def items() -> Iterator[int]:
        yield 0
        assert go_on.wait(20)
        yield 1

    async def op(x: int) -> int:
        if x == 0:
            # The op ends before it is cancelled, and the next item is already there for the task that ran it.
            assert reporting.wait(20)
            go_on.set()
            assert wait_until(lambda: pipeline._engine.nodes[0].queue)
        else:
            begun.set()
            await asyncio.sleep(0.3)
        return x

    builder = source(items()).pipe(op, timeout=1, on_timeout="drop", concurrency=2)
    pipeline = builder.add_sink(3).build(num_threads=1)
    log, handler = logging.getLogger("spdl.pipeline"), Slow()
    log.addHandler(handler)
    try:
        with pipeline.auto_stop():
            assert list(pipeline.get_iterator(timeout=10)) == [1]
    finally:
        log.removeHandler(handler)
    assert [failed.positions for failed in pipeline.failures()] == [(0,)]


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


def test_an_async_straggler_that_is_only_reported() -> None:
    async def op(x: int) -> int:
        await asyncio.sleep(0.6 if x == 3 else 0)
        return x

    pipeline = source(range(6)).pipe(op, timeout=0.2).add_sink(3).build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=10)) == list(range(6))
    assert pipeline.statistics().stages[1].num_overdue == 1


def test_a_straggler_in_an_executor() -> None:
    op = Stuck(1)
    with ThreadPoolExecutor(2) as executor:
        builder = source(range(20)).pipe(op, timeout=0.2, on_timeout="drop", executor=executor, concurrency=2)
        pipeline = builder.add_sink(3).build(num_threads=1)
        with pipeline.auto_stop(), op:
            assert sorted(pipeline.get_iterator(timeout=10)) == [x for x in range(20) if x != 1]


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


# With two items nothing else wakes the loop: the end of the source was seen before.
@pytest.mark.parametrize("size", [2, 3])
def test_the_event_loop_goes_on_after_a_late_report_of_a_timeout(size: int) -> None:
    ended, reported = threading.Event(), threading.Event()

    async def op(x: int) -> int:
        if x == 0:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
        return x

    def report(_: object) -> None:
        # Meanwhile the op's task ends, and the loop finds no free slot.
        assert ended.wait(20)
        time.sleep(0.2)
        reported.set()

    builder = source(range(size)).pipe(op, timeout=0.1, on_timeout="drop", on_failure=report)
    pipeline = builder.add_sink(3).build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=20)) == list(range(1, size))
    assert reported.is_set()


def test_a_step_that_a_stop_forestalls_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Item:
        pass

    made: list[weakref.ref[Item]] = []

    def items() -> Iterator[Item]:
        item = Item()
        made.append(weakref.ref(item))
        yield item

    pipeline = source(items()).pipe(lambda x: x, timeout=20).add_sink(3).build(num_threads=1)
    engine = pipeline._engine
    release = engine.release_to_user

    def stop_and_release() -> None:
        # A finalizer may be called here, when the op's time has begun and the op has not.
        pipeline.stop()
        release()

    monkeypatch.setattr(type(engine), "release_to_user", lambda _: stop_and_release())
    pipeline.start()
    assert wait_until(lambda: engine.stopping)
    pipeline.stop()
    gc.collect()
    assert made[0]() is None
