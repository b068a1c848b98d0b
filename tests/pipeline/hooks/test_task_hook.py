"""Hooks around stages and tasks: what they see, and what comes of what they raise."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source, twice, twice_async, wait_until

from spdl.pipeline import PipelineFailure, TaskHook, build_pipeline, is_eof, is_epoch_end
from spdl.pipeline.defs import Aggregator, Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from spdl.pipeline import PipelineBuilder, StageInfo


class Diary(TaskHook):
    """Writes down what it sees, and the thread that it sees it in."""

    def __init__(self, info: StageInfo, lines: list[str]) -> None:
        self.name, self.lines = info.stage_name, lines
        self.threads: set[str] = set()

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.lines.append(f"enter {self.name}")
        try:
            yield
        finally:
            self.lines.append(f"leave {self.name}")

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.threads.add(threading.current_thread().name)
        shown = "EOF" if is_eof(input_item) else "EPOCH" if is_epoch_end(input_item) else repr(input_item)
        try:
            yield
        except BaseException as error:
            self.lines.append(f"{self.name} {shown} {type(error).__name__}")
            raise
        self.lines.append(f"{self.name} {shown}")


def hooked(
    builder: PipelineBuilder[Any, Any], *, num_threads: int = 2, timeout: float = 20
) -> tuple[list[Any], list[str], Any]:
    """What comes out, what the hooks saw, and the pipeline."""
    lines: list[str] = []
    pipeline = builder.add_sink(3).build(num_threads=num_threads, task_hook_factory=lambda info: [Diary(info, lines)])
    with pipeline.auto_stop():
        items = list(pipeline.get_iterator(timeout=timeout))
    return items, lines, pipeline


def fail_on_one(x: int) -> int:
    if x == 1:
        raise ValueError("one")
    return x


async def fail_on_one_async(x: int) -> int:
    await asyncio.sleep(0)
    return fail_on_one(x)


def returns_coroutine(x: int) -> Any:
    return fail_on_one_async(x)


def returns_generator(x: int) -> Any:
    return twice(x)


class Pairs(Aggregator[int, list[int]]):
    """Gathers two at a time."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def accumulate(self, item: int) -> list[int] | None:
        self.held.append(item)
        return self.flush() if len(self.held) == 2 else None

    def flush(self) -> list[int] | None:
        held, self.held = self.held, []
        return held or None


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
    # The call that makes a generator unexpectedly is a task as well.
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


class Faulty(TaskHook):
    """Raises at one moment of the task whose item is 1."""

    def __init__(self, moment: str, error: BaseException | type[BaseException]) -> None:
        self.moment, self.error = moment, error

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        if input_item == 1 and self.moment == "enter":
            raise self.error
        yield
        if input_item == 1 and self.moment == "leave":
            raise self.error


class Swallowing(TaskHook):
    """Lets nothing through."""

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        with suppress(Exception):
            yield


