"""Test TaskStatsHook: the engine's counts, and the measurements of derived classes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.delays import tolerates_delays
from tests.pipeline.support import source

from spdl.pipeline import StageInfo, TaskHook, TaskPerfStats, TaskStatsHook
from spdl.pipeline.config import set_default_hook_class
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from spdl.pipeline import PipelineBuilder


class Derived(TaskStatsHook):
    """A hook that overrides nothing, so it reads the engine's counts."""


class Running(TaskStatsHook):
    """A hook that runs around each task and measures it itself."""

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        async with super().task_hook(input_item):
            yield


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


class Spinning(Timed):
    """An op that does not sleep, for durations that are too short for it."""

    def __call__(self, x: int) -> int:
        begin = time.perf_counter()
        while time.perf_counter() - begin < self.duration(x):
            pass
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
    @tolerates_delays
    def test_they_are_totals_of_those_that_succeeded(self, kind: type[TaskStatsHook]) -> None:
        op = Timed(lambda x: 0.01 if x % 2 else 0.002, fails_at=7)
        hook = measured(source(range(30)).pipe(op, concurrency=2, name="op"), kind, interval=3)["op"]
        assert (hook.num_tasks, hook.num_success, hook.interval) == (30, 29, 3)
        assert str(hook.info).endswith(":op[2]")
        assert float(np.mean(op.taken)) <= hook.ave_time <= float(np.mean(op.taken)) + 0.002

    @BOTH
    @tolerates_delays
    def test_results_of_generators_are_tasks_and_their_end_is_none(self, kind: type[TaskStatsHook]) -> None:
        taken: dict[str, list[float]] = {"sync": [], "async": []}

        def thrice(x: int) -> Iterator[int]:
            for _ in range(3):
                begin = time.perf_counter()
                time.sleep(0.002)
                taken["sync"].append(time.perf_counter() - begin)
                yield x

        async def twice(x: int) -> AsyncIterator[int]:
            for _ in range(2):
                begin = time.perf_counter()
                await asyncio.sleep(0.002)
                taken["async"].append(time.perf_counter() - begin)
                yield x

        hooks = measured(source(range(10)).pipe(thrice, name="sync").pipe(twice, name="async", concurrency=4), kind)
        assert [(hook.num_tasks, hook.num_success) for hook in hooks.values()] == [(30, 30), (60, 60)]
        for name, hook in hooks.items():
            # A whole generator takes at least twice as long as one of its steps.
            assert 1 <= hook.ave_time / float(np.mean(taken[name])) < 1.9

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

    @BOTH
    @tolerates_delays
    def test_gathering_and_its_flush(self, kind: type[TaskStatsHook]) -> None:
        class Pairs(Aggregator[Any, Any]):
            held: Any = None

            def accumulate(self, item: int) -> Any:
                time.sleep(0.002)
                held, self.held = self.held, (item if self.held is None else None)
                return None if held is None else (held, item)

            def flush(self) -> Any:
                return (self.held,) if self.held is not None else None

        graph = source(range(5)).aggregate(Pairs())
        (hook,) = measured(graph, kind).values()
        assert (hook.num_tasks, hook.num_success) == (6, 6)
        assert 0.002 * 5 / 6 <= hook.ave_time < 0.004

    @BOTH
    @pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
    @tolerates_delays
    def test_in_executors(self, kind: type[TaskStatsHook], pool: type[Any]) -> None:
        executor: Executor = pool(2)
        with executor:
            hook = measured(source([0.01] * 12).pipe(_nap, executor=executor, concurrency=2, name="op"), kind)["op"]
        assert (hook.num_tasks, hook.num_success) == (12, 12)
        assert 0.01 <= hook.ave_time < 0.1

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


class TestPercentiles:
    """Percentiles agree with numpy's, of durations that the op measures itself."""

    @staticmethod
    def of(op: Timed, count: int) -> TaskPerfStats:
        """Return the statistics of a stage with this op."""
        hook = measured(source(range(count)).pipe(op, name="op"), num_threads=2)["op"]
        return hook._read().total()

    @tolerates_delays
    def test_of_long_ops(self) -> None:
        op = Timed(lambda x: 0.02 if x % 50 == 17 else 0.008 if x % 7 == 0 else 0.001)
        stats = self.of(op, 300)
        assert stats.p90_time == pytest.approx(float(np.percentile(op.taken, 90)), rel=0.1)
        assert stats.p99_time == pytest.approx(float(np.percentile(op.taken, 99)), rel=0.1)

    @tolerates_delays
    def test_of_short_ops_of_which_some_are_measured(self) -> None:
        # Every 64th op takes long. A constant stride would see all of these or none. All long ops are counted.
        op = Spinning(lambda x: 400e-6 if x % 64 == 5 else 5e-6)
        stats = self.of(op, 20_000)
        assert stats.num_tasks == 20_000
        assert stats.p90_time < 50e-6
        # More than 1 % of the ops take long.
        assert 300e-6 < stats.p99_time < 2 * float(np.percentile(op.taken, 99))
        assert float(np.mean(op.taken)) <= stats.ave_time < 2 * float(np.mean(op.taken))

    @tolerates_delays
    def test_of_few_short_ops_all_are_measured(self) -> None:
        op = Spinning(lambda x: 30e-6 if x % 5 == 0 else 10e-6)
        hook = measured(source(range(100)).pipe(op, name="op"))["op"]
        assert sum(hook._read().counts) == 100
        # The engine's clock runs a little longer than the op's own.
        assert float(np.percentile(op.taken, 90)) * 0.9 <= hook._read().total().p90_time


