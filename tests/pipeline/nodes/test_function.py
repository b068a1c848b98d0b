"""Test stages whose op is a function or a generator function."""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from inspect import GEN_CLOSED, getgeneratorstate
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import run, source, twice, twice_async

from spdl.pipeline import PipelineFailure
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
        all_in = threading.Barrier(3, timeout=20)
        calls = itertools.count()

        def op(x: int) -> int:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
                first = next(calls) < 3
            # Two threads could do all of it while the third one gets no core.
            if first:
                all_in.wait()
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
        # The first 10 failures are logged in full, and then the 16th, the 32nd, ... and the 512th.
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

        blocked = threading.Event()

        def items() -> Iterator[int]:
            # While an op takes all threads, a worker is woken only for a source whose pulls take long.
            time.sleep(0.01)
            yield 1
            blocked.set()
            gate.wait(30)

        def op(x: int) -> int:
            assert blocked.wait(10)
            raise KeyboardInterrupt

        pipeline = source(items()).pipe(op).add_sink(1).build(num_threads=1)
        pipeline.start()
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=10)
        gate.set()
        pipeline.stop()


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

        # If the only thread stayed in the generator, the second stage would never run.
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
        assert closed.wait(20)


@pytest.mark.parametrize("kind", ["workers", "threads", "any executor"])
def test_generators_are_closed_by_the_time_stop_returns(kind: str) -> None:
    """Whoever else refers to them: without a GIL, that may be a thread that made one and is asleep."""
    made: list[Iterator[int]] = []

    def each(x: int) -> Iterator[int]:
        yield x
        yield x

    def op(x: int) -> Iterator[int]:
        made.append(each(x))
        return made[-1]

    class Plain(Executor):
        """An executor of which nothing is known."""

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            return pool.submit(fn, *args, **kwargs)

    with ThreadPoolExecutor(2) as pool:
        executor = {"workers": None, "threads": pool, "any executor": Plain()}[kind]
        pipeline = source(range(100)).pipe(op, executor=executor, concurrency=3).add_sink(1).build(num_threads=2)
        with pipeline.auto_stop():
            assert pipeline.get_item(timeout=20) in (0, 1, 2)
        assert {getgeneratorstate(generator) for generator in made} == {GEN_CLOSED}  # type: ignore[arg-type]


def test_what_a_generator_raises_when_it_is_closed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def op(x: int) -> Iterator[int]:
        try:
            while True:
                yield x
        finally:
            raise OSError("no such host")

    with source(range(1)).pipe(op).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
        assert pipeline.get_item(timeout=20) == 0
    (record,) = caplog.records
    assert record.getMessage().endswith("<locals>.op raised when it was closed: OSError: no such host")
