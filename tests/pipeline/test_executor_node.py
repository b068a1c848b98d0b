"""Ops on executors of the user's."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.support import run, source

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Iterator


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
