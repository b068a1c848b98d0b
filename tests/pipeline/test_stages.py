"""Every kind of stage through the public face: what it makes of items, of failures and of the end."""

from __future__ import annotations

import asyncio
import functools
import logging
import multiprocessing
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def run(builder: PipelineBuilder[Any], *, num_threads: int = 4, sink: int = 3) -> list[Any]:
    with builder.add_sink(sink).build(num_threads=num_threads).auto_stop() as pipeline:
        return list(pipeline.get_iterator(timeout=20))


def source(items: Any) -> PipelineBuilder[Any]:
    return PipelineBuilder[Any]().add_source(items)


def twice(x: int) -> Iterator[int]:
    yield x
    yield x + 100


async def twice_async(x: int) -> AsyncIterator[int]:
    yield x
    await asyncio.sleep(0)
    yield x + 100


def slow_first(x: int) -> int:
    time.sleep(0.05 if x == 0 else 0)
    return x


class TestFunctions:
    def test_none_drops_the_item_but_a_sources_none_is_an_item(self) -> None:
        assert run(source([None, 1, None]).pipe(repr)) == ["None", "1", "None"]
        assert run(source(range(6)).pipe(lambda x: x if x % 2 else None)) == [1, 3, 5]

    def test_falsy_results_are_results(self) -> None:
        assert run(source(range(3)).pipe(lambda x: [0, "", False][x])) == [0, "", False]

    def test_subscripts(self) -> None:
        assert run(source(["a", "b", "missing"]).pipe({"a": 1, "b": 2})) == [1, 2]
        assert run(source([2, 0]).pipe([5, 6, 7])) == [7, 5]

    def test_no_stage_at_all(self) -> None:
        assert run(source(range(100)), sink=1) == list(range(100))

    def test_concurrency_is_reached_and_not_exceeded(self) -> None:
        running, most = 0, 0
        lock = threading.Lock()
        all_in = threading.Barrier(3, timeout=10)

        def op(x: int) -> int:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            if x < 3:
                all_in.wait()
            time.sleep(0.001)
            with lock:
                running -= 1
            return x

        assert sorted(run(source(range(50)).pipe(op, concurrency=3), num_threads=8)) == list(range(50))
        assert most == 3

    def test_num_threads_bounds_all_stages_together(self) -> None:
        running, most = 0, 0
        lock = threading.Lock()

        def op(x: int) -> int:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.001)
            with lock:
                running -= 1
            return x

        builder = source(range(60)).pipe(op, concurrency=4).pipe(op, concurrency=4)
        assert sorted(run(builder, num_threads=3)) == list(range(60))
        assert most == 3

    def test_ops_run_beside_a_source_that_blocks(self) -> None:
        gate = threading.Event()

        def items() -> Iterator[int]:
            yield 1
            assert gate.wait(10), "the op on item 1 did not run while the source was blocked"
            yield 2

        def op(x: int) -> int:
            gate.set()
            return x

        assert run(source(items()).pipe(op), num_threads=1) == [1, 2]

    def test_source_calls_never_overlap(self) -> None:
        inside = threading.Lock()

        class Source:
            def __init__(self) -> None:
                self.position = 0

            def __iter__(self) -> Source:
                return self

            def __next__(self) -> int:
                assert inside.acquire(blocking=False), "two threads were in next() at once"
                time.sleep(0.0005)
                self.position += 1
                inside.release()
                if self.position > 100:
                    raise StopIteration
                return self.position

        assert sorted(run(source(Source()).pipe(lambda x: x, concurrency=4))) == list(range(1, 101))


