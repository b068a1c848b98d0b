"""Test limits that change while a pipeline runs."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.hooks.kinds import Bystander
from tests.pipeline.support import source, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from spdl.pipeline import TaskHook


class TestSetConcurrency:
    def test_more_and_less(self) -> None:
        running = ended = 0
        lock = threading.Lock()
        gates = [threading.Semaphore(0)]

        def op(x: int) -> int:
            nonlocal running, ended
            with lock:
                running += 1
            gates[0].acquire()
            with lock:
                running -= 1
                ended += 1
            return x

        pipeline = source(range(1000)).pipe(op, name="op").add_sink(1000).build(num_threads=1)
        with pipeline.auto_stop():
            assert wait_until(lambda: running == 1)
            pipeline.set_concurrency("op", 4)
            assert wait_until(lambda: running == 4)
            assert pipeline.statistics().stages[1].concurrency == 4
            pipeline.set_concurrency("op", 2)
            gates[0].release(2)
            assert wait_until(lambda: running == 2)
            gates[0].release(1)
            # Between two ops there is one less.
            assert wait_until(lambda: ended == 3 and running == 2)
            time.sleep(0.02)
            assert running == 2
            gates[0].release(2000)
            assert sorted(pipeline) == list(range(1000))

    def test_before_the_start_and_of_async_stages(self) -> None:
        most = running = 0
        all_run = asyncio.Event()

        async def op(x: int) -> int:
            nonlocal most, running
            running += 1
            most = max(most, running)
            if running == 7:
                all_run.set()
            # However slowly the first ones come.
            await asyncio.wait_for(all_run.wait(), 20)
            await asyncio.sleep(0.001)
            running -= 1
            return x

        pipeline = source(range(100)).pipe(op, name="op").add_sink(10).build(num_threads=1)
        pipeline.set_concurrency("op", 7)
        with pipeline.auto_stop():
            assert sorted(pipeline) == list(range(100))
        assert most == 7

    def test_room_follows(self) -> None:
        begun: list[int] = []
        gate = threading.Semaphore(0)

        def op(x: int) -> int:
            begun.append(x)
            gate.acquire()
            return x

        # At first there are two places for its results: one in the sink, and the slot.
        pipeline = source(range(50)).pipe(op, name="op").add_sink(1).build(num_threads=6)
        with pipeline.auto_stop():
            pipeline.set_concurrency("op", 6)
            assert wait_until(lambda: len(begun) == 6)
            pipeline.set_concurrency("op", 1)
            gate.release(6)
            # Now six results are in two places: four of them must leave before an op may begin.
            assert [len(str(pipeline.get_item())) for _ in range(4)] == [1] * 4
            time.sleep(0.02)
            assert len(begun) == 6
            gate.release(50)
            assert len(list(pipeline)) == 46

    @pytest.mark.parametrize("num_threads", [2, 8])
    @pytest.mark.parametrize("hooks", [[], [Bystander()]], ids=["bare", "hooked"])
    def test_threads_follow(self, num_threads: int, hooks: list[TaskHook]) -> None:
        together = threading.Barrier(8)

        def op(x: int) -> int:
            together.wait(timeout=20)
            return x

        builder = source(range(16)).pipe(op, name="op", concurrency=1).add_sink(16)
        pipeline = builder.build(num_threads=num_threads, task_hook_factory=lambda _: hooks)
        with pipeline.auto_stop():
            pipeline.set_concurrency("op", 8)
            assert sorted(pipeline.get_iterator(timeout=40)) == list(range(16))

    def test_a_stage_on_an_executor_takes_no_threads_from_the_pipeline(self) -> None:
        most = running = 0
        lock = threading.Lock()
        both = threading.Barrier(2)

        def op(x: int) -> int:
            nonlocal most, running
            with lock:
                running += 1
                most = max(most, running)
            # One thread alone could do all of it while the other one gets no core.
            if x < 2:
                both.wait(20)
            time.sleep(0.002)
            with lock:
                running -= 1
            return x

        with ThreadPoolExecutor(2) as executor:
            builder = source(range(60)).pipe(op, concurrency=16).pipe(abs, name="there", executor=executor)
            with builder.add_sink(60).build(num_threads=2).auto_stop() as pipeline:
                pipeline.set_concurrency("there", 16)
                assert sorted(pipeline) == list(range(60))
        assert most == 2

    @pytest.mark.parametrize("order", ["completion", "input"])
    @pytest.mark.parametrize("declared", [True, False])
    def test_async_generators_under_way_go_on_when_there_is_less(self, order: Any, *, declared: bool) -> None:
        begun: list[int] = []
        lowered = threading.Event()

        async def steps(x: int) -> AsyncIterator[int]:
            begun.append(x)
            while not lowered.is_set():  # noqa: ASYNC110 - another thread sets it, as it does the limit.
                await asyncio.sleep(0.001)
            for _ in range(3):
                yield x

        def returned(x: int) -> AsyncIterator[int]:
            return steps(x)

        # There are two ways to the event loop: the stage is served there, or a worker hands over what the op returned.
        op = steps if declared else returned
        builder = source(range(20)).pipe(op, name="op", concurrency=8, output_order=order)
        with builder.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
            assert wait_until(lambda: len(begun) == 8)
            pipeline.set_concurrency("op", 1)
            lowered.set()
            assert sorted(pipeline.get_iterator(timeout=20)) == sorted([*range(20)] * 3)

    def test_nothing_starts_before_the_start(self) -> None:
        pulled: list[int] = []

        def numbers() -> Iterator[int]:
            for x in range(20):
                pulled.append(x)
                yield x

        before = set(threading.enumerate())
        together = threading.Barrier(4)

        def op(x: int) -> int:
            together.wait(timeout=20)
            return x

        pipeline = source(numbers()).pipe(op, name="op").add_sink(20).build(num_threads=1)
        pipeline.set_concurrency("op", 4)
        assert set(threading.enumerate()) == before
        assert pulled == []
        with pipeline.auto_stop():
            assert sorted(pipeline) == list(range(20))

    @pytest.mark.parametrize("items", [range(3), itertools.count()], ids=["done", "stopped"])
    def test_nothing_starts_after_the_end(self, items: Iterable[int]) -> None:
        started: list[str] = []
        pipeline = source(items).pipe(abs, name="op").add_sink(9).build(num_threads=1)
        with pipeline.auto_stop():
            assert [pipeline.get_item() for _ in range(3)] == [0, 1, 2]
            if isinstance(items, range):
                assert list(pipeline) == []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading.Thread, "start", lambda thread: started.append(thread.name))
            pipeline.set_concurrency("op", 5)
        assert started == []

    @pytest.mark.parametrize(
        ("stage", "concurrency", "error", "message"),
        [
            ("missing", 2, ValueError, "got 'missing' .*0 stages have that name"),
            ("len", 2, ValueError, "got 'len' .*2 stages have that name"),
            ("one", 0, ValueError, "`concurrency` must be an int of at least 1"),
            ("one", "2", TypeError, "`concurrency` must be an int of at least 1"),
            ("disaggregate", 2, ValueError, "always works on one item at a time"),
            ("aggregate(op=collate(2), drop_last=False)", 2, ValueError, "always works on one item at a time"),
        ],
    )
    def test_mistakes(self, stage: str, concurrency: Any, error: type[Exception], message: str) -> None:
        builder = source([]).pipe(abs, name="one").pipe(len).pipe(len).aggregate(2).disaggregate()
        with pytest.raises(error, match=message.replace("(", r"\(")):
            builder.add_sink(1).build(num_threads=1).set_concurrency(stage, concurrency)
