"""Test stages of a pipeline that share a priority pool."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.delays import tolerates_delays
from tests.pipeline.support import run, source, twice, wait_until

from spdl.pipeline import (
    PipelineBuilder,
    PipelineFailure,
    PriorityProcessPoolExecutor,
    PriorityThreadPoolExecutor,
)
from spdl.pipeline._nodes.executors import thread_pool

if TYPE_CHECKING:
    from collections.abc import Iterator

Pool = PriorityThreadPoolExecutor | PriorityProcessPoolExecutor
Trace = list[tuple[float, str, int]]

BOTH = pytest.mark.parametrize("kind", [PriorityThreadPoolExecutor, PriorityProcessPoolExecutor])


def early(item: int) -> Trace:
    time.sleep(0.003)
    return [(time.monotonic(), "early", item)]


def late(trace: Trace) -> Trace:
    time.sleep(0.003)
    return [*trace, (time.monotonic(), "late", trace[0][2])]


def trace_two_stages(pool: Pool, first: float | None, second: float | None) -> list[str]:
    """Return the stages of all ops in the order in which these ended."""
    stages = source(range(60)).pipe(early, executor=pool.get_executor(priority=first), concurrency=8)
    stages.pipe(late, executor=pool.get_executor(priority=second), concurrency=8)
    entries = sorted(itertools.chain.from_iterable(run(stages, num_threads=2, sink=100)))
    assert len(entries) == 120
    return [stage for _, stage, _ in entries]


def most_ahead(stages: list[str]) -> int:
    """Return the largest number of items that were between the two stages at once."""
    return max(itertools.accumulate(1 if stage == "early" else -1 for stage in stages))


@BOTH
@tolerates_delays
def test_finished_work_leaves_before_new_work_is_begun(kind: type[Pool]) -> None:
    with kind(1) as pool:
        downstream_first = most_ahead(trace_two_stages(pool, None, None))
        upstream_first = most_ahead(trace_two_stages(pool, 2, 1))
    # Before a thread takes its next call, the next stage submits one for the result of its op. A process begins its
    # next op of the first stage before its last result has reached the second.
    assert downstream_first <= (1 if kind is PriorityThreadPoolExecutor else 3)
    # If the upstream stage is more urgent, all room between the stages is filled first.
    assert upstream_first >= 8


@pytest.mark.parametrize(("threads", "concurrency"), [(1, 1), (2, 2), (2, 8)])
@tolerates_delays
def test_a_pool_of_threads_is_shared_by_pipelines(threads: int, concurrency: int) -> None:
    """Urgent calls of one pipeline go before less urgent ones of another."""
    with PriorityThreadPoolExecutor(threads) as pool:
        patient, urgent = pool.get_executor(), pool.get_executor()
        ended: list[str] = []
        everybody = threading.Barrier(threads)
        both_wait = threading.Event()

        def op(name: str) -> str:
            assert both_wait.wait(20)
            time.sleep(0.005)
            # Free all threads at the same time: none may begin a patient call before an urgent one is there.
            with contextlib.suppress(threading.BrokenBarrierError):
                everybody.wait(1)
            ended.append(name)
            return name

        names = [("patient", patient), ("urgent", urgent)]
        pipelines = [
            source([name] * 100).pipe(op, executor=executor, concurrency=concurrency).add_sink(100).build(num_threads=1)
            for name, executor in names
        ]
        with pipelines[0].auto_stop(), pipelines[1].auto_stop():
            try:
                # The threads begin with the patient pipeline, which is started first.
                assert wait_until(lambda: pipelines[1].statistics().stages[1].queue_size)
            finally:
                both_wait.set()
            assert [len(list(pipeline.get_iterator(timeout=20))) for pipeline in pipelines] == [100, 100]
    assert ended[:100].count("patient") < 15


@BOTH
@pytest.mark.parametrize("output_order", ["input", "completion"])
def test_generators_and_orders(kind: type[Pool], output_order: Any) -> None:
    with kind(2) as pool:
        stages = source(range(30)).pipe(twice, executor=pool.get_executor(), concurrency=3, output_order=output_order)
        stages.pipe(str, executor=pool.get_executor(), concurrency=3, output_order=output_order)
        results = run(stages)
    expected = [str(x + step) for x in range(30) for step in (0, 100)]
    assert (results if output_order == "input" else sorted(results)) == (
        expected if output_order == "input" else sorted(expected)
    )


def test_generators_step_in_the_pools_threads() -> None:
    def steps(_: int) -> Iterator[str]:
        for _ in range(3):
            yield threading.current_thread().name

    with PriorityThreadPoolExecutor(2, "mine") as pool:
        names = run(source(range(10)).pipe(steps, executor=pool.get_executor(), concurrency=3))
    assert len(names) == 30
    assert {name.split("_")[0] for name in names} == {"mine"}


@tolerates_delays
def test_short_ops_share_a_call() -> None:
    """One call for each op would be most of the work."""
    with PriorityThreadPoolExecutor(2) as pool:
        executor = pool.get_executor()
        calls = 0
        submit = executor.submit

        def counting(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            return submit(*args)

        executor.submit = counting  # type: ignore[method-assign, assignment]
        assert len(run(source(range(2000)).pipe(str, executor=executor, concurrency=4))) == 2000
    assert 0 < calls < 1500


def sleep_and_return(item: int) -> int:
    time.sleep(0.002)
    return item


def count_waiting_calls(executor: Any) -> list[int]:
    """Return a list that gets, at each submission, the number of calls that were submitted and not begun."""
    waiting = 0
    lock = threading.Lock()
    counts: list[int] = []
    submit = executor.submit

    def counting(call: Any, *args: Any) -> Any:
        nonlocal waiting
        with lock:
            waiting += 1
            counts.append(waiting)
        return submit(begin, call, *args)

    def begin(call: Any, *args: Any) -> Any:
        nonlocal waiting
        with lock:
            waiting -= 1
        return call(*args)

    executor.submit = counting
    return counts


def test_few_calls_wait() -> None:
    """At most one call waits for each thread, since all may become free at once, and one for a worker's submission."""
    with PriorityThreadPoolExecutor(3) as pool:
        counts = count_waiting_calls(executor := pool.get_executor())
        stages = source(range(200)).pipe(sleep_and_return, executor=executor, concurrency=16)
        assert len(run(stages, sink=200)) == 200
    assert max(counts) <= 3 + 1


