"""Test that a pipeline that has ended keeps nothing of the user's alive, without the cyclic collector."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.pipeline.support import FREE_THREADED, source, wait_until

from spdl.pipeline import AsyncQueue, Pipeline, PipelineFailure, TaskHook, build_pipeline
from spdl.pipeline.defs import Aggregator, Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = pytest.mark.skipif(FREE_THREADED, reason="Threads there free the objects of others later.")

COUNT = 6


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    # Records would keep exceptions, and these the frames of ops.
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
    gc.enable()


class Owned:
    """Something of the user's that the pipeline must let go of; all that are alive are known."""

    alive: ClassVar[weakref.WeakSet[Owned]] = weakref.WeakSet()

    def __init__(self) -> None:
        Owned.alive.add(self)


class Items(Owned):
    def __iter__(self) -> Iterator[int]:
        return iter(range(COUNT))


class AsyncItems(Owned):
    async def __aiter__(self) -> AsyncIterator[int]:
        for item in range(COUNT):
            yield item


class Op(Owned):
    def __call__(self, item: Any) -> Any:
        return item


class Steps(Owned):
    def __call__(self, item: Any) -> Iterator[Any]:
        yield item


class AsyncOp(Owned):
    async def __call__(self, item: Any) -> Any:
        return item


class Route(Owned):
    def __call__(self, item: int) -> int:
        return item % 2


class RouteBatch(Owned):
    def __call__(self, batch: list[int]) -> list[int]:
        return [item % 2 for item in batch]


class Gather(Owned, Aggregator[Any, Any]):
    def accumulate(self, item: Any) -> Any:
        return item

    def flush(self) -> None:
        return None


class Callback(Owned):
    def __call__(self, _: object) -> None: ...


class Fails(Owned):
    def __call__(self, item: int) -> int:
        if item == COUNT - 1:
            raise ValueError(item)
        return item


class FailsOften(Owned):
    def __call__(self, item: Any) -> Any:
        if item % 2:
            raise ValueError(item)
        return item


class FailsLater(Owned):
    async def __call__(self, item: Any) -> Any:
        if item % 2:
            raise ValueError(item)
        return item


class FailsAfterResult(Owned):
    async def __call__(self, item: Any) -> AsyncIterator[Any]:
        yield item
        if item % 2:
            raise ValueError(item)


class UserMerge(Owned):
    async def __call__(self, _: object, inputs: Any, output: Any) -> None:
        for _each in range(COUNT):
            await output.put(await inputs[0].get())


class Hook(Owned, TaskHook):
    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        del input_item
        yield


class Queue(Owned, AsyncQueue[Any]):
    def __init__(self, info: Any, *, buffer_size: int = 1) -> None:
        Owned.__init__(self)
        AsyncQueue.__init__(self, info, buffer_size=buffer_size)


class Executor(ThreadPoolExecutor):
    def __init__(self) -> None:
        super().__init__(1)
        Owned.alive.add(self)  # type: ignore[arg-type]


def _plain(**options: Any) -> Pipeline[Any]:
    return source(Items()).pipe(Op()).pipe(Steps()).aggregate(Gather()).add_sink(2).build(num_threads=2, **options)


def _failing_with_hooks(op: Any, **options: Any) -> Pipeline[Any]:
    return source(Items()).pipe(op, **options).add_sink(2).build(num_threads=1, task_hook_factory=lambda _: [Hook()])


def _late(op: Any) -> Callable[[Any], Any]:
    return lambda item: op(item)  # noqa: PLW0108 - no object with an async `__call__`.


def _merged(op: Any) -> Pipeline[Any]:
    branches = [PipelineConfig(SourceConfig(Items()), [Pipe(Op())], SinkConfig(1))]
    config: PipelineConfig[Any] = PipelineConfig(Merge(branches, op), [Pipe(Op())], SinkConfig(2))
    return build_pipeline(config, num_threads=2)


