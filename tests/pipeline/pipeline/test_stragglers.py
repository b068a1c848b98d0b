"""Test that `stop` names the stage, the item and the stack of ops that do not return."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import Gate, source, wait_until

from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from spdl.pipeline import PipelineBuilder


class Someones(Executor):
    """An executor of a type that the engine does not know."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(fn, *args, **kwargs)

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()


class Op:
    """An op that blocks on the third item until its gate opens."""

    def __init__(self) -> None:
        self.gate = Gate()

    def here(self, item: int) -> int:
        if item == 2:
            self.gate.wait(20)
        return item

    def steps(self, item: int) -> Iterator[int]:
        yield self.here(item)

    async def on_the_loop(self, item: int) -> int:
        await asyncio.sleep(0)
        return self.here(item)


class Gathering(Aggregator[int, int]):
    """An aggregator that blocks in its op."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def accumulate(self, item: int) -> int:
        return self.op.here(item)

    def flush(self) -> None:
        return None


def declare(kind: str, op: Op, executor: Executor) -> PipelineBuilder[Any, Any]:
    builder = source(range(5))
    match kind:
        case "function" | "ordered":
            order: Any = "input" if kind == "ordered" else "completion"
            return builder.pipe(op.here, name="slow", output_order=order)
        case "generator":
            return builder.pipe(op.steps, name="slow")
        case "coroutine":
            return builder.pipe(op.on_the_loop, name="slow")
        case "aggregate":
            return builder.aggregate(Gathering(op))
        case _:
            return builder.pipe(op.here, name="slow", executor=executor)


class Stubborn:
    """An async source whose second item never comes, and which ignores its cancellation."""

    def __init__(self, *, blocks: bool) -> None:
        self.blocks = blocks
        self.awaited = threading.Event()
        self.asked = asyncio.Event()
        self.gate = threading.Event()

    async def __aiter__(self) -> AsyncIterator[int]:
        yield 0
        self.awaited.set()
        self.asked.set()
        while not self.gate.is_set():
            try:
                if self.blocks:
                    self.gate.wait(20)
                else:
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass
        yield 1


@pytest.mark.parametrize("blocks", [True, False])
def test_an_async_source_that_does_not_return_is_left_alone(*, blocks: bool) -> None:
    items = Stubborn(blocks=blocks)
    pipeline = source(items).pipe(abs).add_sink(1).build(num_threads=1)
    pipeline.start()
    assert items.awaited.wait(20)
    try:
        pipeline.stop()
    finally:
        items.gate.set()


def test_an_async_op_that_blocks_is_told_though_an_async_source_is_awaited() -> None:
    items, op = Stubborn(blocks=False), Op()

    async def wait(item: int) -> int:
        await items.asked.wait()
        return op.here(item + 2)

    pipeline = source(items).pipe(wait, name="slow").add_sink(1).build(num_threads=1)
    pipeline.start()
    assert op.gate.is_awaited()
    items.gate.set()
    try:
        with pytest.raises(TimeoutError, match="'slow', source item 0"):
            pipeline.stop(timeout=1)
    finally:
        op.gate.set()
    pipeline.stop()


@pytest.mark.parametrize("kind", ["coroutine", "timed", "generator", "returned"])
def test_async_ops_that_heed_no_cancellation_are_named(kind: str) -> None:
    started: list[int] = []
    cancelled: list[int] = []
    loops: list[asyncio.AbstractEventLoop] = []
    gate = asyncio.Event()

    async def deaf(item: int) -> int:
        loops.append(asyncio.get_running_loop())
        started.append(item)
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                cancelled.append(item)
        return item

    async def results(item: int) -> AsyncIterator[int]:
        yield await deaf(item)

    op: Callable[[int], Any] = results if kind == "generator" else deaf
    if kind == "returned":
        op = lambda item: deaf(item)  # noqa: E731, PLW0108 - it does not tell what it returns before it is called.
    timeout = 1000 if kind == "timed" else None
    builder = source(range(9)).pipe(op, name="deaf", concurrency=2, timeout=timeout)
    pipeline = builder.add_sink(9).build(num_threads=2)
    pipeline.start()
    assert wait_until(lambda: len(started) == 2, 20)
    try:
        with pytest.raises(TimeoutError):
            pipeline.stop(timeout=0)
        assert wait_until(lambda: len(cancelled) == 2, 20)
        # Both wait again when the event loop comes to this.
        again = threading.Event()
        loops[0].call_soon_threadsafe(again.set)
        assert again.wait(20)
        with pytest.raises(TimeoutError) as caught:
            pipeline.stop(timeout=0.1)
    finally:
        loops[0].call_soon_threadsafe(gate.set)
    pipeline.stop()
    message = str(caught.value)
    assert message.startswith("2 op(s) of the pipeline still run; an op that does not return cannot be interrupted.")
    for item in range(2):
        assert f"Stage 'deaf', source item {item}, on the event loop:" in message
    # The event loop's own wait is not shown.
    assert "select" not in message
    # The awaits inside an async generator cannot be seen from outside.
    if kind != "generator":
        assert message.count("await gate.wait()") == 2


@pytest.mark.parametrize(
    "kind", ["function", "ordered", "generator", "coroutine", "aggregate", "pool of threads", "somebody's executor"]
)
def test_stage_item_and_place_are_named(kind: str) -> None:
    op = Op()
    with Someones() if kind == "somebody's executor" else ThreadPoolExecutor(1) as executor:
        pipeline = declare(kind, op, executor).add_sink(9).build(num_threads=2)
        pipeline.start()
        assert op.gate.is_awaited()
        try:
            with pytest.raises(TimeoutError) as caught:
                pipeline.stop(timeout=0.1)
        finally:
            op.gate.set()
        pipeline.stop()
    message = str(caught.value)
    assert message.startswith("1 op(s) of the pipeline still run; an op that does not return cannot be interrupted.")
    assert "Stage 'aggregate" in message if kind == "aggregate" else "Stage 'slow'" in message
    if kind != "aggregate":
        assert "'slow', source item 2" in message
    if kind != "somebody's executor":
        assert "self.gate.wait(20)" in message


def test_a_worker_that_only_ends_is_no_op() -> None:
    op, end = Op(), Gate()

    class Dropped:
        def __call__(self, item: int) -> int:
            return op.here(item)

        def __del__(self) -> None:
            end.wait(20)

    pipeline = source([2]).pipe(Dropped(), name="slow").add_sink(9).build(num_threads=1)
    pipeline.start()
    assert op.gate.is_awaited()
    with pytest.raises(TimeoutError, match=r"^1 op.*\nStage 'slow', source item 0"):
        pipeline.stop(timeout=0)
    op.gate.set()
    # The last worker lets go of the op.
    assert end.is_awaited()
    with pytest.raises(TimeoutError) as caught:
        pipeline.stop(timeout=0)
    end.set()
    pipeline.stop()
    assert str(caught.value).startswith("0 op(s) of the pipeline still run")
    assert "end.wait(20)" in str(caught.value)