@pytest.mark.parametrize(("concurrency", "pause"), [(2, 0.0), (16, 0.002)])
@tolerates_delays
def test_calls_are_not_submitted_for_nothing(concurrency: int, pause: float) -> None:
    """No call is submitted while all slots are taken, or while there is no room for results."""
    with PriorityThreadPoolExecutor(8) as pool:
        counts = count_waiting_calls(executor := pool.get_executor())
        stages = source(range(100)).pipe(sleep_and_return, executor=executor, concurrency=concurrency)
        with stages.add_sink(3).build(num_threads=2).auto_stop() as pipeline:
            for _ in pipeline:
                time.sleep(pause)
    assert 100 <= len(counts) < 150


def test_what_is_left_in_the_pool_may_be_cancelled_when_all_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    # Make the thread go on to the last item, although another call was submitted.
    monkeypatch.setattr(thread_pool, "_TURN_SECONDS", 20)
    with PriorityThreadPoolExecutor(1) as pool:
        executor, urgent = pool.get_executor(priority=1), pool.get_executor(priority=2)
        counts = count_waiting_calls(executor)
        resume = threading.Event()

        def op(item: int) -> int:
            if item == 0:
                assert wait_until(lambda: len(counts) == 2)
            else:
                urgent.submit(resume.wait, 20)
            return item

        stages = source([0, 1]).pipe(op, executor=executor, concurrency=2)
        with stages.add_sink(2).build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 1]
            pool.shutdown(wait=False, cancel_futures=True)
        assert counts == [1, 1]
        resume.set()


def test_a_thread_that_cannot_be_started_fails_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    with PriorityThreadPoolExecutor(2) as pool:
        submit = ThreadPoolExecutor.submit
        calls = itertools.count(1)

        def refusing(*args: Any) -> Any:
            if next(calls) == 3:
                raise RuntimeError("can't start new thread")
            return submit(*args)

        monkeypatch.setattr(ThreadPoolExecutor, "submit", refusing)
        stages = source(range(20)).pipe(sleep_and_return, executor=pool.get_executor(), concurrency=4)
        with pytest.raises(PipelineFailure) as failure:
            run(stages)
        assert [str(error) for error in failure.value.exceptions] == ["can't start new thread"]


