"""Ops that take too long, in threads, on the event loop and in executors: reported only, or abandoned."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.pipeline.support import source
from tests.pipeline.timed.programs import Hears, drain, exactly, program
from tests.simulation.executors import ProcessPool, ThreadPool
from tests.simulation.world import sleep

from spdl.pipeline import Pipeline, PipelineFailure, TaskHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

# Far longer than any limit here, and less than `stop` waits for.
_LONG = 8.0


def _stuck(*items: int) -> Callable[[int], int]:
    """Return an op that takes far too long for some items."""

    def op(x: int) -> int:
        if x in items:
            sleep(_LONG)
        return x

    return op


def _failure_of(pipeline: Pipeline[Any]) -> str:
    try:
        pipeline.get_item(timeout=10)
    except PipelineFailure as failure:
        return str(failure.exceptions[0])
    raise AssertionError("it did not fail")


@program
def a_straggler_is_reported_and_waited_for() -> None:
    pipeline = source(range(10)).pipe(_stuck(3), timeout=0.2, name="slow", concurrency=2).add_sink(20)
    with Hears() as heard:
        built = pipeline.build(num_threads=2)
        with built.auto_stop():
            assert sorted(built.get_iterator(timeout=100)) == list(range(10))
    (message,) = [each.getMessage() for each in heard.records if each.levelno == logging.WARNING]
    assert message.startswith("Stage 'slow' has worked on source item 3 for more than 0.2 seconds.")
    assert built.statistics().stages[1].num_overdue == 1
    assert built.failures() == []


@program
def a_straggler_is_abandoned_and_the_others_go_on() -> None:
    for order in ("completion", "input"):
        options: dict[str, Any] = {"output_order": order}
        builder = source(range(50)).pipe(_stuck(3), timeout=0.2, on_timeout="drop", name="slow", **options)
        pipeline = builder.pipe(lambda x: x).add_sink(3).build(num_threads=1)
        # There is one thread, so only its replacement can work on the other items.
        assert drain(pipeline) == [x for x in range(50) if x != 3]
        stage = pipeline.statistics().stages[1]
        assert (stage.num_overdue, stage.num_failed, stage.num_completed) == (1, 1, 49)
        (item,) = pipeline.failures()
        assert item.positions == (3,)
        assert item.error.startswith("TimeoutError: The op took more than 0.2 seconds.")
        assert pipeline.statistics().in_flight == 0


@program
def a_late_result_is_discarded() -> None:
    def items() -> Iterator[int]:
        yield from (0, 1)
        sleep(_LONG + 10)
        yield 2

    pipeline = source(items()).pipe(_stuck(0), timeout=1.0, on_timeout="drop").add_sink(5).build(num_threads=2)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=100)) == [1, 2]


@program
def threads_of_abandoned_ops_that_have_ended_are_forgotten() -> None:
    def items() -> Iterator[int]:
        for number in range(20):
            yield number
            sleep(0.1)

    def op(_: int) -> None:
        sleep(0.05)

    pipeline = source(items()).pipe(op, timeout=0.01, on_timeout="drop").add_sink(1).build(num_threads=1)
    with contextlib.suppress(PipelineFailure):
        assert drain(pipeline) == []
    assert pipeline.statistics().stages[1].num_overdue == 20
    assert len(pipeline._engine.workers.threads) < 10


@program
def too_many_stragglers_fail_the_pipeline() -> None:
    builder = source(range(10)).pipe(_stuck(*range(10)), timeout=0.1, on_timeout="drop", name="slow").add_sink(1)
    pipeline = builder.build(num_threads=1)
    pipeline.start()
    said = _failure_of(pipeline)
    assert "3 ops that were abandoned still run" in said
    assert "'slow'" in said
    pipeline.stop()


@program
def what_is_finished_comes_out_before_too_many_stragglers_fail_the_pipeline() -> None:
    """The last straggler has the only thread, which the stage downstream needs, too."""
    builder = source(range(10)).pipe(_stuck(*range(3, 10)), timeout=0.3, on_timeout="drop").aggregate(100)
    pipeline = builder.add_sink(1).build(num_threads=1)
    assert pipeline.get_item(timeout=10) == [0, 1, 2]
    _failure_of(pipeline)
    pipeline.stop()


@program
def results_of_generators_are_timed_one_by_one() -> None:
    def op(x: int) -> Iterator[int]:
        for i in range(5):
            sleep(0.2)
            yield 10 * x + i
        if x == 1:
            sleep(_LONG)

    pipeline = source(range(3)).pipe(op, timeout=0.3, on_timeout="drop").add_sink(5).build(num_threads=1)
    assert sorted(drain(pipeline)) == sorted(10 * x + i for x in range(3) for i in range(5))
    assert pipeline.statistics().stages[1].num_overdue == 1


@program
def an_async_straggler_is_cancelled() -> None:
    cancelled = []

    async def op(x: int) -> int:
        if x == 3:
            try:
                await asyncio.sleep(_LONG)
            except asyncio.CancelledError:
                cancelled.append(x)
                raise
        return x

    builder = source(range(10)).pipe(op, timeout=0.2, on_timeout="drop", concurrency=2).add_sink(3)
    pipeline = builder.build(num_threads=1)
    assert sorted(drain(pipeline)) == [x for x in range(10) if x != 3]
    assert cancelled == [3]
    assert pipeline.failures()[0].positions == (3,)
    assert pipeline.statistics().elapsed == exactly(0.2)


@program
def waiting_for_a_place_is_no_time_of_an_async_generators() -> None:
    async def op(x: int) -> AsyncIterator[int]:
        for i in range(3):
            await asyncio.sleep(0)
            yield 10 * x + i

    pipeline = source(range(3)).pipe(op, timeout=0.2, on_timeout="drop").add_sink(1).build(num_threads=1)
    assert drain(pipeline, consume=0.25) == [10 * x + i for x in range(3) for i in range(3)]
    assert pipeline.failures() == []


@program
def what_an_async_generator_yields_late_is_discarded() -> None:
    def items() -> Iterator[int]:
        yield from range(2)
        # Without another item the pipeline could end before the late results come.
        sleep(1.0)
        yield 2

    async def op(x: int) -> AsyncIterator[str]:
        yield f"{x} in time"
        if x == 1:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(_LONG)
            yield "late"
            yield "later"
        yield f"{x} at last"

    expected = ["0 in time", "0 at last", "1 in time", "2 in time", "2 at last"]
    for order in ("completion", "input"):
        options: dict[str, Any] = {"output_order": order}
        builder = source(items()).pipe(op, timeout=0.2, on_timeout="drop", concurrency=3, **options)
        pipeline = builder.add_sink(3).build(num_threads=1)
        got = drain(pipeline)
        assert [failed.positions for failed in pipeline.failures()] == [(1,)]
        assert pipeline.statistics().in_flight == 0
        assert (got if order == "input" else sorted(got)) == (expected if order == "input" else sorted(expected))


class _Slow(logging.Handler):
    """One that takes long for what is logged of an op that is abandoned."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._logger = logging.getLogger("spdl.pipeline")

    def emit(self, record: logging.LogRecord) -> None:
        if "abandoned" in record.getMessage():
            sleep(self._seconds)

    def __enter__(self) -> None:
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)


