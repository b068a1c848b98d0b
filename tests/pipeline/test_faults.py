"""Test faults in critical sections, in log handlers, in finalisers, and in the behaviour of libraries."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from tests.pipeline.support import FREE_THREADED, Gate, source

from spdl.pipeline import Pipeline, PipelineFailure
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def engine_of(pipeline: Pipeline[Any]) -> Any:
    return pipeline._engine


class TestMomentsOfAStop:
    def test_between_a_readers_look_and_its_wait(self) -> None:
        gate = threading.Event()
        pipeline = source([1]).pipe(lambda _: gate.wait(20)).add_sink(1).build(num_threads=1)
        engine = engine_of(pipeline)

        class Readers(list[Any]):
            def append(self, reader: Any) -> None:
                engine.request_stop()
                super().append(reader)

        engine.sink.readers = Readers()
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=10)
        gate.set()
        pipeline.stop()

    @pytest.mark.parametrize("where", ["deliver", "room"])
    def test_while_the_consumer_is_in_a_critical_section(self, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
        # Do what a signal handler in the consumer's thread may do at that moment.
        pipeline = source(range(100)).aggregate(2).add_sink(1).build(num_threads=1)
        engine = engine_of(pipeline)
        consumer = threading.get_ident()
        took: list[float] = []

        def interrupted(*arguments: Any) -> None:
            if threading.get_ident() == consumer:
                begin = time.monotonic()
                pipeline.stop(timeout=8)
                took.append(time.monotonic() - begin)
            original(*arguments)

        patched: Any = type(engine.lineage) if where == "deliver" else type(engine)
        name = "deliver" if where == "deliver" else "room_in_sink"
        original = getattr(engine.lineage if where == "deliver" else engine, name)
        if where == "deliver":
            monkeypatch.setattr(patched, name, lambda _, root: interrupted(root))
        else:
            monkeypatch.setattr(patched, name, lambda _: interrupted())
        for _ in pipeline.get_iterator(timeout=10):
            time.sleep(0.01)
            if took:
                break
        monkeypatch.undo()
        assert took
        assert took[0] < 7
        pipeline.stop()

    def test_with_ops_in_an_executor(self) -> None:
        ended: list[int] = []

        def op(x: int) -> int:
            time.sleep(0.05)
            ended.append(x)
            return x

        with ThreadPoolExecutor(2) as executor:
            pipeline = source(range(100)).pipe(op, executor=executor, concurrency=6).add_sink(1).build(num_threads=1)
            pipeline.start()
            assert pipeline.get_item(timeout=10) in {0, 1}
            pipeline.stop()
            count = len(ended)
            time.sleep(0.1)
            # `stop` waited for ops under way, and no other op began.
            assert len(ended) == count
        assert pipeline.statistics().stages[1].running == 0

    def test_an_op_in_an_executor_that_does_not_return(self) -> None:
        gate = Gate()
        with ThreadPoolExecutor(1) as executor:
            pipeline = source([1]).pipe(lambda _: gate.wait(20), executor=executor).add_sink(1).build(num_threads=1)
            pipeline.start()
            assert gate.is_awaited()
            with pytest.raises(TimeoutError):
                pipeline.get_item(timeout=0.05)
            with pytest.raises(TimeoutError, match=r"1 op\(s\) of the pipeline still run.*\nStage .*source item 0"):
                pipeline.stop(timeout=0.05)
            gate.set()
        pipeline.stop()

    def test_the_blocks_exception_is_not_hidden_by_a_straggler(self) -> None:
        gate = Gate()
        pipeline = source([1]).pipe(lambda _: gate.wait(20)).add_sink(1).build(num_threads=1)

        def block() -> None:
            with pipeline.auto_stop(timeout=0.05):
                assert gate.is_awaited()
                with pytest.raises(TimeoutError):
                    pipeline.get_item(timeout=0.05)
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine") as caught:
            block()
        assert caught.value.__notes__[0].startswith("The pipeline could not be stopped: 1 op(s)")
        gate.set()
        pipeline.stop()


class TestWhatLibrariesDo:
    def test_ops_that_have_every_attribute(self) -> None:
        with source([1, 2]).pipe(Mock(return_value=7)).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == [7, 7]

    def test_a_function_that_keeps_a_coroutine_function(self) -> None:
        class Op:
            async def func(self, x: int) -> int:
                return x

            def __call__(self, x: int) -> int:
                return x + 1

        with source([1, 2]).pipe(Op()).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == [2, 3]

    @pytest.mark.parametrize("awaitable", [True, False])
    def test_an_async_source_that_fails_to_close(self, *, awaitable: bool) -> None:
        class Source:
            def __init__(self) -> None:
                self.left = 2

            def __aiter__(self) -> Source:
                return self

            async def __anext__(self) -> int:
                if not self.left:
                    raise StopAsyncIteration
                self.left -= 1
                return self.left

            def aclose(self) -> Any:
                async def close() -> None:
                    raise OSError("cannot close")

                return close() if awaitable else None

        pipeline = source(Source()).add_sink(3).build(num_threads=1)
        pipeline.start()
        assert [pipeline.get_item(timeout=10) for _ in range(2)] == [1, 0]
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        assert isinstance(caught.value.exceptions[0], OSError if awaitable else TypeError)
        pipeline.stop()

    @pytest.mark.parametrize("kind", ["function", "ordered", "async", "generator"])
    def test_a_log_handler_that_raises(self, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
        class Broken(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                raise RuntimeError("the disk for the log is full")

        def fails(x: int) -> int:
            if x % 2:
                raise ValueError(x)
            return x

        async def fails_async(x: int) -> int:
            return fails(x)

        def generates(x: int) -> Iterator[int]:
            yield fails(x)

        op: Any = {"async": fails_async, "generator": generates}.get(kind, fails)
        order: Any = "input" if kind == "ordered" else "completion"
        handler = Broken()
        logger = logging.getLogger("spdl.pipeline")
        logger.addHandler(handler)
        try:
            builder = source(range(20)).pipe(op, concurrency=2, output_order=order)
            with builder.add_sink(3).build(num_threads=2).auto_stop() as pipeline:
                assert sorted(pipeline.get_iterator(timeout=10)) == list(range(0, 20, 2))
        finally:
            logger.removeHandler(handler)
        assert pipeline.statistics().stages[1].num_failed == 10
        assert "the disk for the log is full" in capsys.readouterr().err

    def test_a_callback_that_interrupts(self) -> None:
        def interrupt(_: Any) -> None:
            raise KeyboardInterrupt

        pipeline = source(range(10)).pipe(lambda x: 1 // x, on_failure=interrupt).add_sink(3).build(num_threads=1)
        pipeline.start()
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=10))
        assert isinstance(caught.value.exceptions[0].__cause__, KeyboardInterrupt)
        pipeline.stop()

    def test_a_cancellation_from_within_costs_one_item(self) -> None:
        async def op(x: int) -> int:
            if x == 1:
                raise asyncio.CancelledError
            return x

        with source(range(4)).pipe(op).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == [0, 2, 3]
        assert "cancelled from within" in pipeline.failures()[0].error

    def test_a_failure_beside_an_async_source_that_waits(self) -> None:
        async def items() -> AsyncIterator[int]:
            yield 1
            await asyncio.sleep(30)

        def op(_: int) -> int:
            raise KeyboardInterrupt

        pipeline = source(items()).pipe(op).add_sink(1).build(num_threads=1)
        pipeline.start()
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        pipeline.stop()
        assert len(caught.value.exceptions) == 1
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        assert len(caught.value.exceptions) == 1


class Item:
    """An item that checks at its end whether its thread holds the engine's lock."""

    engine: Any
    stuck: list[int]

    def __init__(self, number: int) -> None:
        self.number = number
        self.thread = threading.get_ident()

    def __del__(self) -> None:
        if FREE_THREADED and threading.get_ident() == self.thread:
            # If another thread dropped the item, its own thread frees it at any moment, as the collector does.
            return
        # Taking the lock would prove nothing, since it is reentrant.
        if self.engine.holds_lock():
            self.stuck.append(self.number)