class TestFailures:
    def test_a_failed_item_is_dropped_logged_and_counted(self, caplog: pytest.LogCaptureFixture) -> None:
        def op(x: int) -> int:
            if x == 3:
                raise ValueError("three")
            return x

        pipeline = source(range(6)).pipe(op, name="picky").add_sink(1).build(num_threads=1)
        with caplog.at_level(logging.ERROR, "spdl.pipeline"), pipeline.auto_stop():
            assert list(pipeline) == [0, 1, 2, 4, 5]
        (record,) = caplog.records
        assert "'picky' failed on source item 3" in record.getMessage()
        assert record.exc_info is not None
        assert record.exc_info[0] is ValueError
        stage = pipeline.statistics().stages[1]
        assert (stage.num_completed, stage.num_failed, stage.num_emitted) == (5, 1, 5)

    def test_a_stage_that_always_fails_does_not_drown_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR, "spdl.pipeline"):
            assert run(source(range(1001)).pipe(lambda x: 1 // (x // 1000))) == [1]
        # The first 10 in full, then at 16, 32, ... 512.
        assert len(caplog.records) == 10 + 6
        assert "has now failed on 512 items" in caplog.records[-1].getMessage()

    def test_batches_name_all_their_items(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR, "spdl.pipeline"):
            assert run(source(range(13)).aggregate(6).aggregate(2).pipe(lambda x: 1 // (2 - len(x)))) == [1]
        assert "source items 0, 1, 2, 3, 4, 5, 6, 7 and 4 more" in caplog.records[0].getMessage()

    @pytest.mark.parametrize("order", ["completion", "input"])
    def test_a_generator_that_fails_keeps_its_earlier_results(self, order: Any) -> None:
        def op(x: int) -> Iterator[int]:
            yield x
            if x == 1:
                raise ValueError("one")
            yield x + 10

        assert run(source(range(3)).pipe(op, output_order=order)) == [0, 10, 1, 2, 12]

    def test_an_aggregator_that_fails_fails_the_pipeline(self) -> None:
        class Broken(Aggregator[int, int]):
            def accumulate(self, item: int) -> int | None:
                if item == 3:
                    raise ValueError("three")
                return item

            def flush(self) -> int | None:
                return None

        pipeline = source(range(100)).aggregate(Broken()).add_sink(100).build(num_threads=2)
        with pytest.raises(PipelineFailure) as caught, pipeline.auto_stop():
            list(pipeline.get_iterator(timeout=10))
        assert isinstance(caught.value.exceptions[0], ValueError)
        assert caught.value.exceptions[0].__notes__[0].endswith(", source item 3")

    def test_a_failure_ends_the_pipeline_though_the_source_blocks(self) -> None:
        gate = threading.Event()

        def items() -> Iterator[int]:
            yield 1
            gate.wait(30)

        def op(x: int) -> int:
            raise KeyboardInterrupt

        pipeline = source(items()).pipe(op).add_sink(1).build(num_threads=1)
        pipeline.start()
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=10)
        gate.set()
        pipeline.stop()


class TestOrder:
    @pytest.mark.parametrize("concurrency", [1, 2, 5])
    def test_input_order_is_kept(self, concurrency: int) -> None:
        builder = source(range(40)).pipe(slow_first, concurrency=concurrency, output_order="input")
        assert run(builder, num_threads=5) == list(range(40))

    def test_completion_order_lets_fast_items_pass(self) -> None:
        assert run(source(range(10)).pipe(slow_first, concurrency=2))[-1] != 9

    def test_drops_and_failures_leave_no_gap(self) -> None:
        def op(x: int) -> int | None:
            slow_first(x)
            if x % 3 == 1:
                raise ValueError(x)
            return x if x % 3 else None

        assert run(source(range(20)).pipe(op, concurrency=4, output_order="input")) == [
            x for x in range(20) if x % 3 == 2
        ]

    @pytest.mark.parametrize("op", [twice, twice_async, functools.partial(twice), lambda x: twice_async(x + 0)])
    def test_generators_in_input_order(self, op: Callable[[int], Any]) -> None:
        expected = [y for x in range(20) for y in (x, x + 100)]
        assert run(source(range(20)).pipe(op, concurrency=3, output_order="input")) == expected

    def test_a_slow_item_holds_back_no_more_than_said(self) -> None:
        gate = threading.Event()
        started: list[int] = []

        def op(x: int) -> int:
            started.append(x)
            if x == 0:
                gate.wait(10)
            return x

        builder = source(range(100)).pipe(op, concurrency=4, output_order="input").add_sink(100)
        pipeline = builder.build(num_threads=4)
        with pipeline.auto_stop():
            deadline = time.monotonic() + 5
            while pipeline.statistics().stages[1].held_seconds == 0 and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.02)
            assert len(started) == 4 + 2
            gate.set()
            assert list(pipeline) == list(range(100))
        assert pipeline.statistics().stages[1].held_seconds > 0.01


class TestGenerators:
    @pytest.mark.parametrize("op", [twice, twice_async, functools.partial(twice), lambda x: twice_async(x + 0)])
    def test_results_are_passed_on_one_by_one(self, op: Callable[[int], Any]) -> None:
        got = run(source(range(20)).pipe(op, concurrency=3))
        assert sorted(got) == sorted(y for x in range(20) for y in (x, x + 100))

    def test_an_endless_generator_is_paused_when_nobody_reads(self) -> None:
        produced = 0

        def op(_: int) -> Iterator[int]:
            nonlocal produced
            while True:
                produced += 1
                yield produced

        pipeline = source([0]).pipe(op).pipe(lambda x: x).add_sink(2).build(num_threads=2)
        with pipeline.auto_stop():
            assert [pipeline.get_item(timeout=10) for _ in range(5)] == [1, 2, 3, 4, 5]
            time.sleep(0.05)
            assert produced < 20

    def test_a_paused_generator_frees_its_worker(self) -> None:
        def endless(_: int) -> Iterator[int]:
            while True:
                yield 1

        # One thread: were it stuck in the generator, the second stage would never run.
        pipeline = source([0]).pipe(endless).pipe(lambda x: x + 1).add_sink(1).build(num_threads=1)
        with pipeline.auto_stop():
            assert [pipeline.get_item(timeout=10) for _ in range(50)] == [2] * 50

    def test_none_results_are_dropped(self) -> None:
        def op(x: int) -> Iterator[int | None]:
            yield None
            yield x
            yield None

        assert run(source(range(3)).pipe(op)) == [0, 1, 2]

    def test_generators_are_closed_when_the_pipeline_stops(self) -> None:
        closed = threading.Event()

        def op(_: int) -> Iterator[int]:
            try:
                while True:
                    yield 1
            finally:
                closed.set()

        with source([0]).pipe(op).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
            assert pipeline.get_item(timeout=10) == 1
        assert closed.wait(5)


class TestAggregates:
    @pytest.mark.parametrize(
        ("drop_last", "expected"), [(False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])]
    )
    def test_batches(self, *, drop_last: bool, expected: list[list[int]]) -> None:
        assert run(source(range(7)).aggregate(3, drop_last=drop_last), num_threads=1) == expected

    def test_what_was_dropped_is_no_longer_in_flight(self) -> None:
        pipeline = source(range(7)).aggregate(3, drop_last=True).add_sink(3).build(num_threads=1)
        with pipeline.auto_stop():
            assert len(list(pipeline)) == 2
        assert pipeline.statistics().in_flight == 0

    def test_disaggregate(self) -> None:
        assert run(source(["ab", [1, None, 2], (), 5, {"k": 0}]).disaggregate()) == ["a", "b", 1, 2, "k"]

    def test_a_users_aggregator_decides(self) -> None:
        class UpTo(Aggregator[int, list[int]]):
            """Gathers until the sum reaches 10."""

            def __init__(self) -> None:
                self.held: list[int] = []

            def accumulate(self, item: int) -> list[int] | None:
                self.held.append(item)
                return self.flush() if sum(self.held) >= 10 else None

            def flush(self) -> list[int] | None:
                held, self.held = self.held, []
                return held or None

        assert run(source([5, 5, 11, 1, 2]).aggregate(UpTo())) == [[5, 5], [11], [1, 2]]
        assert run(source([5, 5, 1]).aggregate(UpTo(), drop_last=True)) == [[5, 5]]

    def test_an_aggregator_is_called_from_one_thread_at_a_time(self) -> None:
        inside = threading.Lock()

        class Exclusive(Aggregator[int, int]):
            def accumulate(self, item: int) -> int:
                assert inside.acquire(blocking=False)
                time.sleep(0.0005)
                inside.release()
                return item

            def flush(self) -> None:
                return None

        builder = source(range(100)).pipe(lambda x: x, concurrency=4).aggregate(Exclusive())
        assert sorted(run(builder)) == list(range(100))


class TestAsync:
    def test_concurrency_is_reached_and_not_exceeded(self) -> None:
        running, most = 0, 0

        async def op(x: int) -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.002)
            running -= 1
            return x

        assert sorted(run(source(range(100)).pipe(op, concurrency=16))) == list(range(100))
        assert most == 16

    def test_they_share_one_thread_that_nobody_else_starts(self) -> None:
        names = set()

        async def op(x: int) -> int:
            names.add(threading.current_thread().name)
            return x

        assert run(source(range(10)).pipe(op).pipe(op)) == list(range(10))
        assert len(names) == 1
        before = threading.active_count()
        pipeline = source(range(10)).pipe(lambda x: x).add_sink(1).build(num_threads=1)
        with pipeline.auto_stop():
            assert pipeline.get_item() == 0
            assert threading.active_count() <= before + 2

    def test_failures_and_drops(self) -> None:
        async def op(x: int) -> int | None:
            await asyncio.sleep(0)
            if x == 1:
                raise ValueError(x)
            return x if x != 2 else None

        assert run(source(range(5)).pipe(op)) == [0, 3, 4]

    def test_callable_objects(self) -> None:
        class Op:
            async def __call__(self, x: int) -> int:
                return x + 1

        assert run(source(range(3)).pipe(Op())) == [1, 2, 3]

    def test_stop_cancels_what_is_under_way(self) -> None:
        cancelled = threading.Event()

        async def op(x: int) -> int:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return x

        pipeline = source(range(5)).pipe(op).add_sink(1).build(num_threads=1)
        with pipeline.auto_stop(), pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0.05)
        assert cancelled.is_set()

    def test_async_sources(self) -> None:
        closed = []

        async def items() -> AsyncIterator[int]:
            try:
                for i in range(50):
                    await asyncio.sleep(0)
                    yield i
            finally:
                closed.append(True)

        assert run(source(items()).pipe(lambda x: x + 1)) == list(range(1, 51))
        assert run(source(items()), sink=1) == list(range(50))
        assert len(closed) == 2
        with source(items()).pipe(lambda x: x).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
            assert pipeline.get_item() == 0
        assert len(closed) == 3

    def test_a_failed_async_source_fails_the_pipeline(self) -> None:
        async def items() -> AsyncIterator[int]:
            yield 1
            raise OSError("no network")

        pipeline = source(items()).add_sink(5).build(num_threads=1)
        pipeline.start()
        assert pipeline.get_item(timeout=10) == 1
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        assert isinstance(caught.value.exceptions[0], OSError)
        pipeline.stop()


