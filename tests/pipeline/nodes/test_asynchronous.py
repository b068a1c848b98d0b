"""Test async ops and async sources."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import rests, run, source, wait_until

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class TestAsync:
    def test_concurrency_is_reached_and_not_exceeded(self) -> None:
        running, most = 0, 0
        all_run = asyncio.Event()

        async def op(x: int) -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            if running == 16:
                all_run.set()
            # However slowly the first ones come.
            await asyncio.wait_for(all_run.wait(), 20)
            await asyncio.sleep(0.002)
            running -= 1
            return x

        assert sorted(run(source(range(100)).pipe(op, concurrency=16))) == list(range(100))
        assert most == 16

    def test_they_share_one_thread_that_nobody_else_starts(self) -> None:
        names = set()

        async def op(x: int) -> int:
            names.add(threading.current_thread().name)
            return x

        assert run(source(range(10)).pipe(op).pipe(op)) == list(range(10))
        assert len(names) == 1
        before = threading.active_count()
        pipeline = source(range(10)).pipe(lambda x: x).add_sink(1).build(num_threads=1)
        with pipeline.auto_stop():
            assert pipeline.get_item() == 0
            assert threading.active_count() <= before + 2

    def test_failures_and_drops(self) -> None:
        async def op(x: int) -> int | None:
            await asyncio.sleep(0)
            if x == 1:
                raise ValueError(x)
            return x if x != 2 else None

        assert run(source(range(5)).pipe(op)) == [0, 3, 4]

    @pytest.mark.parametrize("how", ["pending", "raised", "swallowed", "swallowed and awaited"])
    @pytest.mark.parametrize("kind", ["function", "generator", "partial", "ordered", "lambda"])
    def test_an_op_that_cancels_its_own_task_concerns_its_item_alone(self, how: str, kind: str) -> None:
        async def op(x: int) -> int:
            task = asyncio.current_task()
            assert task is not None
            if x == 2:
                task.cancel()
                if how == "raised":
                    await asyncio.sleep(0)
                elif how.startswith("swallowed"):
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(0)
                    if "and" in how:
                        await asyncio.sleep(0)
            else:
                assert not task.cancelling()
                await asyncio.sleep(0)
            return x

        async def generator(x: int) -> AsyncIterator[int]:
            yield await op(x)

        ops: dict[str, Any] = {"function": op, "generator": generator, "partial": functools.partial(op), "ordered": op}
        # Only the result shows the engine that the op is async.
        ops["lambda"] = lambda x: op(abs(x))
        order: Any = "input" if kind == "ordered" else "completion"
        lost = [] if how.startswith("swallowed") else [2]
        with (
            source(range(6))
            .pipe(ops[kind], output_order=order)
            .add_sink(3)
            .build(num_threads=1)
            .auto_stop() as pipeline
        ):
            results = list(pipeline.get_iterator(timeout=20))
            failed = pipeline.failures()
        # A generator's result is passed on before the cancellation can take effect.
        kept = kind == "generator" and how == "pending"
        assert results == [x for x in range(6) if x not in lost or kept]
        assert len(failed) == len(lost)

    def test_callable_objects(self) -> None:
        class Op:
            async def __call__(self, x: int) -> int:
                return x + 1

        assert run(source(range(3)).pipe(Op())) == [1, 2, 3]

    def test_stop_cancels_what_is_under_way(self) -> None:
        begun, cancelled = threading.Event(), threading.Event()

        async def op(x: int) -> int:
            try:
                begun.set()
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return x

        pipeline = source(range(5)).pipe(op).add_sink(1).build(num_threads=1)
        with pipeline.auto_stop():
            assert begun.wait(20)
            with pytest.raises(TimeoutError):
                pipeline.get_item(timeout=0.05)
        assert cancelled.is_set()

    def test_an_endless_async_generator_is_paused_when_nobody_reads(self) -> None:
        produced: list[int] = []

        async def endless(x: int) -> AsyncIterator[int]:
            while True:
                await asyncio.sleep(0)
                produced.append(x)
                yield x

        with source([7]).pipe(endless).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
            assert wait_until(lambda: produced)
            # One result is in the sink, and the generator keeps the stage's slot.
            assert not wait_until(lambda: len(produced) > 1, seconds=0.2)
            assert [pipeline.get_item(timeout=10) for _ in range(50)] == [7] * 50

    def test_async_sources(self) -> None:
        closed = []

        async def items() -> AsyncIterator[int]:
            try:
                for i in range(50):
                    await asyncio.sleep(0)
                    yield i
            finally:
                closed.append(True)

        assert run(source(items()).pipe(lambda x: x + 1)) == list(range(1, 51))
        assert run(source(items()), sink=1) == list(range(50))
        assert len(closed) == 2
        with source(items()).pipe(lambda x: x).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
            assert pipeline.get_item() == 0
            # A stop would not wait for a source that is asked for an item at that moment, and takes its time.
            assert wait_until(lambda: rests(pipeline))
        assert len(closed) == 3

    def test_a_failed_async_source_fails_the_pipeline(self) -> None:
        async def items() -> AsyncIterator[int]:
            yield 1
            raise OSError("no network")

        pipeline = source(items()).add_sink(5).build(num_threads=1)
        pipeline.start()
        assert pipeline.get_item(timeout=10) == 1
        with pytest.raises(PipelineFailure) as caught:
            pipeline.get_item(timeout=10)
        assert isinstance(caught.value.exceptions[0], OSError)
        pipeline.stop()


def test_a_generator_that_waits_for_room_is_told_whatever_its_neighbours_do() -> None:
    gate = threading.Event()

    async def op(x: int) -> AsyncIterator[int]:
        if x:
            # This generator ends while the other one waits, and nothing else wakes the event loop.
            await asyncio.sleep(0.1)
        else:
            for y in range(10):
                yield y

    builder = source(range(2)).pipe(op, concurrency=2).pipe(lambda y: gate.wait(10) and y + 1)
    with builder.add_sink(20).build(num_threads=2).auto_stop() as pipeline:
        time.sleep(0.2)
        gate.set()
        assert list(pipeline.get_iterator(timeout=20)) == list(range(1, 11))


def test_a_generator_from_a_coroutine_is_passed_on_as_it_is() -> None:
    """Its steps would block the event loop; the released reference does the same."""

    async def op(x: int) -> Iterator[int]:
        return (y for y in range(x))

    results = run(source(range(4)).pipe(op, output_order="input"))
    assert [list(result) for result in results] == [[], [0], [0, 1], [0, 1, 2]]


def test_what_waits_behind_a_generator_from_a_coroutine_is_served() -> None:
    async def op(x: int) -> AsyncIterator[int]:
        async def later() -> AsyncIterator[int]:
            await asyncio.sleep(0.001)
            yield x

        return later()

    builder = source(range(50)).pipe(lambda x: x).pipe(op)
    assert sorted(run(builder)) == list(range(50))


def test_an_async_generator_goes_on_when_another_ones_slot_becomes_free() -> None:
    begun, fail, asked = asyncio.Event(), asyncio.Event(), threading.Event()

    async def op(x: int) -> AsyncIterator[int]:
        if x:
            begun.set()
            await fail.wait()
            raise ValueError(x)
        await begun.wait()
        yield x
        asked.set()
        yield x

    with source(range(2)).pipe(op, concurrency=2).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
        node = pipeline._engine.nodes[0]
        # Nobody reads: the first result takes the place in the sink, and the slots are kept for one result each.
        assert wait_until(lambda: node.running == 2 and node.wants_room)
        assert not asked.is_set()
        event_loop = pipeline._engine.event_loop
        assert event_loop is not None
        event_loop.post(fail.set)
        assert asked.wait(10)
        assert list(pipeline.get_iterator(timeout=10)) == [0, 0]