class TestIntervals:
    """Derived classes get statistics at intervals."""

    @tolerates_delays
    def test_each_covers_the_time_since_the_last(self) -> None:
        op = Timed(lambda x: 0.001 if x < 100 else 0.03)
        hook = measured(source(range(110)).pipe(op, name="op"), Laps, interval=0.07)["op"]
        assert isinstance(hook, Laps)
        assert len(hook.laps) >= 4
        assert sum(lap.num_tasks for lap in hook.laps) <= hook.num_tasks == 110
        # The first lap has none of the slow ops, and the last none of the quick ones.
        assert 0.001 <= hook.laps[0].ave_time < 0.03
        assert hook.laps[-1].num_tasks <= 3
        assert hook.laps[-1].ave_time >= 0.03
        assert hook.laps[-1].p90_time >= 0.027
        assert hook.thread not in (None, threading.get_ident())

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

    @tolerates_delays
    def test_what_the_callback_raises_is_logged_and_the_next_one_comes(self, caplog: pytest.LogCaptureFixture) -> None:
        calls: list[TaskPerfStats] = []

        class Failing(TaskStatsHook):
            async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
                calls.append(stats)
                raise OSError("no place left")

        # How many items are done in an interval depends on the machine, so the source ends after the third call.
        items = itertools.takewhile(lambda x: not x or len(calls) < 3, range(2000))
        hook = measured(source(items).pipe(Timed(lambda _: 0.005), name="op"), Failing, interval=0.02)["op"]
        assert 3 <= len(calls) <= hook.num_success
        errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(errors) == len(calls)
        assert all("interval_stats_callback" in error and "no place left" in error for error in errors)

    def test_a_callback_that_never_returns_does_not_hold_up_the_end(self) -> None:
        class Stuck(TaskStatsHook):
            async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
                await asyncio.sleep(600)

        begin = time.monotonic()
        assert (
            measured(source(range(5)).pipe(Timed(lambda _: 0.02), name="op"), Stuck, interval=0.01)["op"].num_tasks == 5
        )
        assert time.monotonic() - begin < 5


class TestCallbacksOfObjects:
    """Callbacks may be set on a hook instead of written in its class."""

    @pytest.mark.parametrize("kind", [TaskStatsHook, Derived, Running])
    @tolerates_delays
    def test_it_is_called_at_intervals(self, kind: type[TaskStatsHook]) -> None:
        laps: list[TaskPerfStats] = []
        hooks: list[TaskStatsHook] = []

        async def keep(stats: TaskPerfStats) -> None:
            await asyncio.sleep(0)
            laps.append(stats)

        def factory(info: StageInfo) -> Sequence[TaskHook]:
            hook = kind(info, 0.03)
            hook.interval_stats_callback = keep  # type: ignore[method-assign]
            hooks.append(hook)
            return [hook]

        graph = source(range(30)).pipe(Timed(lambda _: 0.01)).add_sink(30)
        with graph.build(num_threads=1, task_hook_factory=factory).auto_stop() as pipeline:
            assert len(list(pipeline.get_iterator(timeout=10))) == 30
        assert len(laps) >= 3
        assert 1 <= sum(lap.num_tasks for lap in laps) <= hooks[0].num_tasks == 30
        assert all(0.01 <= lap.ave_time < 0.1 for lap in laps if lap.num_tasks)

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


class TestBesideOthers:
    """A stage runs all of its hooks."""

    @tolerates_delays
    def test_it_measures_what_is_inside(self) -> None:
        hooks: list[TaskStatsHook] = []

        class Waits(TaskHook):
            @asynccontextmanager
            async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
                await asyncio.sleep(0.01)
                yield

        def factory(info: StageInfo) -> Sequence[TaskHook]:
            hooks.extend((TaskStatsHook(info), TaskStatsHook(info)))
            return [hooks[0], Waits(), hooks[1]]

        graph = source(range(10)).pipe(Timed(lambda _: 0.002)).add_sink(10)
        with graph.build(num_threads=1, task_hook_factory=factory).auto_stop() as pipeline:
            assert len(list(pipeline.get_iterator(timeout=10))) == 10
        outside, inside = hooks
        assert outside.num_success == inside.num_success == 10
        assert outside.ave_time >= 0.012
        assert 0.002 <= inside.ave_time < 0.01


def test_the_record_is_that_of_the_reference() -> None:
    stats = TaskPerfStats(3, 1, 0.5, 0.75, 1.0)
    assert astuple(stats) == (3, 1, 0.5, 0.75, 1.0)
    names = "num_tasks=3, num_failures=1, ave_time=0.5, p90_time=0.75, p99_time=1.0"
    assert repr(stats) == f"TaskPerfStats({names})"


@pytest.mark.parametrize("interval", ["1", None, float("nan")])
def test_an_interval_is_a_number(interval: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="`interval`"):
        TaskStatsHook(StageInfo(0, "1", "op"), interval)
