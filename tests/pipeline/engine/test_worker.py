"""Test how items move through the stages."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import run, source, wait_until

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_stages_of_one_slot_keep_the_order() -> None:
    before = sys.getswitchinterval()
    # Threads switch as often as possible: an item that can overtake another one will.
    sys.setswitchinterval(1e-6)
    try:
        builder = source(range(5000)).pipe(lambda x: x).pipe(lambda x: x).pipe(lambda x: x)
        assert run(builder, num_threads=4, sink=100) == list(range(5000))
    finally:
        sys.setswitchinterval(before)


def test_a_carried_item_goes_behind_those_that_wait() -> None:
    begun = {(stage, x): threading.Event() for stage in range(3) for x in range(3)}
    go = {(stage, x): threading.Event() for stage in range(3) for x in range(3)}
    held = [(1, 0), (0, 2), (2, 0)]

    def op(stage: int) -> Callable[[int], int]:
        def work(x: int) -> int:
            begun[stage, x].set()
            assert (stage, x) not in held or go[stage, x].wait(20)
            return x

        return work

    builder = source(range(3)).pipe(op(0)).pipe(op(1)).pipe(op(2))
    with builder.add_sink(3).build(num_threads=2).auto_stop() as pipeline:
        # Item 1 waits in front of the second stage, which works on item 0. Item 2 is on its way there.
        assert begun[1, 0].wait(10)
        assert begun[0, 2].wait(10)
        # The slot becomes free, and no thread is left to run item 1.
        go[1, 0].set()
        assert begun[2, 0].wait(10)
        # The slot is free when item 2 arrives.
        go[0, 2].set()
        assert begun[1, 2].wait(10) or begun[1, 1].wait(10)
        go[2, 0].set()
        assert list(pipeline.get_iterator(timeout=10)) == [0, 1, 2]


def test_a_pulled_item_goes_behind_those_that_wait() -> None:
    pulling, more, passed, go, leave = (threading.Event() for _ in range(5))
    order: list[int] = []

    def items() -> Iterator[int]:
        yield 0
        yield 1
        pulling.set()
        assert more.wait(20)
        yield 2

    def first(x: int) -> int:
        order.append(x)
        assert x or go.wait(20)
        return x

    def second(x: int) -> int:
        passed.set()
        assert leave.wait(20)
        return x

    with source(items()).pipe(first).pipe(second).add_sink(3).build(num_threads=2).auto_stop() as pipeline:
        engine = pipeline._engine
        assert pulling.wait(10)
        assert wait_until(lambda: order and len(engine.workers.idle) == 1 and not engine.workers.waking)
        # Pretend that the third worker was woken and has not arrived yet.
        with engine.lock:
            engine.workers.waking = True
        go.set()
        assert passed.wait(10)
        # The first stage has a free slot, and item 1 waits in front of it.
        more.set()
        assert wait_until(lambda: len(order) > 1)
        leave.set()
        assert list(pipeline.get_iterator(timeout=10)) == order == [0, 1, 2]


def test_no_stage_exceeds_its_limit() -> None:
    limits = (4, 1, 3, 2)
    running, most = [0] * 4, [0] * 4
    lock = threading.Lock()

    def op(stage: int) -> Callable[[int], int]:
        def work(x: int) -> int:
            with lock:
                running[stage] += 1
                most[stage] = max(most[stage], running[stage])
            time.sleep(0.0005)
            with lock:
                running[stage] -= 1
            return x

        return work

    builder = source(range(200))
    for stage, limit in enumerate(limits):
        builder.pipe(op(stage), concurrency=limit)
    assert sorted(run(builder, num_threads=8)) == list(range(200))
    assert all(reached <= limit for reached, limit in zip(most, limits, strict=True))


@pytest.mark.parametrize("before", [0, 1])
def test_no_op_starts_whose_result_has_no_place(before: int) -> None:
    held = threading.Event()
    begun: list[int] = []

    def op(x: int) -> int:
        begun.append(x)
        return x

    def hold(x: int) -> int:
        assert held.wait(20)
        return x

    builder = source(range(40))
    for _ in range(before):
        builder.pipe(lambda x: x)
    with builder.pipe(op).pipe(hold).add_sink(1).build(num_threads=4).auto_stop() as pipeline:
        # One item is held, two wait between the stages, and one still has its slot.
        assert wait_until(lambda: len(begun) >= 4)
        assert not wait_until(lambda: len(begun) > 4, seconds=0.2)
        held.set()
        assert list(pipeline.get_iterator(timeout=10)) == list(range(40))


def test_a_failure_ends_what_is_upstream() -> None:
    full = threading.Event()

    def op(_: int) -> int:
        assert full.wait(20)
        raise SystemExit

    builder = source(itertools.count())
    for _ in range(4):
        builder.pipe(lambda x: x)
    pipeline = builder.pipe(op).add_sink(1).build(num_threads=2)
    pipeline.start()
    # More items wait in the stages than one queue holds.
    assert wait_until(lambda: pipeline.statistics().stages[1].queue_size == 2)
    full.set()
    with pytest.raises(PipelineFailure):
        pipeline.get_item(timeout=10)
    pipeline.stop()


class Wrapped(Executor):
    """An executor of a type that the engine does not know."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(fn, *args, **kwargs)


@pytest.mark.parametrize("where", ["the event loop", "a thread pool", "any executor"])
def test_what_came_out_elsewhere_waits_for_no_op(where: str) -> None:
    held, release = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        for x in range(2):
            # Pulls must take long enough that a worker is woken for the next one, which does not end.
            time.sleep(0.001)
            yield x
        assert release.wait(40)

    def hold_the_second(x: int) -> int:
        if x == 1:
            held.set()
            assert release.wait(40)
        return x

    def there(x: int) -> int:
        assert held.wait(20)
        return x

    async def later(x: int) -> int:
        while not held.is_set():  # noqa: ASYNC110 - a worker sets it.
            await asyncio.sleep(0.001)
        return x

    with ThreadPoolExecutor(1) as threads:
        builder = source(items()).pipe(hold_the_second)
        if where == "the event loop":
            builder.pipe(later).aggregate(1).pipe(later).aggregate(1)
        else:
            executor = threads if where == "a thread pool" else Wrapped(threads)
            builder.pipe(there, executor=executor).pipe(there, executor=executor)
        with builder.add_sink(9).build(num_threads=1).auto_stop() as pipeline:
            try:
                # One worker is in the op of the first stage, which holds the only permit, and another in the source.
                assert pipeline.get_item(timeout=20) in (0, [[0]])
            finally:
                release.set()
            assert list(pipeline.get_iterator(timeout=20)) in ([1], [[[1]]])
