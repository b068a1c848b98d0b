"""Regions in processes, in interpreters and in threads: the same stages do the same in each of them."""

from __future__ import annotations

import gc
import logging
import os
import re
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.pipeline.interpreters import OLD, needs_interpreters, use_interpreters
from tests.pipeline.support import wait_until

from spdl.pipeline import ItemContext, Pipeline, PipelineBuilder, PipelineFailure, TaskHook
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    ExecutorConfig,
    InterpreterPoolExecutorConfig,
    Pipe,
    ProcessPoolExecutorConfig,
    ThreadPoolExecutorConfig,
)

from . import ops

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


pytestmark = pytest.mark.timeout(120)

KINDS = [
    pytest.param(ProcessPoolExecutorConfig, id="processes"),
    pytest.param(ThreadPoolExecutorConfig, id="threads"),
    pytest.param(InterpreterPoolExecutorConfig, id="interpreters", marks=needs_interpreters),
]
# Those whose ops end in their own time.
WITHOUT_KILLS = KINDS[1:]

Kind = type[ExecutorConfig]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    use_interpreters(monkeypatch)
    return request.param


@pytest.fixture(params=WITHOUT_KILLS)
def kind_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    use_interpreters(monkeypatch)
    return request.param


def region(workers: ExecutorConfig, *stages: Any, items: Any = range(100), **source: Any) -> Pipeline[Any]:
    builder = PipelineBuilder[Any, Any]().add_source(items, **source).to(workers)
    for stage in stages:
        builder = stage(builder)
    return builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)