GRAPHS: dict[str, Callable[[], Pipeline[Any]]] = {
    "plain": _plain,
    "ordered": lambda: source(Items()).pipe(Op(), output_order="input").add_sink(2).build(num_threads=1),
    "dedicated": lambda: source(Items(), dedicated_thread=True).pipe(Op()).add_sink(2).build(num_threads=1),
    "continuous": lambda: source(Items(), continuous=True).pipe(Op()).add_sink(2).build(num_threads=1),
    "async": lambda: source(AsyncItems()).pipe(AsyncOp()).add_sink(2).build(num_threads=1),
    "late async": lambda: source(Items()).pipe(_late(AsyncOp())).add_sink(2).build(num_threads=1),
    "failing": lambda: (
        source(Items()).pipe(Fails(), on_failure=Callback(), retries=1, retry_delay=0).add_sink(2).build(num_threads=1)
    ),
    "failing async": lambda: source(Items()).pipe(FailsLater()).add_sink(2).build(num_threads=1),
    "failing async, timed": lambda: source(Items()).pipe(FailsLater(), timeout=60).add_sink(2).build(num_threads=1),
    "failing late async": lambda: source(Items()).pipe(_late(FailsLater())).add_sink(2).build(num_threads=1),
    "failing async generator": lambda: source(Items()).pipe(FailsAfterResult()).add_sink(2).build(num_threads=1),
    "failing, in threads": lambda: source(Items()).pipe(Fails(), executor=Executor()).add_sink(2).build(num_threads=1),
    "failed": lambda: source(Items()).pipe(Fails(), max_failures=0).pipe(Op()).add_sink(2).build(num_threads=1),
    "timed": lambda: source(Items()).pipe(Op(), timeout=60).add_sink(2).build(num_threads=1),
    "threads": lambda: source(Items()).pipe(Op(), executor=Executor()).add_sink(2).build(num_threads=1),
    "merge": lambda: _merged(None),
    "user's merge": lambda: _merged(UserMerge()),
    "paths": lambda: (
        source(Items()).path_variants(Route(), [[Pipe(Op())], [Pipe(Op())]]).add_sink(2).build(num_threads=2)
    ),
    "batched paths": lambda: (
        source(Items())
        .aggregate(2)
        .path_variants(RouteBatch(), [[Pipe(Op())], [Pipe(Op())]], batched=True)
        .add_sink(2)
        .build(num_threads=2)
    ),
    "hooks": lambda: _plain(task_hook_factory=lambda _: [Hook()]),
    "failing hooks": lambda: _failing_with_hooks(Fails()),
    "failing hooks, async generator": lambda: _failing_with_hooks(FailsAfterResult()),
    "failing hooks, in threads": lambda: _failing_with_hooks(Fails(), executor=Executor()),
    "queues": lambda: _plain(queue_class=Queue),
}
graphs = pytest.mark.parametrize("graph", GRAPHS)


def _read(pipeline: Pipeline[Any], most: int) -> None:
    with suppress(PipelineFailure), pipeline.auto_stop(timeout=10):
        for index, _ in enumerate(pipeline.get_iterator(timeout=10)):
            if index == most:
                break


@graphs
@pytest.mark.parametrize("most", [1, 10**9])
def test_a_pipeline_that_was_stopped_keeps_nothing(graph: str, most: int) -> None:
    pipeline = GRAPHS[graph]()
    assert Owned.alive
    _read(pipeline, most)
    assert pipeline.statistics().stages
    if graph == "failed":
        # The failure has frames, and can be asked for as long as the pipeline is there.
        del pipeline
    assert wait_until(lambda: not Owned.alive), list(Owned.alive)


@graphs
def test_a_pipeline_that_has_finished_keeps_nothing(graph: str) -> None:
    if graph == "continuous":
        pytest.skip("It never finishes.")
    pipeline = GRAPHS[graph]()
    with suppress(PipelineFailure):
        for _ in pipeline.get_iterator(timeout=10):
            pass
    if graph == "failed":
        del pipeline
    # The threads end by themselves.
    assert wait_until(lambda: not Owned.alive), list(Owned.alive)


@graphs
def test_a_pipeline_that_is_dropped_keeps_nothing(graph: str) -> None:
    pipeline = GRAPHS[graph]()
    pipeline.get_item(timeout=10)
    threads = pipeline._engine.all_threads()
    del pipeline
    assert wait_until(lambda: not Owned.alive), list(Owned.alive)
    for thread in threads:
        if thread.ident:
            thread.join(10)


@graphs
def test_a_pipeline_that_never_ran_keeps_nothing(graph: str) -> None:
    pipeline = GRAPHS[graph]()
    assert Owned.alive
    del pipeline
    assert not Owned.alive