class TestFinalisers:
    @pytest.mark.skipif(FREE_THREADED, reason="the thread that made an item lets go of it when it comes to it")
    def test_an_item_that_was_replaced_is_gone_at_the_next_stage(self) -> None:
        class Item:
            def __init__(self, number: int) -> None:
                self.number = number
                references.append(weakref.ref(self))

        references: list[weakref.ref[Item]] = []

        def is_alive(number: int) -> bool:
            return references[number]() is not None

        builder = source(map(Item, range(20))).pipe(lambda item: item.number).pipe(is_alive)
        with builder.add_sink(30).build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == [False] * 20

    @pytest.mark.parametrize(
        "arguments", [{}, {"output_order": "input"}, {"retries": 1, "retry_delay": 0}, {"timeout": 20}]
    )
    @pytest.mark.parametrize("kind", ["function", "coroutine", "generator", "async generator", "executor"])
    def test_none_runs_under_the_lock(self, kind: str, arguments: dict[str, Any]) -> None:
        if FREE_THREADED and "retries" in arguments:
            pytest.skip("the timer's thread drops what another one made, and that one lets go of it at any moment")
        Item.stuck = []

        def op(item: Item) -> int:
            kept_by_the_frame = Item(100 + item.number)
            if item.number % 2:
                raise ValueError(kept_by_the_frame.number)
            return item.number

        async def coroutine(item: Item) -> int:
            await asyncio.sleep(0)
            return op(item)

        def generator(item: Item) -> Iterator[int]:
            yield op(item)

        async def async_generator(item: Item) -> AsyncIterator[int]:
            yield op(item)

        ops = {"coroutine": coroutine, "generator": generator, "async generator": async_generator}
        # A log record kept by pytest would keep the frames.
        logger = logging.getLogger("spdl.pipeline")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            with ThreadPoolExecutor(1) as executor:
                builder = source(map(Item, range(12)))
                builder.pipe(ops.get(kind, op), executor=executor if kind == "executor" else None, **arguments)
                pipeline = builder.add_sink(30).build(num_threads=1)
                Item.engine = engine_of(pipeline)
                with pipeline.auto_stop():
                    assert sorted(pipeline.get_iterator(timeout=10)) == list(range(0, 12, 2))
            gc.collect()
        finally:
            logger.setLevel(level)
        assert Item.stuck == []

    def test_none_of_an_aggregators_runs_under_the_lock(self) -> None:
        Item.stuck = []

        class Numbers(Aggregator[Item, int]):
            def accumulate(self, item: Item, /) -> int:
                return item.number

            def flush(self) -> None:
                return

        pipeline = source(map(Item, range(12))).aggregate(Numbers()).add_sink(30).build(num_threads=1)
        Item.engine = engine_of(pipeline)
        with pipeline.auto_stop():
            assert list(pipeline.get_iterator(timeout=10)) == list(range(12))
        assert Item.stuck == []


