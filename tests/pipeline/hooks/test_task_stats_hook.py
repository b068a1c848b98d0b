"""Test TaskStatsHook: the engine's counts, and the measurements of derived classes."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.hooks.kinds import Derived, Running
from tests.pipeline.support import source

from spdl.pipeline import StageInfo, TaskHook, TaskPerfStats, TaskStatsHook
from spdl.pipeline.config import set_default_hook_class

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from concurrent.futures import Executor

    from spdl.pipeline import PipelineBuilder


BOTH = pytest.mark.parametrize("kind", [TaskStatsHook, Derived, Running])


class Timed:
    """An op that records how long each of its calls took."""

    def __init__(self, duration: Callable[[int], float], *, fails_at: int | None = None) -> None:
        self.duration = duration
        self.fails_at = fails_at
        self.taken: list[float] = []

    def __call__(self, x: int) -> int:
        begin = time.perf_counter()
        if self.duration(x):
            time.sleep(self.duration(x))
        if x == self.fails_at:
            raise ValueError(x)
        self.taken.append(time.perf_counter() - begin)
        return x


def measured(
    builder: PipelineBuilder[Any, Any],
    kind: type[TaskStatsHook] = TaskStatsHook,
    *,
    num_threads: int = 4,
    **kwargs: Any,
) -> dict[str, TaskStatsHook]:
    """Run a pipeline with a hook for each stage. Return the hooks by the stages' names."""
    hooks: dict[str, TaskStatsHook] = {}

    def factory(info: StageInfo) -> Sequence[TaskHook]:
        hooks[info.stage_name] = kind(info, **kwargs)
        return [hooks[info.stage_name]]

    with builder.add_sink(10).build(num_threads=num_threads, task_hook_factory=factory).auto_stop() as pipeline:
        for _ in pipeline.get_iterator(timeout=30):
            pass
    return hooks


class Laps(TaskStatsHook):
    """A hook that keeps the statistics that its callback gets."""

    def __init__(self, info: StageInfo, interval: float = -1) -> None:
        super().__init__(info, interval)
        self.laps: list[TaskPerfStats] = []
        self.thread: int | None = None

    async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
        await asyncio.sleep(0)
        self.thread = threading.get_ident()
        self.laps.append(stats)


class TestAttributes:
    """The attributes are the same whether the engine or the hook measured."""

    @BOTH
    def test_dropped_items_are_successes(self, kind: type[TaskStatsHook]) -> None:
        hook = measured(source(range(10)).pipe(lambda x: x if x % 2 else None, name="op"), kind)["op"]
        assert (hook.num_tasks, hook.num_success) == (10, 10)

    @BOTH
    def test_attempts_are_tasks(self, kind: type[TaskStatsHook]) -> None:
        tries: list[int] = []

        def op(x: int) -> int:
            tries.append(x)
            if x == 3 and tries.count(3) < 3:
                raise ValueError(x)
            return x

        hook = measured(source(range(5)).pipe(op, name="op", retries=5, retry_delay=0), kind)["op"]
        assert (hook.num_tasks, hook.num_success) == (7, 5)

    @pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
    def test_in_executors(self, pool: type[Any]) -> None:
        executor: Executor = pool(2)
        with executor:
            hook = measured(source([0.01] * 6).pipe(_nap, executor=executor, concurrency=2, name="op"))["op"]
        assert (hook.num_tasks, hook.num_success) == (6, 6)
        assert hook.ave_time >= 0.01

    def test_they_can_be_read_at_any_time(self) -> None:
        hooks: list[TaskStatsHook] = []
        gate = threading.Event()

        def factory(info: StageInfo) -> Sequence[TaskHook]:
            hooks.append(TaskStatsHook(info))
            return hooks[-1:]

        graph = source(range(20)).pipe(lambda x: x if x < 5 else gate.wait(20) and x, name="op").add_sink(20)
        pipeline = graph.build(num_threads=1, task_hook_factory=factory)
        assert (hooks[0].num_tasks, hooks[0].num_success, hooks[0].ave_time) == (0, 0, 0)
        with pipeline.auto_stop():
            assert [pipeline.get_item(timeout=10) for _ in range(5)] == list(range(5))
            assert (hooks[0].num_tasks, hooks[0].num_success) == (5, 5)
            gate.set()
            assert len(list(pipeline.get_iterator(timeout=10))) == 15
        assert hooks[0].num_tasks == 20