def pipe(op: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda builder: builder.pipe(op, **options)


def run(pipeline: Pipeline[Any]) -> list[Any]:
    with pipeline.auto_stop():
        return list(pipeline.get_iterator(timeout=60))


def test_all_kinds_of_stages(kind: Kind) -> None:
    paths = [[Pipe(ops.negative)], [Pipe(ops.square), Pipe(ops.three)]]
    out = run(
        region(
            kind(2),
            pipe(ops.later, concurrency=3),
            pipe(ops.twice_later),
            lambda builder: builder.path_variants(ops.by_parity, paths),
            lambda builder: builder.aggregate(4).disaggregate(),
        )
    )
    made = [10 * (x + 1) + i for x in range(100) for i in range(2)]
    assert Counter(out) == Counter(z for y in made for z in (list(ops.three(y * y)) if y % 2 else [-y]))


def test_each_worker_has_an_aggregator_of_its_own(kind: Kind) -> None:
    sums = ops.Sums(7)
    stages = [pipe(ops.nap), lambda builder: builder.aggregate(sums)]
    out = run(region(kind(3), *stages, items=range(200)))
    assert sum(total for total, _ in out) == sum(range(200))
    assert sum(count for _, count in out) == 200
    assert sum(count < 7 for _, count in out) <= 3
    assert sums.items == []


@pytest.mark.parametrize("workers", [ProcessPoolExecutorConfig(2), ThreadPoolExecutorConfig(2)])
def test_an_aggregator_that_cannot_be_copied_is_named(workers: ExecutorConfig) -> None:
    pipeline = region(workers, lambda builder: builder.aggregate(ops.LockedAggregator()))
    with pytest.raises(TypeError, match=r"Stage 'aggregate.*cannot be (copied|sent)"):
        pipeline.start()
    pipeline.stop()


def test_order_across_workers(kind: Kind) -> None:
    out = run(region(kind(2), pipe(ops.uneven, concurrency=2, output_order="input"), pipe(ops.three)))
    assert out == [y for x in range(100) for y in ops.three(x)]


def test_epochs(kind: Kind) -> None:
    with region(kind(2), pipe(ops.same), items=range(30), continuous=True).auto_stop() as pipeline:
        for _ in range(4):
            assert sorted(pipeline.get_iterator(timeout=60)) == list(range(30))


def test_the_initializer(kind: Kind) -> None:
    ops.SECRET.clear()
    out = run(region(kind(1, ops.remember, (1, "two")), pipe(ops.recall)))
    assert sorted(out) == [(x, (1, "two")) for x in range(100)]
    assert bool(ops.SECRET) == (kind is ThreadPoolExecutorConfig)
    ops.SECRET.clear()


def test_an_initializer_that_raises(kind: Kind) -> None:
    with pytest.raises(PipelineFailure) as caught:
        run(region(kind(1, ops.refuse_to_begin), pipe(ops.same)))
    assert "no licence" in str(caught.value.exceptions[0])
    assert isinstance(caught.value.exceptions[0], PermissionError)


def test_failures_are_counted_and_described(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []
    pipeline = region(kind(2), pipe(ops.fail_on_fives, retries=1, retry_delay=0, on_failure=told.append))
    with caplog.at_level(logging.ERROR, "spdl.pipeline"):
        assert sorted(run(pipeline)) == [x for x in range(100) if x % 5]
    failures = pipeline.failures()
    assert len(failures) == len(told) == 20
    assert sorted(each.positions[0] for each in failures) == list(range(0, 100, 5))
    assert all(each.attempts == 2 and "LookupError" in each.error for each in failures)
    # The first ten are written in full, then one for each power of two.
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    in_full = [line for line in logged if "failed on source item" in line]
    assert len(in_full) == 10
    for line in in_full:
        (position,) = re.findall(r"failed on source item (\d+)", line)
        assert f"LookupError: no {position} here" in line
    (sixteenth,) = set(logged) - set(in_full)
    assert "has now failed on 16 items" in sixteenth
    assert pipeline.statistics().stages[1].num_failed == 20


def test_a_limit_of_failures(kind: Kind) -> None:
    with pytest.raises(PipelineFailure):
        run(region(kind(2), pipe(ops.fail_on_fives, max_failures=3)))


def test_a_stage_that_raises_no_exception_fails_the_pipeline(kind: Kind) -> None:
    with pytest.raises(PipelineFailure):
        run(region(kind(2), pipe(ops.system_exit)))


def test_statistics_and_set_concurrency(kind: Kind) -> None:
    with region(kind(2), pipe(ops.nap), pipe(ops.odd_only), items=range(200)).auto_stop() as pipeline:
        pipeline.get_item(timeout=60)
        pipeline.set_concurrency("nap", 6)
        assert len(list(pipeline.get_iterator(timeout=60))) == 99
        _, nap, odd, _ = pipeline.statistics().stages
    assert (nap.concurrency, nap.num_completed, nap.num_emitted) == (6, 200, 200)
    assert (odd.num_emitted, odd.num_dropped) == (100, 100)


def test_states_to_resume_from(kind: Kind) -> None:
    with region(kind(2), pipe(ops.three)).auto_stop() as pipeline:
        before = [pipeline.get_item(timeout=60) for _ in range(50)]
        state = pipeline.state_dict()
    resumed = region(kind(2), pipe(ops.three))
    resumed.load_state_dict(state)
    assert sorted(before + run(resumed)) == sorted(y for x in range(100) for y in ops.three(x))


def whence(x: int, ctx: ItemContext) -> tuple[int, int]:
    return x, ctx.position


def test_items_know_where_they_come_from(kind: Kind) -> None:
    out = run(region(kind(2), pipe(whence), items=range(5, 50)))
    assert sorted(out) == [(x, x - 5) for x in range(5, 50)]


def test_stopping_in_the_middle(kind: Kind) -> None:
    threads = threading.active_count()
    with region(kind(2), pipe(ops.nap, concurrency=2), items=range(10**6)).auto_stop() as pipeline:
        for _ in range(20):
            pipeline.get_item(timeout=60)
    assert wait_until(lambda: threading.active_count() <= threads, 30)


def test_a_pipeline_that_nobody_holds(kind: Kind) -> None:
    threads = threading.active_count()
    pipeline = region(kind(2), pipe(ops.nap), items=range(10), continuous=True)
    pipeline.get_item(timeout=60)
    del pipeline
    gc.collect()
    assert wait_until(lambda: threading.active_count() <= threads, 60)


def test_a_full_sink_holds_the_workers(kind: Kind) -> None:
    pulled: list[int] = []

    def source() -> Any:
        for x in range(1_000_000):
            pulled.append(x)
            yield x

    with region(kind(1), pipe(ops.same), items=source()).auto_stop() as pipeline:
        pipeline.get_item(timeout=60)
        before = -1
        while before != len(pulled):
            before = len(pulled)
            time.sleep(0.3)
        assert before < 900_000


def test_large_items_both_ways(kind: Kind) -> None:
    items = [bytes([i]) * (i * 200_000) for i in range(12)]
    assert sorted(run(region(kind(2), pipe(ops.same), items=items))) == items


def test_several_kinds_in_one_pipeline(kind: Kind) -> None:
    builder = PipelineBuilder[Any, Any]().add_source(range(60)).to(kind(2)).pipe(ops.square)
    builder = builder.to(ProcessPoolExecutorConfig(1)).pipe(ops.negative).to(ThreadPoolExecutorConfig(2))
    builder = builder.pipe(ops.three).to(MAIN_PROCESS)
    out = run(builder.add_sink().build(num_threads=1))
    assert sorted(out) == sorted(y for x in range(60) for y in ops.three(-x * x))


def test_an_op_that_does_not_return_is_named_by_stop() -> None:
    op = ops.Stuck()
    threads = threading.active_count()
    pipeline = region(ThreadPoolExecutorConfig(1), pipe(op))
    pipeline.start()
    assert op.entered.wait(60)
    with pytest.raises(TimeoutError, match=r"1 op\(s\) of the pipeline still run.*\n.*Stage 'Stuck'"):
        pipeline.stop(timeout=0.3)
    op.leave.set()
    pipeline.stop()
    assert wait_until(lambda: threading.active_count() <= threads, 30)


def test_an_op_in_an_interpreter_holds_stop_up(kind_here: Kind) -> None:
    pipeline = region(kind_here(1), pipe(ops.short_nap))
    pipeline.start()
    assert wait_until(lambda: pipeline.statistics().stages[0].num_emitted > 0, 60)
    pipeline.stop()


@pytest.mark.filterwarnings("ignore:The pipeline was stopped before its end")
def test_an_op_in_threads_may_stop_its_pipeline_and_not_read_it() -> None:
    held: list[Pipeline[int]] = []
    errors: list[BaseException] = []

    def read_and_stop(x: int) -> int:
        if x == 20:
            try:
                while True:
                    held[0].get_item()
            except RuntimeError as error:
                errors.append(error)
            held[0].stop()
        return x

    pipeline = region(ThreadPoolExecutorConfig(1), pipe(read_and_stop), items=range(10**6))
    # The op may look for it at once.
    held.append(pipeline)
    with pipeline.auto_stop():
        assert wait_until(lambda: bool(errors), 60)
        list(pipeline.get_iterator(timeout=60))
    held.clear()
    assert "from within itself" in str(errors[0])


class Plain:
    """It cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_threads_pass_objects_on_as_they_are() -> None:
    items = [Plain() for _ in range(20)]
    out = run(region(ThreadPoolExecutorConfig(2), pipe(lambda x: (x, os.getpid())), items=items))
    assert {id(item) for item, _ in out} == set(map(id, items))
    assert {pid for _, pid in out} == {os.getpid()}


class Odd(Exception):  # noqa: N818 - a test's.
    """It cannot be pickled, as its argument cannot."""


def test_exceptions_in_threads_stay_what_they_are() -> None:
    raised = Odd(threading.Lock())
    told: list[Any] = []

    def fail(_: int) -> None:
        raise raised

    with pytest.raises(PipelineFailure) as caught:
        run(region(ThreadPoolExecutorConfig(1), pipe(fail, max_failures=0, on_failure=told.append), items=[1]))
    causes = [error.__cause__ for error in caught.value.exceptions]
    assert raised in causes


class CountingHook(TaskHook):
    """Counts tasks."""

    tasks: ClassVar[Counter[str]] = Counter()

    def __init__(self, name: str) -> None:
        self.name = name

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.tasks[self.name] += 1
        yield


def test_hooks_in_threads_are_objects_of_this_process() -> None:
    CountingHook.tasks.clear()
    builder = PipelineBuilder[Any, Any]().add_source(range(40)).to(ThreadPoolExecutorConfig(2)).pipe(ops.same)
    pipeline = (
        builder.to(MAIN_PROCESS)
        .add_sink()
        .build(num_threads=1, task_hook_factory=lambda info: [CountingHook(str(info))])
    )
    assert sorted(run(pipeline)) == list(range(40))
    assert list(CountingHook.tasks.values()) == [40]
    (name,) = CountingHook.tasks
    assert name.endswith(":1:same")


@needs_interpreters
def test_what_an_interpreter_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    use_interpreters(monkeypatch)
    workers = InterpreterPoolExecutorConfig(1)
    pipeline = region(workers, pipe(ops.import_numpy))
    with pytest.raises(PipelineFailure):
        run(pipeline)
    assert "does not support loading in subinterpreters" in pipeline.failures()[0].error
    here = type("Here", (), {"__module__": "__main__", "__call__": lambda self, x: x})()
    with pytest.raises(TypeError, match="it is of the main module"):
        run(region(workers, pipe(here)))


@pytest.mark.skipif(not OLD, reason="this Python has concurrent.interpreters")
def test_older_pythons_are_refused() -> None:
    open_region = PipelineBuilder().add_source([1]).to(InterpreterPoolExecutorConfig(1)).pipe(str).to(MAIN_PROCESS)
    with pytest.raises(RuntimeError, match=r"InterpreterPoolExecutorConfig requires Python 3\.14"):
        open_region.add_sink().get_config()
