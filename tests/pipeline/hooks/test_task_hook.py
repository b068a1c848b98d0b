"""Test hooks around stages and tasks: what they see, and where they come from."""

from __future__ import annotations

import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.aggregators import Pairs
from tests.pipeline.hooks.diaries import Diary, Swallowing, fail_on_one, fail_on_one_async, hooked
from tests.pipeline.support import source, twice, twice_async

from spdl.pipeline import TaskHook, build_pipeline
from spdl.pipeline.defs import Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline import StageInfo


def returns_coroutine(x: int) -> Any:
    return fail_on_one_async(x)


def returns_generator(x: int) -> Any:
    return twice(x)


@pytest.mark.parametrize("op", [fail_on_one, fail_on_one_async, returns_coroutine])
def test_tasks_of_functions(op: Callable[[int], Any]) -> None:
    items, lines, pipeline = hooked(source(range(3)).pipe(op, name="op"))
    assert items == [0, 2]
    assert lines == ["enter op", "op 0", "op 1 ValueError", "op 2", "leave op"]
    (failed,) = pipeline.failures()
    assert (failed.positions, failed.error) == ((1,), "ValueError: one")


@pytest.mark.parametrize("op", [twice, twice_async, returns_generator])
def test_every_step_of_a_generator_is_a_task(op: Callable[[int], Any]) -> None:
    items, lines, _ = hooked(source([7]).pipe(op, name="op"))
    assert items == [7, 107]
    steps = ["op 7", "op 7", "op 7 StopAsyncIteration"]
    # The call of a plain function that returns a generator is a task, too.
    steps = ["op 7", *steps] if op not in (twice, twice_async) else steps
    assert lines == ["enter op", *steps, "leave op"]


@pytest.mark.parametrize("order", ["completion", "input"])
def test_nothing_is_lost_and_order_is_kept(order: Any) -> None:
    def op(x: int) -> int:
        time.sleep(0.002 * (x % 3))
        return x

    builder = (
        source(range(60)).pipe(op, concurrency=4, output_order=order).pipe(twice, concurrency=3, output_order=order)
    )
    items, lines, _ = hooked(builder, num_threads=4)
    expected = [y for x in range(60) for y in (x, x + 100)]
    assert items == expected if order == "input" else sorted(items) == sorted(expected)
    assert len([line for line in lines if line.startswith("op")]) == 60


def test_aggregates_and_elements() -> None:
    items, lines, _ = hooked(source(range(3)).aggregate(Pairs()).disaggregate())
    assert items == [0, 1, 2]
    tasks = [line.rpartition(" ")[2] for line in lines if line.startswith("aggregate")]
    assert tasks == ["0", "1", "2", "EOF"]
    elements = [line for line in lines if line.startswith("disaggregate")]
    assert elements == [
        *["disaggregate [0, 1]"] * 2,
        "disaggregate [0, 1] StopAsyncIteration",
        "disaggregate [2]",
        "disaggregate [2] StopAsyncIteration",
    ]


def test_the_end_of_an_epoch_is_told_to_aggregates() -> None:
    lines: list[str] = []
    builder = source(range(3), continuous=True).aggregate(Pairs()).add_sink(3)
    with builder.build(num_threads=1, task_hook_factory=lambda info: [Diary(info, lines)]).auto_stop() as pipeline:
        for _ in range(3):
            assert list(pipeline) == [[0, 1], [2]]
    assert [line.rpartition(" ")[2] for line in lines if "enter" not in line][:4] == ["0", "1", "2", "EPOCH"]


def test_hooks_nest_and_run_on_the_loop_while_ops_run_in_workers() -> None:
    lines: list[str] = []
    diaries: list[Diary] = []
    threads = set()

    class Inner(Diary):
        def __init__(self, info: StageInfo, lines: list[str]) -> None:
            super().__init__(info, lines)
            self.name = "inner"

    def factory(info: StageInfo) -> list[TaskHook]:
        diaries.extend([Diary(info, lines), Inner(info, lines)])
        return list(diaries)

    def op(x: int) -> int:
        threads.add(threading.current_thread().name.rpartition("_thread_")[0])
        return x

    pipeline = source([1]).pipe(op, name="outer").add_sink(1).build(num_threads=1, task_hook_factory=factory)
    with pipeline.auto_stop():
        assert list(pipeline) == [1]
    assert lines == ["enter outer", "enter inner", "inner 1", "outer 1", "leave inner", "leave outer"]
    assert {name.rpartition("_thread_")[0] for diary in diaries for name in diary.threads} == {"spdl_event_loop"}
    assert threads == {"spdl_worker"}


def test_merges_and_forks_live_but_have_no_tasks() -> None:
    lines: list[str] = []
    branch = PipelineConfig(SourceConfig(range(4)), [], SinkConfig(1))
    fork = PathVariants(lambda x: x % 2, [[Pipe(str, name="even")], [Pipe(str, name="odd")]], "fork")
    config = PipelineConfig(Merge([branch]), [fork], SinkConfig(2))
    with build_pipeline(config, num_threads=2, task_hook_factory=lambda info: [Diary(info, lines)]).auto_stop() as it:
        assert sorted(it) == ["0", "1", "2", "3"]
    entered = {line.partition(" ")[2] for line in lines if line.startswith("enter")}
    assert entered == {"merge", "fork", "even", "odd", "fork_merge"}
    assert sorted(line for line in lines if not line.startswith(("enter", "leave"))) == [
        "even 0",
        "even 2",
        "odd 1",
        "odd 3",
    ]
    assert len(lines) == 10 + 4


def test_hooks_of_a_stage_in_a_pool_of_threads() -> None:
    names = set()

    def op(x: int) -> Iterator[int]:
        names.add(threading.current_thread().name.partition("_")[0])
        yield from twice(x)

    with ThreadPoolExecutor(2, thread_name_prefix="mine") as executor:
        items, lines, _ = hooked(source(range(3)).pipe(op, executor=executor, name="op", output_order="input"))
    assert items == [0, 100, 1, 101, 2, 102]
    assert names == {"mine"}
    assert len(lines) == 2 + 9


@pytest.mark.timeout(120)
def test_hooks_of_a_stage_in_processes() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        items, lines, pipeline = hooked(
            source(range(3)).pipe(fail_on_one, executor=executor, name="op").pipe(twice, executor=executor, name="two"),
            timeout=60,
        )
        executor.submit(int).result()
    assert items == [0, 100, 2, 102]
    assert [line for line in lines if line.startswith("op")] == ["op 0", "op 1 ValueError", "op 2"]
    assert [line for line in lines if line.startswith("two")] == ["two 0", "two 2"]
    assert "raise ValueError" in pipeline.failures()[0].traceback


def test_the_process_default_is_used_and_a_factory_overrides_it() -> None:
    from spdl.pipeline.config import set_default_hook_class  # noqa: PLC0415 - what this test is about.

    made = []

    class Default(Swallowing):
        def __init__(self, info: StageInfo, interval: float) -> None:
            made.append((str(info).partition(":")[2], interval))

    set_default_hook_class(Default)
    try:
        builder = source(range(2)).pipe(str).add_sink(3)
        with builder.build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline) == ["0", "1"]
        assert made == [("1:str", -1)]
        with builder.build(num_threads=1, task_hook_factory=lambda _: []).auto_stop() as pipeline:
            assert list(pipeline) == ["0", "1"]
        assert len(made) == 1
    finally:
        set_default_hook_class()
