"""What a TaskStatsHook measures of ops that take known times."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.hooks.kinds import Derived, Running
from tests.pipeline.support import source
from tests.pipeline.timed.programs import Hears, binned, drain, exactly, nap, program
from tests.simulation.executors import ProcessPool, ThreadPool
from tests.simulation.world import get_ident, sleep

from spdl.pipeline import StageInfo, TaskHook, TaskPerfStats, TaskStatsHook
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from spdl.pipeline import PipelineBuilder


KINDS = (TaskStatsHook, Derived, Running)


class Laps(TaskStatsHook):
    """A hook that keeps the statistics that its callback gets."""

    def __init__(self, info: StageInfo, interval: float = -1) -> None:
        super().__init__(info, interval)
        self.laps: list[TaskPerfStats] = []
        self.thread: int | None = None

    async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
        await asyncio.sleep(0)
        self.thread = get_ident()
        self.laps.append(stats)


class Timed:
    """An op that takes as long as a function says, and notes it."""

    def __init__(self, duration: Callable[[int], float], *, fails_at: int | None = None) -> None:
        self.duration = duration
        self.fails_at = fails_at
        self.taken: list[float] = []

    def __call__(self, x: int) -> int:
        sleep(self.duration(x))
        if x == self.fails_at:
            raise ValueError(x)
        self.taken.append(self.duration(x))
        return x


def _measured(
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

    drain(builder.add_sink(10).build(num_threads=num_threads, task_hook_factory=factory))
    return hooks


@program
def attributes_are_totals_of_those_that_succeeded() -> None:
    for kind in KINDS:
        op = Timed(lambda x: 0.01 if x % 2 else 0.002, fails_at=7)
        hook = _measured(source(range(30)).pipe(op, concurrency=2, name="op"), kind, interval=3)["op"]
        assert (hook.num_tasks, hook.num_success, hook.interval) == (30, 29, 3)
        assert str(hook.info).endswith(":op[2]")
        assert hook.ave_time == exactly(float(np.mean(op.taken)))


@program
def results_of_generators_are_tasks_and_their_end_is_none() -> None:
    def thrice(x: int) -> Iterator[int]:
        for _ in range(3):
            sleep(0.002)
            yield x

    async def twice(x: int) -> AsyncIterator[int]:
        for _ in range(2):
            await asyncio.sleep(0.002)
            yield x

    for kind in KINDS:
        hooks = _measured(source(range(10)).pipe(thrice, name="sync").pipe(twice, name="async", concurrency=4), kind)
        assert [(hook.num_tasks, hook.num_success) for hook in hooks.values()] == [(30, 30), (60, 60)]
        assert [hook.ave_time for hook in hooks.values()] == [exactly(0.002)] * 2


class _Pairs(Aggregator[Any, Any]):
    held: Any = None

    def accumulate(self, item: int) -> Any:
        sleep(0.002)
        held, self.held = self.held, (item if self.held is None else None)
        return None if held is None else (held, item)

    def flush(self) -> Any:
        return (self.held,) if self.held is not None else None


@program
def gathering_and_its_flush_are_tasks() -> None:
    for kind in KINDS:
        (hook,) = _measured(source(range(5)).aggregate(_Pairs()), kind).values()
        assert (hook.num_tasks, hook.num_success) == (6, 6)
        assert hook.ave_time == exactly(0.002 * 5 / 6)


def _nap(seconds: float) -> float:
    sleep(seconds)
    return seconds


@program
def ops_in_executors_are_measured_there() -> None:
    for kind in KINDS:
        for pool in (ThreadPool, ProcessPool):
            executor: Any = pool(2)
            hook = _measured(source([0.01] * 12).pipe(_nap, executor=executor, concurrency=4, name="op"), kind)["op"]
            executor.shutdown()
            assert (hook.num_tasks, hook.num_success) == (12, 12)
            # A hook of the user's runs around the wait for the pool, too.
            assert hook.ave_time == exactly(0.01) if kind is not Running else 0.01 <= hook.ave_time <= 0.03


@program
def percentiles_of_long_ops_are_numpys() -> None:
    op = Timed(lambda x: 0.02 if x % 50 == 17 else 0.008 if x % 7 == 0 else 0.001)
    stats = _measured(source(range(300)).pipe(op, name="op"), num_threads=2)["op"]._read().total()
    assert stats.p90_time == pytest.approx(float(np.percentile(op.taken, 90)), rel=0.1)
    assert stats.p99_time == pytest.approx(float(np.percentile(op.taken, 99)), rel=0.1)


@program
def of_many_short_ops_some_are_measured() -> None:
    # Every 64th op takes long. A constant stride would see all of these or none. All long ops are counted.
    op = Timed(lambda x: 400e-6 if x % 64 == 5 else 5e-6)
    stats = _measured(source(range(2_000)).pipe(op, name="op"), num_threads=2)["op"]._read().total()
    assert stats.num_tasks == 2_000
    assert stats.p90_time < 10e-6
    # More than 1 % of the ops take long.
    assert stats.p99_time == pytest.approx(400e-6, rel=0.15)
    assert stats.ave_time == pytest.approx(float(np.mean(op.taken)), rel=0.1)


@program
def of_few_short_ops_all_are_measured() -> None:
    op = Timed(lambda x: 30e-6 if x % 5 == 0 else 10e-6)
    hook = _measured(source(range(100)).pipe(op, name="op"))["op"]
    assert sum(hook._read().counts) == 100
    assert hook._read().total().p90_time == pytest.approx(30e-6, rel=0.15)


@program
def each_lap_covers_the_time_since_the_last() -> None:
    op = Timed(lambda x: 0.001 if x < 100 else 0.03)
    hook = _measured(source(range(110)).pipe(op, name="op"), Laps, interval=0.07)["op"]
    assert isinstance(hook, Laps)
    assert len(hook.laps) == 5
    # The first lap has none of the slow ops, and the last none of the quick ones.
    assert hook.laps[0].num_tasks in (69, 70)
    assert hook.laps[0].ave_time == exactly(0.001)
    assert hook.laps[-1].num_tasks in (2, 3)
    assert hook.laps[-1].ave_time == exactly(0.03)
    assert hook.laps[-1].p90_time == binned(0.03)
    assert hook.thread not in (None, get_ident())


@program
def what_the_callback_raises_is_logged_and_the_next_one_comes() -> None:
    calls: list[TaskPerfStats] = []

    class Failing(TaskStatsHook):
        async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
            calls.append(stats)
            raise OSError("no place left")

    with Hears() as heard:
        _measured(source(range(20)).pipe(nap(0.005), name="op"), Failing, interval=0.02, num_threads=1)
    assert len(calls) in (4, 5)
    errors = [record.getMessage() for record in heard.records if record.levelname == "ERROR"]
    assert len(errors) == len(calls)
    assert all("interval_stats_callback" in error and "no place left" in error for error in errors)


@program
def a_callback_of_an_object_is_called_at_intervals() -> None:
    for kind in KINDS:
        laps: list[TaskPerfStats] = []

        async def keep(stats: TaskPerfStats, laps: list[TaskPerfStats] = laps) -> None:
            await asyncio.sleep(0)
            laps.append(stats)

        def factory(info: StageInfo, kind: Any = kind, keep: Any = keep) -> Sequence[TaskHook]:
            hook = kind(info, 0.03)
            hook.interval_stats_callback = keep
            return [hook]

        drain(source(range(30)).pipe(nap(0.01)).add_sink(30).build(num_threads=1, task_hook_factory=factory))
        assert len(laps) in (9, 10)
        assert 26 <= sum(lap.num_tasks for lap in laps) <= 30
        assert all(lap.ave_time == exactly(0.01) for lap in laps)


@program
def a_hook_measures_what_is_inside() -> None:
    hooks: list[TaskStatsHook] = []

    class Waits(TaskHook):
        @asynccontextmanager
        async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
            await asyncio.sleep(0.01)
            yield

    def factory(info: StageInfo) -> Sequence[TaskHook]:
        hooks.extend((TaskStatsHook(info), TaskStatsHook(info)))
        return [hooks[0], Waits(), hooks[1]]

    drain(source(range(10)).pipe(nap(0.002)).add_sink(10).build(num_threads=1, task_hook_factory=factory))
    outside, inside = hooks
    assert outside.num_success == inside.num_success == 10
    assert outside.ave_time == exactly(0.012)
    assert inside.ave_time == exactly(0.002)