def test_processes_are_started_before_threads() -> None:
    """A fork beside threads would copy their locks in any state."""
    with PriorityProcessPoolExecutor(2) as pool:
        pipeline = source(range(3)).pipe(abs, executor=pool.get_executor()).add_sink().build(num_threads=1)
        before = threading.active_count()
        seen: list[tuple[int, int]] = []
        start = threading.Thread.start

        def watching(thread: threading.Thread) -> None:
            if thread.name.startswith("spdl"):
                seen.append((len(psutil.Process().children()), threading.active_count()))
            start(thread)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading.Thread, "start", watching)
            pipeline.start()
        assert before <= seen[0][1]
        assert all(children >= 1 for children, _ in seen)
        assert sorted(pipeline) == [0, 1, 2]
        pipeline.stop()


def test_an_op_that_cannot_be_sent_is_refused_at_the_start() -> None:
    with PriorityProcessPoolExecutor(1) as pool:
        pipeline = source([1]).pipe(lambda x: x, executor=pool.get_executor()).add_sink().build(num_threads=1)
        with pytest.raises(TypeError, match="cannot be sent to the processes"):
            pipeline.start()
        pipeline.stop()


def die(x: int) -> int:
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_a_process_that_dies_fails_the_pipeline() -> None:
    with PriorityProcessPoolExecutor(1) as pool:
        stages = source(range(100)).pipe(die, executor=pool.get_executor()).pipe(abs, executor=pool.get_executor())
        with pytest.raises(PipelineFailure) as caught, stages.add_sink().build(num_threads=1).auto_stop() as pipeline:
            list(pipeline.get_iterator(timeout=20))
    assert any(isinstance(error, BrokenExecutor) for error in caught.value.exceptions)


@BOTH
def test_a_pool_that_was_shut_down_fails_the_pipeline(kind: type[Pool]) -> None:
    pool = kind(1)
    executor = pool.get_executor()
    pool.shutdown()
    with (
        pytest.raises(PipelineFailure, match="pipeline stages failed") as caught,
        source([1]).pipe(abs, executor=executor).add_sink().build(num_threads=1).auto_stop() as pipeline,
    ):
        list(pipeline.get_iterator(timeout=20))
    assert "after shutdown" in str(caught.value.exceptions[0])


def test_a_pipeline_leaves_the_pool_open() -> None:
    with PriorityThreadPoolExecutor(1) as pool:
        executor = pool.get_executor()
        for _ in range(2):
            assert run(source(range(3)).pipe(abs, executor=executor)) == [0, 1, 2]


def test_stopping_cancels_what_has_not_begun() -> None:
    release = threading.Event()
    began = threading.Event()

    def block(x: int) -> int:
        began.set()
        release.wait(20)
        return x

    with PriorityThreadPoolExecutor(1) as pool:
        pipeline = (
            source(range(9)).pipe(block, executor=pool.get_executor(), concurrency=3).add_sink().build(num_threads=1)
        )
        pipeline.start()
        assert began.wait(20)
        with pytest.raises(TimeoutError):
            pipeline.stop(timeout=0.05)
        release.set()
        pipeline.stop()


@pytest.mark.parametrize("imports", ["PriorityThreadPoolExecutor", "PriorityProcessPoolExecutor", "*"])
@pytest.mark.parametrize("kind", ["PriorityThreadPoolExecutor", "PriorityProcessPoolExecutor"])
def test_a_pipeline_that_nobody_stops_ends_quietly_with_the_interpreter(kind: str, imports: str) -> None:
    """That holds for any order of the imports, in which concurrent.futures ends its pools."""
    code = f"""if True:
        import itertools
        from spdl.pipeline import {imports}
        from spdl.pipeline import PipelineBuilder, {kind}
        executor = {kind}(1).get_executor()
        stages = PipelineBuilder().add_source(itertools.count())
        stages.pipe(abs, executor=executor, concurrency=2, output_order="input")
        pipeline = stages.add_sink().build(num_threads=1)
        print([item for item, _ in zip(pipeline, range(5))])
    """
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=30)
    assert (run.stdout, run.stderr) == ("[0, 1, 2, 3, 4]\n", "")


@BOTH
def test_a_pool_is_no_executor_and_says_what_is(kind: type[Pool]) -> None:
    pool: Any = kind(1)
    with pool, pytest.raises(TypeError, match=r"`executor` must be .* A pool's `get_executor\(\)` makes one"):
        PipelineBuilder[Any, Any]().add_source([1]).pipe(abs, executor=pool)
