"""Test task hooks when a pipeline ends, is stopped, or fails."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from inspect import CORO_CLOSED, getcoroutinestate
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.hooks.diaries import Diary, Swallowing, fail_on_one
from tests.pipeline.support import source, wait_until

from spdl.pipeline import PipelineFailure, TaskHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator


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
                # If the generator were only closed, the line after the yield would not run.
                yield
                left.append(self)

        builder = source(iter(int, 1)).pipe(str).add_sink(1)
        pipeline = builder.build(num_threads=2, task_hook_factory=lambda _: [Plain()])
        pipeline.start()
        assert pipeline.get_item(timeout=20) == "0"
        pipeline.stop()
        assert len(left) == 1

    @pytest.mark.parametrize("ended_by", ["timeout", "stop"])
    def test_a_generator_is_closed_after_its_last_step(self, ended_by: str) -> None:
        # The step is under way when it is no longer wanted, so the generator cannot be closed at that moment.
        begun, go, closed = threading.Event(), threading.Event(), threading.Event()
        # Letting go of it would close it, too, if nobody else had it.
        made: list[Iterator[int]] = []

        def steps(x: int) -> Iterator[int]:
            try:
                begun.set()
                go.wait(20)
                yield x
            finally:
                closed.set()

        def op(x: int) -> Iterator[int]:
            made.append(steps(x))
            return made[-1]

        # The call of the op itself has that time as well, so it is longer than any pause of a busy machine.
        timeout = 5.0 if ended_by == "timeout" else None
        builder = source([1]).pipe(op, timeout=timeout, on_timeout="drop").add_sink(3)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Swallowing()])
        pipeline.start()
        assert begun.wait(20)
        with pytest.raises(PipelineFailure if ended_by == "timeout" else TimeoutError):
            pipeline.get_item(timeout=20 if ended_by == "timeout" else 0)
        stopping = threading.Thread(target=pipeline.stop)
        stopping.start()
        go.set()
        stopping.join(20)
        assert closed.wait(20)

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
        # So the consumer is told of the exception.
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
        assert time.monotonic() - begin < 9
        assert seen == ["enter", "cancelled"]

    @pytest.mark.parametrize("pool", [False, True])
    def test_a_coroutine_that_comes_after_the_stop_is_closed(self, *, pool: bool) -> None:
        begun, go = threading.Event(), threading.Event()
        made: list[Coroutine[Any, Any, int]] = []

        async def asynchronous(x: int) -> int:
            return x

        def op(x: int) -> Coroutine[Any, Any, int]:
            begun.set()
            go.wait(20)
            made.append(asynchronous(x))
            return made[-1]

        with ThreadPoolExecutor(1) as executor:
            builder = source(range(3)).pipe(op, executor=executor if pool else None).add_sink(1)
            pipeline = builder.build(num_threads=1, task_hook_factory=lambda _: [Swallowing()])
            pipeline.start()
            assert begun.wait(20)

            def return_late() -> None:
                # The task that waits for the call is cancelled before the call ends.
                assert wait_until(lambda: pipeline._engine.stopping)
                time.sleep(0.1)
                go.set()

            returning = threading.Thread(target=return_late)
            returning.start()
            pipeline.stop()
            returning.join()
        assert len(made) == 1
        assert wait_until(lambda: getcoroutinestate(made[0]) == CORO_CLOSED)

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
        assert time.monotonic() - begin < 9

    def test_waiting_hooks_take_no_threads(self) -> None:
        """Many tasks may wait in their hooks at once, as with a limit on requests."""
        waiting = 0
        most = 0
        all_wait = asyncio.Event()

        class Waiting(TaskHook):
            @asynccontextmanager
            async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
                nonlocal waiting, most
                waiting += 1
                most = max(most, waiting)
                if waiting == 8:
                    all_wait.set()
                # However slowly the first ones come.
                await asyncio.wait_for(all_wait.wait(), 20)
                await asyncio.sleep(0.01)
                waiting -= 1
                yield

        builder = source(range(16)).pipe(str, concurrency=8).add_sink(1)
        with builder.build(num_threads=1, task_hook_factory=lambda _: [Waiting()]).auto_stop() as pipeline:
            assert len(list(pipeline)) == 16
        assert most == 8

    def test_a_task_that_is_cancelled_once_its_op_has_returned(self) -> None:
        """The worker is free by then, so no worker is replaced."""

        class Late(TaskHook):
            @asynccontextmanager
            async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
                if input_item % 2:
                    await asyncio.sleep(0.01)
                    # The event loop sees the end of the other op and its time limit in the same turn.
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
            # One that a busy machine has kept in its op beyond the limit is left to it, and notes its end.
            assert wait_until(lambda: pipeline._engine.workers.abandoned == 0)
        assert set(got) >= set(range(1, 12, 2))

    def test_retries_are_tasks_of_their_own(self) -> None:
        lines: list[str] = []
        builder = source([1]).pipe(fail_on_one, name="op", retries=2, retry_delay=0.001).add_sink(9)
        pipeline = builder.build(num_threads=1, task_hook_factory=lambda info: [Diary(info, lines)])
        with pipeline.auto_stop(), pytest.raises(PipelineFailure):
            list(pipeline.get_iterator(timeout=20))
        assert lines.count("op 1 ValueError") == 3


class _FailingAtTheSecondStep(TaskHook):
    def __init__(self) -> None:
        self.steps = 0

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.steps += 1
        if self.steps == 2:
            raise ValueError("the second step")
        yield


def test_a_stop_waits_for_a_generator_whose_hook_has_failed() -> None:
    closing, saved = threading.Event(), threading.Event()

    async def op(x: int) -> AsyncIterator[int]:
        try:
            yield x
            yield x
        finally:
            closing.set()
            await asyncio.sleep(0.05)
            saved.set()

    hook = _FailingAtTheSecondStep()
    builder = source(range(1)).pipe(op).add_sink(9)
    with builder.build(num_threads=1, task_hook_factory=lambda _: [hook]).auto_stop() as pipeline:
        assert next(iter(pipeline)) == 0
        assert closing.wait(20)
    assert saved.is_set()