def test_items_that_nobody_has_read_go_with_the_pipeline() -> None:
    pipeline = source([1, 2, 3]).pipe(lambda _: Owned()).add_sink(5).build(num_threads=1)
    engine = pipeline._engine
    pipeline.start()
    assert wait_until(lambda: engine.done)
    assert len(Owned.alive) == 3
    pipeline.stop()
    assert len(Owned.alive) == 3
    del pipeline
    assert not Owned.alive


def test_a_source_that_blocked_goes_as_soon_as_it_returns() -> None:
    blocks, goes_on = threading.Event(), threading.Event()

    class Blocks(Owned):
        def __iter__(self) -> Iterator[int]:
            yield 1
            blocks.set()
            goes_on.wait(10)

    pipeline = source(Blocks()).add_sink(2).build(num_threads=1)
    pipeline.get_item(timeout=10)
    # A stop before the source is in its second pull closes it, since nothing blocks then.
    assert blocks.wait(10)
    pipeline.stop(timeout=0.1)
    assert Owned.alive
    goes_on.set()
    assert wait_until(lambda: not Owned.alive)


class Slow(Owned):
    """Is called in an executor, and returns when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.called = threading.Event()
        self.goes_on = threading.Event()

    def __call__(self, item: Any) -> Any:
        self.called.set()
        self.goes_on.wait(10)
        return item


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("end", ["dropped", "stopped in vain", "overdue"])
def test_a_call_that_outlasts_the_threads_keeps_nothing_once_it_returns(end: str, *, hooked: bool) -> None:
    op = Slow()
    called, goes_on = op.called, op.goes_on
    options: dict[str, Any] = {"timeout": 0.01, "on_timeout": "drop"} if end == "overdue" else {}
    hooks: dict[str, Any] = {"task_hook_factory": lambda _: [Hook()]} if hooked else {}
    executor = Executor()
    declared = source(Items()).pipe(lambda item: item or None).pipe(lambda item: item if item == 1 else None)
    declared.pipe(op, executor=executor, **options).add_sink(2)
    pipeline = declared.build(num_threads=1, **hooks)
    pipeline.start()
    while not called.wait(0.01):
        if pipeline._engine.done:
            # The time of its item was up before a thread came to it, so the op is never called.
            pipeline = declared.build(num_threads=1, **hooks)
            pipeline.start()
    threads = pipeline._engine.all_threads()
    if end == "stopped in vain":
        with pytest.raises(TimeoutError):
            pipeline.stop(timeout=0.1)
    elif end == "dropped":
        del pipeline
    for thread in threads:
        if thread.ident:
            thread.join(10)
    del op, declared
    assert Owned.alive
    goes_on.set()
    executor.shutdown()
    del executor
    assert wait_until(lambda: not Owned.alive), list(Owned.alive)


@pytest.mark.parametrize("op", [FailsOften, FailsLater, FailsAfterResult])
@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_failed_item_goes_while_the_pipeline_goes_on(op: Any, timeout: float | None, *, hooked: bool) -> None:
    class Item:
        def __init__(self, number: int) -> None:
            self.number = number
            items.add(self)

        def __mod__(self, divisor: int) -> int:
            return self.number % divisor

    items: weakref.WeakSet[Item] = weakref.WeakSet()

    hooks: dict[str, Any] = {"task_hook_factory": lambda _: [Hook()]} if hooked else {}
    pipeline = (
        source(map(Item, range(10 * COUNT)))
        .pipe(op(), timeout=timeout)
        .pipe(lambda _: 1)
        .add_sink(100)
        .build(num_threads=1, **hooks)
    )
    with pipeline.auto_stop():
        for _ in pipeline.get_iterator(timeout=10):
            pass
        assert wait_until(lambda: not items), len(items)


def test_an_item_goes_whose_op_a_stop_has_cancelled_before_its_time_was_up() -> None:
    class Item:
        pass

    items: weakref.WeakSet[Item] = weakref.WeakSet()
    begun = threading.Event()

    def supply() -> Iterator[Item]:
        item = Item()
        items.add(item)
        yield item

    async def wait(_: Item) -> None:
        begun.set()
        await asyncio.sleep(60)

    pipeline = source(supply()).pipe(wait, timeout=30).add_sink(1).build(num_threads=1)
    pipeline.start()
    assert begun.wait(20)
    pipeline.stop()
    assert wait_until(lambda: not items)
    assert pipeline.statistics().stages[1].num_completed == 0
