"""Test hooks that cancel their own task, and hooks that raise the same exception for every item."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source, twice, twice_async

from spdl.pipeline import AsyncQueue, PipelineFailure, TaskHook
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from spdl.pipeline import Pipeline, PipelineBuilder


def same(x: int) -> int:
    return x


async def same_async(x: int) -> int:
    await asyncio.sleep(0)
    return x


async def same_at_once(x: int) -> int:
    return x


class Singles(Aggregator[int, list[int]]):
    """An aggregator that returns each item when the next one comes, and calls something while it works on item 1."""

    def __init__(self, meanwhile: Callable[[], object] = bool) -> None:
        self.meanwhile = meanwhile
        self.held: list[int] = []
        self.at_once = self.most = 0

    def accumulate(self, item: int) -> list[int] | None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        held, self.held = self.held, [item]
        if item == 1:
            self.meanwhile()
        self.at_once -= 1
        return held or None

    def flush(self) -> list[int] | None:
        return self.held or None


class Cancelling(TaskHook):
    """A hook that cancels its own task at the given moment, for item 1."""

    def __init__(self, moment: str) -> None:
        self.moment = moment

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        meant = input_item in (1, [1])
        if meant and self.moment.startswith("enter"):
            await self.cancel()
        yield
        if meant and self.moment.startswith("leave"):
            await self.cancel()

    async def cancel(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if self.moment.endswith("wait"):
            await asyncio.sleep(0)


class Watching(TaskHook):
    """A hook that records the exceptions it sees, outside or inside another hook."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        try:
            yield
        except BaseException as error:
            self.seen.append(type(error).__name__)
            raise
        await asyncio.sleep(0)


def assert_named(pipeline: Pipeline[Any], stage: int = 1) -> None:
    (failed,) = pipeline.failures()
    assert failed.error == "RuntimeError: The task hook 'Cancelling' cancelled the task that it wraps."
    assert failed.positions[-1:] == (1,)
    assert pipeline.statistics().stages[stage].num_failed == 1


@pytest.mark.parametrize("moment", ["enter", "enter and wait", "leave", "leave and wait"])
class TestCancelling:
    @pytest.mark.parametrize("op", [same, same_async, same_at_once])
    @pytest.mark.parametrize("order", ["completion", "input"])
    def test_functions(self, moment: str, op: Callable[[int], Any], order: Any) -> None:
        builder = source(range(5)).pipe(op, output_order=order).add_sink(9)
        outer, inner = Watching(), Watching()
        hooks = [outer, Cancelling(moment), inner]
        with builder.build(num_threads=1, task_hook_factory=lambda _: hooks).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 2, 3, 4]
        assert_named(pipeline)
        assert (outer.seen, inner.seen) == (["CancelledError"], [])

    @pytest.mark.parametrize("op", [twice, twice_async])
    def test_generators(self, moment: str, op: Callable[[int], Any]) -> None:
        builder = source(range(4)).pipe(op).add_sink(9)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Cancelling(moment)]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 100, 2, 102, 3, 103]
        assert_named(pipeline)

    def test_elements(self, moment: str) -> None:
        builder = source([[0], [1], [2], [3]]).disaggregate().add_sink(9)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Cancelling(moment)]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 2, 3]
        assert_named(pipeline)

    def test_aggregators(self, moment: str) -> None:
        """Only an item that was given up before the aggregator saw it is missing."""
        builder = source(range(5)).aggregate(Singles()).add_sink(9)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Cancelling(moment)]).auto_stop() as pipeline:
            got = list(pipeline.get_iterator(timeout=20))
        assert got == [[0], *([[1]] * moment.startswith("leave")), [2], [3], [4]]
        assert_named(pipeline)

    def test_a_pool_of_threads(self, moment: str) -> None:
        with ThreadPoolExecutor(1) as executor:
            self.in_executor(source(range(4)).pipe(same, executor=executor), moment)

    @pytest.mark.timeout(120)
    def test_a_pool_of_processes(self, moment: str) -> None:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as executor:
            self.in_executor(source(range(4)).pipe(same, executor=executor), moment)

    def in_executor(self, builder: PipelineBuilder[Any, Any], moment: str) -> None:
        pipeline = builder.add_sink(9).build(num_threads=1, task_hook_factory=lambda _: [Cancelling(moment)])
        with pipeline.auto_stop():
            assert list(pipeline.get_iterator(timeout=60)) == [0, 2, 3]
        assert_named(pipeline)

    @pytest.mark.parametrize("owner", ["hook", "queue"])
    def test_the_lifespan_of_a_stage(self, moment: str, owner: str) -> None:
        """A stage whose hook was not entered properly must not go on."""

        class AroundStage(Cancelling):
            @asynccontextmanager
            async def stage_hook(self) -> AsyncIterator[None]:
                if moment.startswith("enter"):
                    await self.cancel()
                yield
                if moment.startswith("leave"):
                    await self.cancel()

        class Queue(AsyncQueue[Any]):
            def stage_hook(self) -> Any:
                return AroundStage(moment).stage_hook()

        builder = source(range(9)).pipe(same).add_sink(9)
        if owner == "hook":
            pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [AroundStage(moment)])
        else:
            pipeline = builder.build(num_threads=1, queue_class=Queue)
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
        pipeline.stop()
        for error in caught.value.exceptions:
            assert "was cancelled from within" in str(error)
            assert "Raised by a context manager around the stage's lifespan." in error.__notes__


