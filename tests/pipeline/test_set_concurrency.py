"""Limits that change while a pipeline runs."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.pipeline.support import source, wait_until


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
            ("missing", 2, ValueError, "got 'missing' .*0 stages are called so"),
            ("len", 2, ValueError, "got 'len' .*2 stages are called so"),
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