class TestTheRest:
    def test_concurrency_is_shown_as_it_was_after_a_failure(self) -> None:
        def op(_: int) -> int:
            raise SystemExit

        pipeline = source(range(10)).pipe(op, concurrency=4).add_sink(1).build(num_threads=2)
        pipeline.start()
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=10)
        pipeline.stop()
        assert pipeline.statistics().stages[1].concurrency == 4

    def test_an_infinite_timeout(self) -> None:
        with source([1]).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
            assert pipeline.get_item(timeout=float("inf")) == 1

    def test_names_are_strings(self) -> None:
        with pytest.raises(TypeError, match="`name` must be a str, got 3"):
            source([]).pipe(len, name=3)  # type: ignore[arg-type]

    def test_an_epoch_of_which_every_item_failed(self) -> None:
        passes = 0

        class Source:
            def __iter__(self) -> Iterator[int]:
                nonlocal passes
                passes += 1
                return iter([passes] * 3)

        def op(x: int) -> int:
            if x == 2:
                raise ValueError("the second pass")
            return x

        pipeline = source(Source(), continuous=True).pipe(op, name="op").add_sink(3).build(num_threads=1)
        pipeline.start()
        assert list(pipeline.get_iterator(timeout=10)) == [1, 1, 1]
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=10))
        assert "all 3 items failed, the last one in stage 'op'" in str(caught.value.exceptions[0])
        pipeline.stop()

    def test_a_forked_child_gets_nothing_that_the_parent_delivers(self) -> None:
        program = """
            import os, time
            from spdl.pipeline import PipelineBuilder
            pipeline = PipelineBuilder().add_source(range(10)).add_sink(5).build(num_threads=1)
            pipeline.start()
            while pipeline.statistics().stages[-1].queue_size < 5:
                time.sleep(0.001)
            pipeline._engine.lock.acquire()  # As another thread might hold it at this moment.
            pid = os.fork()
            if pid:
                pipeline._engine.lock.release()
                os.waitpid(pid, 0)
                print(sum(pipeline))
            else:
                try:
                    next(iter(pipeline))
                except RuntimeError as error:
                    print("forked" in str(error), flush=True)
                os._exit(0)
        """
        command = [sys.executable, "-c", textwrap.dedent(program)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
        assert (done.stdout, done.returncode) == ("True\n45\n", 0), done.stderr