def _nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


class TestIntervals:
    """Derived classes get statistics at intervals."""

    def test_without_an_interval_there_are_none(self) -> None:
        hook = measured(source(range(20)).pipe(Timed(lambda _: 0.005), name="op"), Laps)["op"]
        assert isinstance(hook, Laps)
        assert hook.laps == []

    def test_the_default_class_gets_the_interval_of_the_build(self) -> None:
        made: list[Laps] = []

        class Default(Laps):
            def __init__(self, info: StageInfo, interval: float = -1) -> None:
                super().__init__(info, interval)
                made.append(self)

        set_default_hook_class(Default)
        try:
            # How many items are done in an interval depends on the machine, so the source ends after the second lap.
            items = itertools.takewhile(lambda x: not x or len(made[0].laps) < 2, range(2000))
            graph = source(items).pipe(Timed(lambda _: 0.005)).add_sink(20)
            with graph.build(num_threads=1, report_stats_interval=0.02).auto_stop() as pipeline:
                assert list(pipeline.get_iterator(timeout=10))
        finally:
            set_default_hook_class()
        assert [hook.interval for hook in made] == [0.02]
        assert len(made[0].laps) >= 2

    def test_a_callback_that_never_returns_does_not_hold_up_the_end(self) -> None:
        class Stuck(TaskStatsHook):
            async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
                await asyncio.sleep(600)

        begin = time.monotonic()
        assert (
            measured(source(range(5)).pipe(Timed(lambda _: 0.02), name="op"), Stuck, interval=0.01)["op"].num_tasks == 5
        )
        assert time.monotonic() - begin < 9


class TestCallbacksOfObjects:
    """Callbacks may be set on a hook instead of written in its class."""

    def test_so_is_one_around_each_task(self) -> None:
        seen: list[int] = []

        @asynccontextmanager
        async def note(input_item: Any = None) -> AsyncIterator[None]:
            seen.append(input_item)
            yield

        def factory(info: StageInfo) -> Sequence[TaskHook]:
            hook = TaskStatsHook(info)
            hook.task_hook = note  # type: ignore[method-assign]
            return [hook]

        graph = source(range(5)).pipe(abs).add_sink(5)
        with graph.build(num_threads=1, task_hook_factory=factory).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == list(range(5))
        assert seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("kind", "runs"), [(TaskStatsHook, False), (Derived, False), (Laps, False), (Running, True)])
def test_ops_stay_with_their_worker_unless_something_runs_around_them(kind: type[TaskStatsHook], runs: bool) -> None:  # noqa: FBT001 - a case.
    """A class that only sends statistics elsewhere costs nothing per task."""
    threads: set[int] = set()

    class Watched(kind):  # type: ignore[misc, valid-type]
        def __getattribute__(self, name: str) -> Any:
            if name == "task_hook":
                threads.add(threading.get_ident())
            return super().__getattribute__(name)

    hook = measured(source(range(50)).pipe(abs, name="op"), Watched)["op"]
    assert hook.num_tasks == 50
    # The building thread looks at `task_hook`. Other threads do so only if the class overrides it.
    assert (threads - {threading.get_ident()} != set()) == runs


def test_the_record_is_that_of_the_reference() -> None:
    stats = TaskPerfStats(3, 1, 0.5, 0.75, 1.0)
    assert astuple(stats) == (3, 1, 0.5, 0.75, 1.0)
    names = "num_tasks=3, num_failures=1, ave_time=0.5, p90_time=0.75, p99_time=1.0"
    assert repr(stats) == f"TaskPerfStats({names})"


@pytest.mark.parametrize("interval", ["1", None, float("nan")])
def test_an_interval_is_a_number(interval: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="`interval`"):
        TaskStatsHook(StageInfo(0, "1", "op"), interval)