def square(x: int) -> int:
    if x == 3:
        raise ValueError("three")
    return x * x


def upto(x: int) -> Iterator[int]:
    yield from range(x)


def die(x: int) -> int:
    os._exit(1)


class TestExecutors:
    def test_threads_of_the_users(self) -> None:
        names = set()

        def op(x: int) -> int:
            names.add(threading.current_thread().name)
            return x

        with ThreadPoolExecutor(2, thread_name_prefix="mine") as executor:
            assert sorted(run(source(range(50)).pipe(op, executor=executor, concurrency=3))) == list(range(50))
            assert run(source(range(50)).pipe(op, executor=executor, concurrency=3, output_order="input")) == list(
                range(50)
            )
            assert executor.submit(op, 1).result() == 1
        assert all(name.startswith("mine") for name in names)

    @pytest.mark.timeout(120)
    def test_processes(self, caplog: pytest.LogCaptureFixture) -> None:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
            builder = source(range(6)).pipe(square, executor=executor, concurrency=2, output_order="input")
            assert run(builder) == [0, 1, 4, 16, 25]
            assert "three" in caplog.text
            assert run(source(range(4)).pipe(upto, executor=executor, output_order="input")) == [0, 0, 1, 0, 1, 2]

    @pytest.mark.timeout(120)
    def test_a_broken_executor_fails_the_pipeline(self) -> None:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
            pipeline = source(range(10)).pipe(die, executor=executor).add_sink(1).build(num_threads=1)
            pipeline.start()
            with pytest.raises(PipelineFailure, match="pipeline stages failed"):
                pipeline.get_item(timeout=60)
            pipeline.stop()

    def test_a_closed_executor_fails_the_pipeline(self) -> None:
        executor = ThreadPoolExecutor(1)
        executor.shutdown()
        pipeline = source(range(10)).pipe(square, executor=executor).add_sink(1).build(num_threads=1)
        pipeline.start()
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        assert "shutdown" in str(caught.value.exceptions[0])
        pipeline.stop()


def test_nobody_is_overtaken_by_more_than_what_is_in_flight() -> None:
    def op(seconds: float) -> Callable[[int], int]:
        def sleep(x: int) -> int:
            time.sleep(seconds)
            return x

        return sleep

    builder = source(range(400)).pipe(op(0.001), concurrency=8).pipe(op(0.0005)).pipe(op(0.002), concurrency=8)
    got = run(builder, num_threads=8, sink=100)
    assert sorted(got) == list(range(400))
    # 8 + 1 + 8 slots and two queues of 2 between them.
    assert max(place - item for place, item in enumerate(got)) <= 8 + 1 + 8 + 4
