"""Test pipelines in another process: built for each pass or kept running, with their executors and failures."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.pipeline.subprocess.work import (
    METHODS,
    Noted,
    Own,
    Source,
    add_thread,
    always_first,
    fail_on_two,
    forked_by,
    is_negative,
    name_thread,
    negative,
    same,
    tell_noted,
    where,
)
from tests.pipeline.support import wait_until

from spdl.pipeline import (
    AsyncQueue,
    BackgroundTask,
    PipelineBuilder,
    PipelineFailure,
    StageInfo,
    TaskHook,
    build_pipeline,
    run_pipeline_in_subprocess,
)
from spdl.pipeline.defs import Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)


def config_of(source: Any, *ops: Any, continuous: bool = False, **options: Any) -> PipelineConfig[Any]:
    builder = PipelineBuilder[Any, Any]().add_source(source, continuous=continuous)
    for op in ops:
        builder.pipe(op, **options)
    return builder.add_sink(2).get_config()


class TestPasses:
    @pytest.mark.parametrize("method", METHODS)
    def test_each_loop_runs_the_pipeline_anew(self, method: str) -> None:
        items = run_pipeline_in_subprocess(config_of(Source(), same), num_threads=1, mp_context=method)
        for number in (1, 2, 3):
            assert list(items) == [(number, i) for i in range(4)]

    def test_continuous_source(self, method: str) -> None:
        config = config_of(Source(), same, continuous=True)
        items = run_pipeline_in_subprocess(config, num_threads=1, mp_context=method)
        for number in (1, 2, 3):
            assert list(items) == [(number, i) for i in range(4)]

    def test_continuous_source_works_ahead_between_the_loops(self) -> None:
        def op(x: tuple[int, int]) -> tuple[int, int, int]:
            return *x, threading.get_ident()

        items = run_pipeline_in_subprocess(config_of(Source(), op, continuous=True), num_threads=1, mp_context="fork")
        # There is one pipeline for all passes, so its threads are the same.
        assert len({thread for _ in range(3) for _, _, thread in items}) <= 2

    def test_continuous_source_after_leaving_a_loop(self) -> None:
        items = run_pipeline_in_subprocess(config_of(Source(100), same, continuous=True), num_threads=1)
        assert next(iter(items)) == (1, 0)
        # The next pass does not begin in the middle of the epoch that was left.
        second = list(items)
        assert [i for _, i in second] == list(range(100))
        assert len({number for number, _ in second}) == 1
        assert [i for _, i in items] == list(range(100))

    def test_source_that_can_be_iterated_only_once(self) -> None:
        items = run_pipeline_in_subprocess(config_of((i for i in range(3)), same), num_threads=1, mp_context="fork")
        assert list(items) == [0, 1, 2]
        with pytest.raises(
            RuntimeError, match=r"The source can be iterated only once, .*genexpr.* can be iterated again"
        ):
            list(items)

    @pytest.mark.filterwarnings("ignore:The source of the pipeline")
    def test_other_source_that_gives_nothing_the_second_time(self) -> None:
        config = config_of(iter([1, 2]), same)
        items = run_pipeline_in_subprocess(config, num_threads=1)
        assert list(items) == [1, 2]
        with pytest.raises(RuntimeError, match="The source can be iterated only once"):
            list(items)

    def test_no_bound_on_the_items_under_way(self) -> None:
        items = run_pipeline_in_subprocess(config_of(range(500), negative), num_threads=1, buffer_size=-1)
        assert sorted(items) == list(range(-499, 1))

    @pytest.mark.filterwarnings("ignore:The source of the pipeline")
    def test_empty_source(self) -> None:
        items = run_pipeline_in_subprocess(config_of([]), num_threads=1)
        assert [list(items), list(items)] == [[], []]

    def test_merge_and_paths(self, method: str) -> None:
        branches = [config_of([1, 2], same), config_of([-3], same)]
        paths = PathVariants(is_negative, [[Pipe(same)], [Pipe(negative)]])
        config = PipelineConfig(Merge(branches), [paths], SinkConfig(3))
        items = run_pipeline_in_subprocess(config, num_threads=2, mp_context=method)
        for _ in range(2):
            assert sorted(items) == [1, 2, 3]

    def test_the_same_as_here(self) -> None:
        config = config_of(range(50), negative, float, concurrency=3, output_order="input")
        with build_pipeline(config, num_threads=3).auto_stop() as pipeline:
            assert list(run_pipeline_in_subprocess(config, num_threads=3)) == list(pipeline)


class TestArguments:
    def test_builder_works_with_a_warning(self) -> None:
        builder = PipelineBuilder[Any, Any]().add_source([1, 2]).add_sink(1)
        expected = r"the result of the builder.s `get_config\(\)` to run_pipeline_in_subprocess"
        with pytest.warns(UserWarning, match=expected) as caught:
            # With "fork", Python 3.12 and later would also warn of a fork beside threads.
            items = run_pipeline_in_subprocess(builder, num_threads=1, mp_context="forkserver")
        assert caught[0].filename == __file__
        assert list(items) == [1, 2]

    def test_wrong_config(self) -> None:
        with pytest.raises(TypeError, match=r"`config_or_builder` must be a PipelineConfig, got 3 .*test_run_pipeline"):
            run_pipeline_in_subprocess(3, num_threads=1)  # type: ignore[arg-type]

    def test_mistakes_for_build_pipeline_are_told_at_once(self) -> None:
        with pytest.raises(ValueError, match="`num_threads` must be an int of at least 1, got 0") as caught:
            run_pipeline_in_subprocess(config_of([1]), num_threads=0)
        assert caught.value.__notes__[-1] == "The worker subprocess quit. Failed to create the iterable."

    def test_they_reach_the_pipeline(self) -> None:
        config = config_of(range(5), fail_on_two)
        assert list(run_pipeline_in_subprocess(config, num_threads=1)) == [0, 1, 3, 4]
        with pytest.raises(PipelineFailure):
            list(run_pipeline_in_subprocess(config, num_threads=1, max_failures=0))

    def test_hooks_queues_and_tasks_are_made_there(self, method: str) -> None:
        items = run_pipeline_in_subprocess(
            config_of(range(10), tell_instrumentation),
            num_threads=1,
            task_hook_factory=make_hooks,
            queue_class=NotingQueue,
            background_tasks=[NotingTask],
            mp_context=method,
        )
        assert list(items)[-1] == {"hook", "queue", "task"}
        assert not INSTRUMENTATION

    def test_others_reach_the_process(self) -> None:
        items = run_pipeline_in_subprocess(
            config_of([1], tell_noted),
            num_threads=1,
            initializer=[Noted("a"), Noted("b")],
            buffer_size=1,
            timeout=20,
            daemon=True,
            mp_context="spawn",
        )
        assert list(items) == [["a", "b"]]

    def test_unknown_ones(self) -> None:
        with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
            run_pipeline_in_subprocess(config_of([1]), num_threads=1, size=3)

    def test_wrong_initializer(self) -> None:
        with pytest.raises(TypeError, match=r"`initializer\[1\]` must be callable"):
            run_pipeline_in_subprocess(config_of([1]), num_threads=1, initializer=[same, 3])

    def test_op_that_cannot_be_pickled(self) -> None:
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError), match="pickle"):
            run_pipeline_in_subprocess(config_of([1], lambda x: x), num_threads=1, mp_context="spawn")


INSTRUMENTATION: set[str] = set()


class NotingHook(TaskHook):
    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        INSTRUMENTATION.add("hook")
        yield


class NotingQueue(AsyncQueue[Any]):
    async def put(self, item: Any) -> None:
        INSTRUMENTATION.add("queue")
        await super().put(item)


class NotingTask(BackgroundTask):
    async def run(self) -> None:
        INSTRUMENTATION.add("task")


def make_hooks(info: StageInfo) -> list[TaskHook]:
    return [NotingHook()]


def tell_instrumentation(_: int) -> set[str]:
    time.sleep(0.01)
    return set(INSTRUMENTATION)


class TestFailures:
    def test_pipeline_failure_is_one_here(self, method: str) -> None:
        config = config_of(range(5), fail_on_two, max_failures=0)
        items = run_pipeline_in_subprocess(config, num_threads=1, mp_context=method)
        got: list[Any] = []
        with pytest.raises(PipelineFailure) as caught:
            got.extend(items)
        (stage,) = caught.value.exceptions
        assert isinstance(stage.__cause__, KeyError)
        assert any("fail_on_two" in note for note in stage.__notes__)
        with pytest.raises(RuntimeError, match="Cannot iterate again"):
            list(items)

    def test_source_that_raises(self) -> None:
        def source() -> Iterator[int]:
            yield 1
            raise OSError("disk on fire")

        items = iter(run_pipeline_in_subprocess(config_of(source()), num_threads=1, mp_context="fork"))
        assert next(items) == 1
        with pytest.raises(PipelineFailure) as caught:
            next(items)
        assert [str(error) for error in caught.value.exceptions] == ["disk on fire"]
        assert caught.group_contains(OSError, match="disk on fire")


class TestExecutors:
    def test_threads_are_made_anew_with_the_same_arguments(self, method: str) -> None:
        with ThreadPoolExecutor(1, "mine", name_thread, ("by its initializer",)) as executor:
            config = config_of(range(20), where, executor=executor)
            items = run_pipeline_in_subprocess(config, num_threads=2, mp_context=method)
            for _ in range(2):
                got = list(items)
                assert sorted(x for x, _, _ in got) == list(range(20))
                assert {name for _, _, name in got} == {"by its initializer"}
                assert os.getpid() not in {pid for _, pid, _ in got}
            # The executor of this process is unused.
            assert executor.submit(same, 3).result() == 3

    @pytest.mark.skipif(sys.version_info < (3, 14), reason="it has no interpreters for it")
    def test_interpreters_are_made_anew_with_the_same_arguments(self) -> None:
        pools: Any = importlib.import_module("concurrent.futures")
        # Each interpreter has its own limit.
        with pools.InterpreterPoolExecutor(1, initializer=sys.setrecursionlimit, initargs=(765,)) as executor:
            config = config_of(["__import__('sys').getrecursionlimit()"], eval, executor=executor)
            items = run_pipeline_in_subprocess(config, num_threads=1)
            assert list(items) == [765]
            items.close()

    def test_stages_that_share_one_do_so_there(self) -> None:
        with ThreadPoolExecutor(1, "shared") as shared, ThreadPoolExecutor(1, "other") as other:
            config = PipelineConfig(
                SourceConfig([1]),
                [
                    Pipe(same, executor=shared),
                    PathVariants(always_first, [[Pipe(add_thread, executor=shared), Pipe(add_thread, executor=other)]]),
                    Pipe(add_thread, executor=shared),
                ],
                SinkConfig(1),
            )
            (got,) = run_pipeline_in_subprocess(config, num_threads=2, mp_context="spawn")
        assert got == ((((1, "shared_0")), "other_0"), "shared_0")

    def test_processes(self, method: str) -> None:
        with ProcessPoolExecutor(2) as executor:
            config = config_of(range(20), where, executor=executor, concurrency=2)
            items = run_pipeline_in_subprocess(config, num_threads=1, mp_context=method)
            got = list(items)
            assert sorted(x for x, _, _ in got) == list(range(20))
            pids = {pid for _, pid, _ in got}
            assert os.getpid() not in pids
            assert list(items)
            items.close()
            assert wait_until(lambda: not any(map(psutil.pid_exists, pids)))

    def test_processes_of_a_killed_worker_end(self) -> None:
        # So its parent is the worker.
        with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
            config = config_of(range(4), where, executor=executor, concurrency=2)
            items = run_pipeline_in_subprocess(config, num_threads=1, mp_context="fork")
            pids = {pid for _, pid, _ in items}
            (worker,) = {psutil.Process(pid).ppid() for pid in pids}
            os.kill(worker, 9)
            with pytest.raises(RuntimeError, match="killed by signal SIGKILL"):
                list(items)
            assert wait_until(lambda: not any(map(_runs, pids)))

    def test_processes_are_refused_where_they_cannot_be(self) -> None:
        with (
            ProcessPoolExecutor(1) as executor,
            pytest.raises(ValueError, match=r"Stage 'where': its executor, a ProcessPool.* daemon=True forbids them"),
        ):
            run_pipeline_in_subprocess(config_of([1], where, executor=executor), num_threads=1, daemon=True)

    @pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
    @pytest.mark.parametrize("use", ["submit", "shutdown"])
    def test_used_ones_are_refused(self, kind: type[ThreadPoolExecutor | ProcessPoolExecutor], use: str) -> None:
        with kind(1) as executor:
            if use == "submit":
                executor.submit(same, 1).result()
            else:
                executor.shutdown()
            with pytest.raises(ValueError, match=rf"Stage 'where': its executor, a {kind.__name__}, .* has been used"):
                run_pipeline_in_subprocess(config_of([1], where, executor=executor), num_threads=1)

    def test_others_are_taken_as_they_are(self) -> None:
        config = config_of([1], where, executor=Own("own"))
        ((_, pid, name),) = run_pipeline_in_subprocess(config, num_threads=1, mp_context="spawn")
        assert pid != os.getpid()
        assert name == "own"


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_messages_tell_the_pipelines_of_the_processes_apart() -> None:
    def stage_of(failure: pytest.ExceptionInfo[PipelineFailure]) -> str:
        (error,) = failure.value.exceptions
        return str(error)

    config = config_of(range(5), fail_on_two, max_failures=0)
    messages = []
    for method in ("spawn", "fork"):
        with pytest.raises(PipelineFailure) as caught:
            list(run_pipeline_in_subprocess(config, num_threads=1, mp_context=method))
        messages.append(stage_of(caught))
    with build_pipeline(config, num_threads=1).auto_stop() as pipeline, pytest.raises(PipelineFailure) as caught:
        list(pipeline)
    messages.append(stage_of(caught))
    numbers = [int(message.split("(")[1].split(":")[0]) for message in messages]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


def test_the_pipeline_is_stopped_where_a_loop_is_left(tmp_path: Path) -> None:
    """When the loop is left, only ops under way are finished."""
    done = tmp_path / "done"

    def note(item: Any) -> Any:
        with done.open("a") as file:
            file.write("x")
        return item

    config = config_of(Source(10**6), note)
    items, process = forked_by(lambda: run_pipeline_in_subprocess(config, num_threads=1, mp_context="fork"))
    begun = iter(items)
    next(begun)
    threads = process.num_threads()
    del begun
    assert wait_until(lambda: process.num_threads() < threads)

    def rests() -> bool:
        count = done.stat().st_size
        time.sleep(0.1)
        return done.stat().st_size == count

    # The last of its threads may still be about to end.
    assert wait_until(rests)
    assert done.stat().st_size < 100
