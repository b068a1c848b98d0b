"""What can be changed while a pipeline runs, and sources with a thread of their own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def source(items: Any, **kwargs: Any) -> PipelineBuilder[Any]:
    return PipelineBuilder[Any]().add_source(items, **kwargs)


def wait_until(condition: Callable[[], object], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


class TestSetConcurrency:
    def test_more_and_less(self) -> None:
        running = 0
        lock = threading.Lock()
        gates = [threading.Semaphore(0)]

        def op(x: int) -> int:
            nonlocal running
            with lock:
                running += 1
            gates[0].acquire()
            with lock:
                running -= 1
            return x

        pipeline = source(range(1000)).pipe(op, name="op").add_sink(1000).build(num_threads=1)
        with pipeline.auto_stop():
            assert wait_until(lambda: running == 1)
            pipeline.set_concurrency("op", 4)
            assert wait_until(lambda: running == 4)
            assert pipeline.statistics().stages[1].concurrency == 4
            pipeline.set_concurrency("op", 2)
            gates[0].release(2)
            assert wait_until(lambda: running == 2)
            gates[0].release(1)
            time.sleep(0.02)
            assert running == 2
            gates[0].release(2000)
            assert sorted(pipeline) == list(range(1000))

    def test_before_the_start_and_of_async_stages(self) -> None:
        most = running = 0

        async def op(x: int) -> int:
            nonlocal most, running
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            return x

        pipeline = source(range(100)).pipe(op, name="op").add_sink(10).build(num_threads=1)
        pipeline.set_concurrency("op", 7)
        with pipeline.auto_stop():
            assert sorted(pipeline) == list(range(100))
        assert most == 7

    @pytest.mark.parametrize(
        ("stage", "concurrency", "error", "message"),
        [
            ("missing", 2, ValueError, "0 stages are called 'missing'; the names are "),
            ("len", 2, ValueError, "2 stages are called 'len'"),
            ("one", 0, ValueError, "`concurrency` must be an int of at least 1"),
            ("one", "2", TypeError, "`concurrency` must be an int of at least 1"),
            ("disaggregate", 2, ValueError, "one item at a time by its nature"),
            ("aggregate(op=collate(2), drop_last=False)", 2, ValueError, "one item at a time by its nature"),
        ],
    )
    def test_mistakes(self, stage: str, concurrency: Any, error: type[Exception], message: str) -> None:
        builder = source([]).pipe(abs, name="one").pipe(len).pipe(len).aggregate(2).disaggregate()
        with pytest.raises(error, match=message.replace("(", r"\(")):
            builder.add_sink(1).build(num_threads=1).set_concurrency(stage, concurrency)


class TestDedicatedThread:
    def test_everything_happens_in_one_thread(self) -> None:
        seen: list[tuple[str, int]] = []

        class Source:
            def __iter__(self) -> Source:
                seen.append(("iter", threading.get_ident()))
                self.left = 200
                return self

            def __next__(self) -> int:
                seen.append(("next", threading.get_ident()))
                self.left -= 1
                return self.left

            def close(self) -> None:
                seen.append(("close", threading.get_ident()))

        builder = source(Source(), dedicated_thread=True).pipe(lambda x: x, concurrency=3)
        with builder.add_sink(2).build(num_threads=3).auto_stop() as pipeline:
            assert max(pipeline.get_item(timeout=10) for _ in range(50)) == 199
        assert len({ident for _, ident in seen}) == 1
        assert seen[0][0] == "iter"
        assert [name for name, _ in seen].count("close") == 1

    def test_a_cursor(self) -> None:
        def rows() -> Iterator[int]:
            with sqlite3.connect(":memory:") as connection:
                connection.execute("create table t (x)")
                connection.executemany("insert into t values (?)", [(x,) for x in range(300)])
                for (x,) in connection.execute("select x from t order by x"):
                    yield x
            connection.close()

        builder = source(rows(), dedicated_thread=True).pipe(lambda x: x, concurrency=2, output_order="input")
        with builder.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == list(range(300))

    @pytest.mark.parametrize("stages", [0, 1])
    def test_it_waits_for_room(self, stages: int) -> None:
        pulled = 0

        def items() -> Iterator[int]:
            nonlocal pulled
            for x in range(100):
                pulled += 1
                yield x

        builder = source(items(), dedicated_thread=True)
        for _ in range(stages):
            builder.pipe(lambda x: x)
        with builder.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
            assert pipeline.get_item(timeout=10) == 0
            time.sleep(0.03)
            assert pulled < 12
            assert list(pipeline.get_iterator(timeout=10)) == list(range(1, 100))

    def test_failures_and_epochs(self) -> None:
        def failing() -> Iterator[int]:
            yield 1
            raise OSError("gone")

        pipeline = source(failing(), dedicated_thread=True).add_sink(3).build(num_threads=1)
        pipeline.start()
        assert pipeline.get_item(timeout=10) == 1
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=10)
        pipeline.stop()
        builder = source([1, 2], dedicated_thread=True, continuous=True).pipe(lambda x: x)
        with builder.add_sink(3).build(num_threads=1).auto_stop() as pipeline:
            assert [list(pipeline.get_iterator(timeout=10)) for _ in range(3)] == [[1, 2]] * 3