class TestFaults:
    @pytest.mark.parametrize("moment", ["enter", "leave"])
    def test_a_hook_that_raises_drops_the_item_and_is_named(self, moment: str) -> None:
        builder = source(range(3)).pipe(str, name="op").add_sink(3)
        hook = Faulty(moment, OSError("no disk"))
        with builder.build(num_threads=1, task_hook_factory=lambda _: [hook]).auto_stop() as pipeline:
            assert list(pipeline) == ["0", "2"]
        (failed,) = pipeline.failures()
        assert failed.positions == (1,)
        assert "OSError: no disk" in failed.error
        assert "Raised by the task hook 'Faulty', not by the op" in failed.traceback
        assert pipeline.statistics().stages[1].num_failed == 1

    def test_a_hooks_failures_count(self) -> None:
        builder = source(range(9)).pipe(str, max_failures=0).add_sink(3)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Faulty("enter", OSError("no disk"))])
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
        assert isinstance(caught.value.exceptions[0].__cause__, OSError)
        pipeline.stop()

    @pytest.mark.parametrize("moment", ["enter", "leave"])
    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_what_is_no_exception_fails_the_pipeline(self, moment: str, error: type[BaseException]) -> None:
        builder = source(range(9)).pipe(str).add_sink(3)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Faulty(moment, error)])
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
        assert isinstance(caught.value.exceptions[0].__cause__, error)
        pipeline.stop()

    @pytest.mark.parametrize(("moment", "expected"), [("enter", [[0, 2], [3]]), ("leave", [[0, 1], [2, 3]])])
    def test_an_aggregate_loses_no_batch_to_a_hook(self, moment: str, expected: list[list[int]]) -> None:
        """An item that did not reach the aggregator is given up; one that did has been gathered."""
        builder = source(range(4)).aggregate(Pairs()).add_sink(3)
        hook = Faulty(moment, OSError("no disk"))
        with builder.build(num_threads=1, task_hook_factory=lambda _: [hook]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == expected
        (failed,) = pipeline.failures()
        assert failed.positions[-1:] == (1,)

    @pytest.mark.parametrize("op", [twice, twice_async])
    def test_a_hook_may_swallow_the_end_of_a_generator(self, op: Callable[[int], Any]) -> None:
        builder = source([1, 2]).pipe(op, output_order="input" if op is twice else "completion").add_sink(3)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Swallowing()]).auto_stop() as pipeline:
            assert sorted(pipeline.get_iterator(timeout=20)) == [1, 2, 101, 102]

    def test_what_a_hook_swallows_drops_the_item(self) -> None:
        builder = source(range(3)).pipe(fail_on_one).add_sink(3)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Swallowing()]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 2]
        assert pipeline.failures() == []
        assert pipeline.statistics().stages[1].num_dropped == 1

    @pytest.mark.parametrize("moment", ["enter", "leave"])
    def test_a_stage_hook_that_raises_fails_the_pipeline(self, moment: str) -> None:
        class Raising(Faulty):
            @asynccontextmanager
            async def stage_hook(self) -> AsyncIterator[None]:
                if moment == "enter":
                    raise OSError("no disk")
                yield
                raise OSError("no disk")

        builder = source(range(3)).pipe(str).add_sink(9)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Raising("", OSError)])
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
        (error,) = caught.value.exceptions
        assert isinstance(error, OSError)
        assert any(note.endswith(":1:str") for note in error.__notes__)
        pipeline.stop()

    def test_a_stage_hook_without_its_decorator_is_told_at_the_build(self) -> None:
        class Forgot(Swallowing):
            async def stage_hook(self) -> AsyncIterator[None]:  # type: ignore[override]
                yield

        builder = source(range(3)).pipe(str).add_sink(1)
        with pytest.raises(ValueError, match=r"Forgot\.stage_hook` must return .*asynccontextmanager"):
            builder.build(num_threads=1, task_hook_factory=lambda _: [Forgot()])

    @pytest.mark.parametrize("returned", ["coroutine", "generator", None, 3])
    def test_a_task_hook_without_its_decorator_is_told_with_each_item(self, returned: Any) -> None:
        class Forgot(Swallowing):
            def task_hook(self, input_item: Any = None) -> Any:
                return {"coroutine": fail_on_one_async, "generator": twice_async}.get(returned, lambda _: returned)(1)

        pipeline = source(range(3)).pipe(str).add_sink(1).build(num_threads=1, task_hook_factory=lambda _: [Forgot()])
        with pytest.raises(PipelineFailure, match="failed"):
            list(pipeline.get_iterator(timeout=20))
        pipeline.stop()
        assert len(pipeline.failures()) == 3
        for failed in pipeline.failures():
            assert re.match(
                r"TypeError: `.*Forgot\.task_hook` must return an async context manager, got .*\. Decorate it with "
                r"`contextlib\.asynccontextmanager`\.",
                failed.error,
            )

    @pytest.mark.parametrize("wrong", [None, 3, [3], "hooks", Swallowing()])
    def test_a_factory_that_returns_something_else_is_told_at_the_build(self, wrong: Any) -> None:
        builder = source(range(3)).pipe(str).add_sink(1)
        with pytest.raises(TypeError, match=r"`task_hook_factory` must be a function that returns a list of TaskHook"):
            builder.build(num_threads=1, task_hook_factory=lambda _: wrong)


