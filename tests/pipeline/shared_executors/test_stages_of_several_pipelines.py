"""Test stages of a pipeline that share a priority pool."""

from __future__ import annotations

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
from tests.pipeline.support import run, source, twice, wait_until

from spdl.pipeline import (
    Pipeline,
    PipelineBuilder,
    PipelineFailure,
    PriorityProcessPoolExecutor,
    PriorityThreadPoolExecutor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Pool = PriorityThreadPoolExecutor | PriorityProcessPoolExecutor
Trace = list[tuple[float, str, int]]

BOTH = pytest.mark.parametrize("kind", [PriorityThreadPoolExecutor, PriorityProcessPoolExecutor])


class Waiting:
    """Lets ops wait until there is more for their stage, so that it depends on the pool alone what comes next."""

    def __init__(self, pipeline: Pipeline[Any], count: int) -> None:
        self.pipeline = pipeline
        self.count = count

    def has_more(self, least: int = 1) -> bool:
        """Return whether so many items wait in front of the first stage, or nothing more comes of the source."""
        src, stage, *_ = self.pipeline.statistics().stages
        return stage.queue_size >= least or src.num_emitted == self.count


def most_ahead(stages: list[str]) -> int:
    """Return the largest number of items that were between the two stages at once."""
    return max(itertools.accumulate(1 if stage == "early" else -1 for stage in stages))


@pytest.mark.parametrize(("priorities", "least", "most"), [((None, None), 1, 1), ((2, 1), 8, 60)])
def test_finished_work_leaves_before_new_work_is_begun(priorities: tuple[Any, Any], least: int, most: int) -> None:
    """If the upstream stage is more urgent, all room between the stages is filled first."""
    ended: list[str] = []

    def early(item: int) -> int:
        assert wait_until(waiting.has_more)
        # An op that takes no time would be one of several in the same turn of the thread.
        time.sleep(0.002)
        ended.append("early")
        return item

    def late(item: int) -> int:
        time.sleep(0.002)
        ended.append("late")
        return item

    with PriorityThreadPoolExecutor(1) as pool:
        first, second = (pool.get_executor(priority=each) for each in priorities)
        stages = source(range(60)).pipe(early, executor=first, concurrency=8).pipe(late, executor=second, concurrency=8)
        pipeline = stages.add_sink(100).build(num_threads=2)
        waiting = Waiting(pipeline, 60)
        with pipeline.auto_stop():
            assert sorted(pipeline.get_iterator(timeout=50)) == list(range(60))
    assert least <= most_ahead(ended) <= most


def early_in_a_process(item: int) -> Trace:
    time.sleep(0.02)
    return [(time.monotonic(), "early", item)]


def late_in_a_process(trace: Trace) -> Trace:
    time.sleep(0.02)
    return [*trace, (time.monotonic(), "late", trace[0][2])]


@pytest.mark.long
def test_finished_work_of_processes_leaves_before_new_work_is_begun() -> None:
    ahead = []
    for priorities in ((None, None), (2, 1)):
        with PriorityProcessPoolExecutor(1) as pool:
            first, second = (pool.get_executor(priority=each) for each in priorities)
            stages = source(range(60)).pipe(early_in_a_process, executor=first, concurrency=8)
            stages.pipe(late_in_a_process, executor=second, concurrency=8)
            entries = sorted(itertools.chain.from_iterable(run(stages, num_threads=2, sink=100)))
        assert len(entries) == 120
        ahead.append(most_ahead([stage for _, stage, _ in entries]))
    # A process begins its next op of the first stage before its last result has reached the second.
    assert ahead[0] <= 3
    assert ahead[1] >= 8


@pytest.mark.parametrize(("threads", "concurrency"), [(1, 1), (2, 2), (2, 8)])
def test_a_pool_of_threads_is_shared_by_pipelines(threads: int, concurrency: int) -> None:
    """Urgent calls of one pipeline go before less urgent ones of another."""
    with PriorityThreadPoolExecutor(threads) as pool:
        executors = {"patient": pool.get_executor(), "urgent": pool.get_executor()}
        ended: list[str] = []
        both_wait = threading.Event()
        waiting: dict[str, Waiting] = {}

        def op(name: str) -> str:
            assert both_wait.wait(60)
            # Whenever a thread becomes free, there is more for both. Otherwise it would begin what there is.
            assert wait_until(lambda: all(each.has_more(threads) for each in waiting.values()), 60)
            # Longer than a turn.
            time.sleep(0.002)
            ended.append(name)
            return name

        for name, executor in executors.items():
            stages = source([name] * 100).pipe(op, executor=executor, concurrency=concurrency)
            waiting[name] = Waiting(stages.add_sink(100).build(num_threads=1), 100)
        pipelines = [each.pipeline for each in waiting.values()]
        with pipelines[0].auto_stop(), pipelines[1].auto_stop():
            try:
                # The threads begin with the patient pipeline, which is started first.
                assert wait_until(lambda: pipelines[1].statistics().stages[1].queue_size, 60)
            finally:
                both_wait.set()
            assert [len(list(pipeline.get_iterator(timeout=50))) for pipeline in pipelines] == [100, 100]
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


def test_short_ops_share_a_call() -> None:
    """One call for each op would be most of the work. How many share one depends on the machine."""
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
    assert 0 < calls < 1990


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
def test_calls_are_not_submitted_for_nothing(concurrency: int, pause: float) -> None:
    """No call is submitted while all slots are taken, or while there is no room for results."""
    with PriorityThreadPoolExecutor(8) as pool:
        counts = count_waiting_calls(executor := pool.get_executor())
        stages = source(range(100)).pipe(sleep_and_return, executor=executor, concurrency=concurrency)
        with stages.add_sink(3).build(num_threads=2).auto_stop() as pipeline:
            for _ in pipeline:
                time.sleep(pause)
    assert 100 <= len(counts) < 300


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