@program
def a_late_cancellation_does_not_reach_the_next_item() -> None:
    def items() -> Iterator[int]:
        yield 0
        sleep(1.2)
        yield 1

    async def op(x: int) -> int:
        if x == 0:
            # It ends while it is reported, and the next item is already there for the task that ran it. No other task
            # can take it meanwhile.
            sleep(1.5)
        else:
            await asyncio.sleep(0.9)
        return x

    builder = source(items()).pipe(op, timeout=1, on_timeout="drop", concurrency=2).add_sink(3)
    pipeline = builder.build(num_threads=1)
    with _Slow(1.0):
        assert drain(pipeline) == [1]
    assert [failed.positions for failed in pipeline.failures()] == [(0,)]


@program
def an_async_straggler_that_is_only_reported() -> None:
    async def op(x: int) -> int:
        await asyncio.sleep(0.6 if x == 3 else 0)
        return x

    pipeline = source(range(6)).pipe(op, timeout=0.2).add_sink(3).build(num_threads=1)
    assert drain(pipeline) == list(range(6))
    assert pipeline.statistics().stages[1].num_overdue == 1


@program
def a_straggler_in_an_executor_is_given_up_and_the_others_go_on() -> None:
    for kind in (ThreadPool, ProcessPool):
        executor: Any = kind(2)
        builder = source(range(20)).pipe(
            _takes_long_at_1, timeout=0.2, on_timeout="drop", executor=executor, concurrency=2, output_order="input"
        )
        pipeline = builder.add_sink(3).build(num_threads=1)
        assert drain(pipeline) == [x for x in range(20) if x != 1], kind
        (failed,) = pipeline.failures()
        assert failed.positions == (1,)
        executor.shutdown()


def _takes_long_at_1(x: int) -> int:
    if x == 1:
        sleep(_LONG)
    return x


class _Notes(TaskHook):
    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:
            self.notes.append(f"{input_item} {type(error).__name__}")
            raise


@program
def an_op_with_hooks_is_dropped_and_its_thread_replaced() -> None:
    notes: list[str] = []
    builder = source(range(5)).pipe(_takes_long_at_1, name="op", timeout=0.3, on_timeout="drop").add_sink(9)
    pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [_Notes(notes)])
    assert drain(pipeline) == [0, 2, 3, 4]
    assert notes == ["1 CancelledError"]
    assert [item.positions for item in pipeline.failures()] == [(1,)]


@program
def the_event_loop_goes_on_after_a_late_report_of_a_timeout() -> None:
    # With two items nothing else wakes the loop: the end of the source was seen before.
    for size in (2, 3):
        reported: list[object] = []

        async def op(x: int) -> int:
            if x == 0:
                await asyncio.sleep(_LONG)
            return x

        def report(failed: object, reported: list[object] = reported) -> None:
            # Meanwhile the op's task ends, and the loop finds no free slot.
            sleep(0.2)
            reported.append(failed)

        builder = source(range(size)).pipe(op, timeout=0.1, on_timeout="drop", on_failure=report)
        assert drain(builder.add_sink(3).build(num_threads=1)) == list(range(1, size))
        assert len(reported) == 1
