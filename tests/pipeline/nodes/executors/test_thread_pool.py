"""Test ops in a user's ThreadPoolExecutor."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.nodes.executors.straggler import drop_a_straggler
from tests.pipeline.support import run, source, wait_until

from spdl.pipeline import Pipeline, PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Counting(ThreadPoolExecutor):
    """An executor that counts the calls submitted to it."""

    submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.submitted += 1
        return super().submit(fn, *args, **kwargs)


def thread_name(_: int) -> str:
    return threading.current_thread().name


def steps(x: int) -> Iterator[tuple[int, str]]:
    for step in range(3):
        yield (10 * x + step, threading.current_thread().name)


def test_ops_run_in_its_threads_only() -> None:
    with ThreadPoolExecutor(2, thread_name_prefix="mine") as executor:
        names = run(source(range(50)).pipe(thread_name, executor=executor, concurrency=3))
        assert len(names) == 50
        assert {name.split("_")[0] for name in names} == {"mine"}
        # The executor is the caller's, and is not shut down.
        assert executor.submit(thread_name, 1).result().startswith("mine")


def test_generators_step_in_its_threads_only() -> None:
    with ThreadPoolExecutor(2, thread_name_prefix="mine") as executor:
        stage = source(range(10)).pipe(steps, executor=executor, concurrency=3, output_order="input")
        values, names = zip(*run(stage), strict=True)
    assert list(values) == [10 * x + step for x in range(10) for step in range(3)]
    assert {name.split("_")[0] for name in names} == {"mine"}


def test_one_call_waits_in_a_busy_executor() -> None:
    busy = threading.Event()
    with Counting(1) as executor:
        executor.submit(busy.wait, 20)
        pipeline = source(range(40)).pipe(str, executor=executor, concurrency=4).add_sink(40).build(num_threads=2)
        with pipeline.auto_stop():
            # As many items wait as there are places, and the workers are idle.
            assert wait_until(lambda: pipeline.statistics().stages[1].queue_size == 4 + 2)
            assert wait_until(lambda: len(pipeline._engine.workers.idle) == 3)
            assert executor.submitted == 2
            busy.set()
            assert sorted(pipeline.get_iterator(timeout=20)) == sorted(map(str, range(40)))


def test_no_op_waits_for_another() -> None:
    everyone = threading.Barrier(4)

    def meet(x: int) -> int:
        # The call returns only once four of them run.
        everyone.wait(timeout=20)
        return x

    with ThreadPoolExecutor(4) as executor:
        assert sorted(run(source(range(40)).pipe(meet, executor=executor, concurrency=4))) == list(range(40))


def test_no_item_waits_for_more_items() -> None:
    more = threading.Event()

    def slow_source() -> Iterator[int]:
        yield 0
        more.wait(timeout=20)
        yield 1

    with (
        ThreadPoolExecutor(1) as executor,
        source(slow_source()).pipe(str, executor=executor).add_sink(1).build(num_threads=1).auto_stop() as pipeline,
    ):
        assert pipeline.get_item(timeout=10) == "0"
        more.set()
        assert pipeline.get_item(timeout=10) == "1"


def test_others_in_the_same_executor_have_their_turn() -> None:
    """An endless stage must not keep other calls of the executor from running."""
    with ThreadPoolExecutor(1) as executor:
        pipeline = source([1], continuous=True).pipe(str, executor=executor).add_sink(1).build(num_threads=1)
        stopped = threading.Event()

        def read() -> None:
            while not stopped.is_set():
                list(pipeline)

        with pipeline.auto_stop():
            reader = threading.Thread(target=read)
            reader.start()
            try:
                assert [executor.submit(int, "7").result(timeout=20) for _ in range(5)] == [7] * 5
            finally:
                stopped.set()
                reader.join()


def test_stop_within_an_op_does_not_wait_for_that_op() -> None:
    pipelines: list[Pipeline[Any]] = []
    seconds = []

    def op(x: int) -> int:
        begin = time.monotonic()
        pipelines[0].stop()
        seconds.append(time.monotonic() - begin)
        return x

    with ThreadPoolExecutor(1) as executor:
        pipelines.append(source(range(9)).pipe(op, executor=executor).add_sink(1).build(num_threads=1))
        assert len(list(pipelines[0])) <= 1
        pipelines[0].stop()
    assert len(seconds) == 1
    assert seconds[0] < 5


def test_stop_does_not_wait_for_other_work_in_the_executor() -> None:
    busy = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        executor.submit(busy.wait, 20)
        pipeline = source(range(9)).pipe(str, executor=executor).add_sink(1).build(num_threads=1)
        try:
            with pipeline.auto_stop(timeout=5):
                assert wait_until(lambda: pipeline.statistics().stages[1].queue_size)
        finally:
            busy.set()


def test_an_op_that_takes_too_long_is_dropped_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(2) as executor:
        drop_a_straggler(executor)
    # The message shows where the op is.
    assert "release.wait" in caplog.text


def test_an_executor_that_was_closed_fails_the_pipeline() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    pipeline = source(range(10)).pipe(str, executor=executor).add_sink(1).build(num_threads=1)
    with pytest.raises(PipelineFailure) as caught:
        pipeline.get_item(timeout=10)
    assert "shutdown" in str(caught.value.exceptions[0])
    pipeline.stop()


def test_an_executor_that_is_closed_on_the_way_fails_the_pipeline() -> None:
    executor = ThreadPoolExecutor(1)
    busy = threading.Event()
    executor.submit(busy.wait, 20)
    pipeline = source(range(10)).pipe(str, executor=executor).add_sink(1).build(num_threads=1)
    pipeline.start()
    assert wait_until(lambda: executor._work_queue.qsize() > 0)
    executor.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(PipelineFailure) as caught:
        pipeline.get_item(timeout=10)
    assert "shut down" in str(caught.value.exceptions[0])
    busy.set()
    pipeline.stop()
    executor.shutdown()


def test_an_initializer_that_fails_fails_the_pipeline() -> None:
    def initializer() -> None:
        raise OSError("no such device")

    with ThreadPoolExecutor(1, initializer=initializer) as executor:
        pipeline = source(range(10)).pipe(str, executor=executor).add_sink(1).build(num_threads=1)
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        assert type(caught.value.exceptions[0]).__name__ == "BrokenThreadPool"
        pipeline.stop()


def test_epochs_pass_through() -> None:
    with ThreadPoolExecutor(2) as executor:
        stage = source([1, 2, 3], continuous=True).pipe(steps, executor=executor, concurrency=2).add_sink(3)
        with stage.build(num_threads=1).auto_stop() as pipeline:
            for _ in range(3):
                assert sorted(value for value, _ in pipeline) == [10, 11, 12, 20, 21, 22, 30, 31, 32]