class TestTheEnd:
    def test_stop_leaves_the_stage_hooks(self) -> None:
        lines: list[str] = []
        builder = source(iter(int, 1)).pipe(str, name="op").add_sink(1)
        pipeline = builder.build(num_threads=2, task_hook_factory=lambda info: [Diary(info, lines)])
        pipeline.start()
        assert pipeline.get_item(timeout=20) == "0"
        pipeline.stop()
        assert (lines[0], lines[-1]) == ("enter op", "leave op")

    def test_stop_leaves_the_stage_hooks_as_their_block_ends(self) -> None:
        left = []

        class Plain(Swallowing):
            @asynccontextmanager
            async def stage_hook(self) -> AsyncIterator[None]:
                # Where a generator is only closed, what is below does not run.
                yield
                left.append(self)

        builder = source(iter(int, 1)).pipe(str).add_sink(1)
        pipeline = builder.build(num_threads=2, task_hook_factory=lambda _: [Plain()])
        pipeline.start()
        assert pipeline.get_item(timeout=20) == "0"
        pipeline.stop()
        assert len(left) == 1

    def test_the_pipeline_does_not_end_before_the_stage_hooks_are_left(self) -> None:
        go = threading.Event()

        class Slow(Swallowing):
            @asynccontextmanager
            async def stage_hook(self) -> AsyncIterator[None]:
                yield
                await asyncio.to_thread(go.wait, 20)
                raise OSError("no disk")

        pipeline = source([1]).pipe(str).add_sink(3).build(num_threads=1, task_hook_factory=lambda _: [Slow()])
        assert pipeline.get_item(timeout=20) == "1"
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0.2)
        go.set()
        # So what is raised there is told.
        with pytest.raises(PipelineFailure, match="failed"):
            pipeline.get_item(timeout=20)
        pipeline.stop()

    def test_stop_cancels_a_hook_that_waits(self) -> None:
        seen: list[str] = []

        class Waiting(TaskHook):
            @asynccontextmanager
            async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
                seen.append("enter")
                try:
                    await asyncio.sleep(60)
                    yield
                except asyncio.CancelledError:
                    seen.append("cancelled")
                    raise

        builder = source(range(3)).pipe(str).add_sink(1)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Waiting()])
        pipeline.start()
        assert wait_until(lambda: seen)
        begin = time.monotonic()
        pipeline.stop()
        assert time.monotonic() - begin < 5
        assert seen == ["enter", "cancelled"]

    def test_stop_while_a_stage_hook_is_entered(self) -> None:
        entered = threading.Event()

        class Waiting(Swallowing):
            @asynccontextmanager
            async def stage_hook(self) -> AsyncIterator[None]:
                entered.set()
                await asyncio.sleep(60)
                yield

        builder = source(range(3)).pipe(str).add_sink(1)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Waiting()])
        pipeline.start()
        assert entered.wait(20)
        begin = time.monotonic()
        pipeline.stop()
        assert time.monotonic() - begin < 5

    def test_waiting_hooks_take_no_threads(self) -> None:
        """Many tasks may wait in their hooks at once, as with a limit of requests."""
        waiting = 0
        most = 0

        class Waiting(TaskHook):
            @asynccontextmanager
            async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
                nonlocal waiting, most
                waiting += 1
                most = max(most, waiting)
                await asyncio.sleep(0.05)
                waiting -= 1
                yield

        builder = source(range(16)).pipe(str, concurrency=8).add_sink(1)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Waiting()]).auto_stop() as pipeline:
            assert len(list(pipeline)) == 16
        assert most == 8

    def test_an_op_that_takes_too_long_is_dropped_and_its_thread_replaced(self) -> None:
        release = threading.Event()

        def op(x: int) -> int:
            if x == 1:
                release.wait(20)
            return x

        lines: list[str] = []
        builder = source(range(5)).pipe(op, name="op", timeout=0.1, on_timeout="drop").add_sink(9)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda info: [Diary(info, lines)])
        with pipeline.auto_stop():
            assert list(pipeline.get_iterator(timeout=20)) == [0, 2, 3, 4]
            release.set()
        assert "op 1 CancelledError" in lines
        assert [item.positions for item in pipeline.failures()] == [(1,)]

    def test_a_task_that_is_cancelled_once_its_op_has_returned(self) -> None:
        """The worker is free by then, so there is nobody to replace."""

        class Late(TaskHook):
            @asynccontextmanager
            async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
                if input_item % 2:
                    await asyncio.sleep(0.01)
                    # The event loop sees the other op's end and its time limit in the same turn.
                    time.sleep(0.1)  # noqa: ASYNC251 - see above.
                    yield
                else:
                    async with asyncio.timeout(0.05):
                        yield

        def op(x: int) -> int:
            time.sleep(0.0 if x % 2 else 0.03)
            return x

        builder = source(range(12)).pipe(op, concurrency=2).add_sink(20)
        with builder.build(num_threads=2, task_hook_factory=lambda _: [Late()]).auto_stop() as pipeline:
            got = list(pipeline.get_iterator(timeout=20))
            assert pipeline._engine.written_off == 0
        assert set(got) >= set(range(1, 12, 2))

    def test_retries_are_tasks_of_their_own(self) -> None:
        lines: list[str] = []
        builder = source([1]).pipe(fail_on_one, name="op", retries=2, retry_delay=0.001).add_sink(9)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda info: [Diary(info, lines)])
        with pipeline.auto_stop(), pytest.raises(PipelineFailure):
            list(pipeline.get_iterator(timeout=20))
        assert lines.count("op 1 ValueError") == 3


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