class Limited(TaskHook):
    """A hook that sets a time limit for item 1, which it exceeds when something has happened, and tells so."""

    def __init__(self, happened: Callable[[], bool] = lambda: True, tell: Callable[[], object] = bool) -> None:
        self.happened, self.tell = happened, tell

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as limit:
            if input_item == 1:
                _when(self.happened, lambda: limit.reschedule(0), self.tell)
            yield


class Delayed(TaskHook):
    """A hook that has its task cancelled from outside, for item 1, when something has happened, and tells so."""

    def __init__(self, happened: Callable[[], bool], tell: Callable[[], object]) -> None:
        self.happened, self.tell = happened, tell

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        task = asyncio.current_task()
        assert task is not None
        if input_item == 1:
            _when(self.happened, task.cancel, self.tell)
        yield


def _when(happened: Callable[[], bool], act: Callable[[], object], tell: Callable[[], object]) -> None:
    """Act on the event loop when something has happened, and tell a moment later."""
    loop = asyncio.get_running_loop()

    def look() -> None:
        if happened():
            act()
            loop.call_later(0.02, tell)
        else:
            loop.call_later(0.005, look)

    loop.call_later(0.02, look)


class TestTimeouts:
    """Timeout scopes in hooks, which cancel the task and catch the cancellation themselves."""

    def test_one_in_a_hook_is_that_hooks_failure(self) -> None:
        async def op(x: int) -> int:
            await asyncio.sleep(20 * (x == 1))
            return x

        builder = source(range(4)).pipe(op).add_sink(9)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Limited()]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 2, 3]
        (failed,) = pipeline.failures()
        assert failed.error.startswith("TimeoutError")
        assert "Raised by the task hook 'Limited', not by the op." in failed.traceback

    def test_one_that_is_caught_is_no_failure(self) -> None:
        class Patient(TaskHook):
            @asynccontextmanager
            async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
                try:
                    async with asyncio.timeout(0.01):
                        await asyncio.sleep(20)
                except TimeoutError:
                    yield

        builder = source(range(3)).pipe(same).add_sink(9)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Patient()]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 1, 2]

    @pytest.mark.parametrize("hook", [Limited, Delayed])
    def test_an_aggregator_is_called_by_one_thread_at_a_time(self, hook: type[Limited | Delayed]) -> None:
        """A call of the aggregator has begun when a hook gives it up, so it is awaited, and its result counts."""
        begun, given_up = threading.Event(), threading.Event()

        def meanwhile() -> None:
            begun.set()
            assert given_up.wait(20)
            # Others have the time to call it as well.
            time.sleep(0.2)

        singles = Singles(meanwhile)
        builder = source(range(4)).aggregate(singles).add_sink(9)
        hooks = [hook(begun.is_set, given_up.set)]
        with builder.build(num_threads=3, task_hook_factory=lambda _: hooks).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [[0], [1], [2], [3]]
        assert singles.most == 1
        (failed,) = pipeline.failures()
        assert f"task hook {hook.__name__!r}" in failed.traceback
        assert failed.positions[-1:] == (1,)

    def test_stop_does_not_wait_for_an_aggregator_for_ever(self) -> None:
        begun, release = threading.Event(), threading.Event()

        class Slow(Singles):
            def accumulate(self, item: int) -> list[int] | None:
                begun.set()
                release.wait(20)
                return None

        pipeline = source(range(4)).aggregate(Slow()).add_sink(9)
        built = pipeline.build(num_threads=1, task_hook_factory=lambda _: [Watching()])
        built.start()
        assert begun.wait(20)
        with pytest.raises(TimeoutError):
            built.stop(timeout=0.2)
        release.set()
        built.stop(timeout=20)


def test_one_exception_for_every_item_gathers_no_notes() -> None:
    error = OSError("no disk")

    class Failing(TaskHook):
        @asynccontextmanager
        async def stage_hook(self) -> AsyncIterator[None]:
            yield
            raise error

        @asynccontextmanager
        async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
            if input_item:
                raise error
            yield

    builder = source(range(50)).pipe(same).pipe(same).add_sink(9)
    with builder.build(num_threads=1, task_hook_factory=lambda _: [Failing(), Failing()]).auto_stop() as pipeline:
        with pytest.raises(PipelineFailure):
            list(pipeline.get_iterator(timeout=20))
        assert len(pipeline.failures()) == 49
    notes = error.__notes__
    assert notes.count(next(note for note in notes if "'test_one_exception" in note)) == 1
    assert notes.count("Raised by a context manager around the stage's lifespan.") == 1
