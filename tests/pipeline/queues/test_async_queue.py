"""Test users' queues: the items that they carry, and the results of their mistakes."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.support import source, twice, twice_async, wait_until

from spdl.pipeline import AsyncQueue, PipelineFailure, TaskHook, build_pipeline, is_eof, is_epoch_end
from spdl.pipeline.defs import Aggregate, Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from spdl.pipeline import PipelineBuilder, StageInfo


class Log:
    """A record of the items put into all queues of a pipeline, and of the queues' sizes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.sizes: dict[str, int] = {}
        self.threads: set[str] = set()
        self.most = 0

    def make(self, info: StageInfo, *, buffer_size: int) -> AsyncQueue[Any]:
        log = self

        class Logged(AsyncQueue[Any]):
            async def put(self, item: Any) -> None:
                shown = "EOF" if is_eof(item) else "EPOCH" if is_epoch_end(item) else repr(item)
                log.lines.append(f"{info.stage_name} {shown}")
                log.threads.add(threading.current_thread().name.partition("_thread_")[0])
                await super().put(item)
                log.most = max(log.most, self.qsize())

            @asynccontextmanager
            async def stage_hook(self) -> AsyncIterator[None]:
                log.lines.append(f"enter {info.stage_name}")
                yield
                log.lines.append(f"leave {info.stage_name}")

        self.sizes[info.stage_name] = buffer_size
        return Logged(info, buffer_size=buffer_size)


def carried(builder: PipelineBuilder[Any, Any], *, sink: int = 3) -> tuple[list[Any], Log]:
    log = Log()
    with builder.add_sink(sink).build(num_threads=3, queue_class=log.make).auto_stop() as pipeline:
        return list(pipeline.get_iterator(timeout=20)), log


def test_each_queue_carries_its_items_on_the_loop() -> None:
    items, log = carried(source(range(3)).pipe(lambda x: x * 2, name="double").aggregate(2), sink=5)
    assert items == [[0, 2], [4]]
    gathered = "aggregate(op=collate(2), drop_last=False)"
    assert log.sizes == {"src": 2, "double": 2, gathered: 2, "sink": 5}
    assert log.threads == {"spdl_event_loop"}
    for name, given_out in {
        "src": ["0", "1", "2"],
        "double": ["0", "2", "4"],
        gathered: ["[0, 2]", "[4]"],
        "sink": ["[0, 2]", "[4]"],
    }.items():
        lines = [line for line in log.lines if name in line]
        expected = [f"enter {name}", *(f"{name} {shown}" for shown in [*given_out, "EOF"]), f"leave {name}"]
        assert lines == expected


def test_the_buffer_size_bounds_it() -> None:
    release = threading.Event()
    log = Log()
    builder = source(range(100)).pipe(lambda x: release.wait(20) and x + 1, concurrency=2).add_sink(4)
    with builder.build(num_threads=3, queue_class=log.make).auto_stop() as pipeline:
        release.set()
        assert sorted(pipeline.get_iterator(timeout=20)) == list(range(1, 101))
    assert log.most <= 4


def test_epochs_pass_through_the_queues() -> None:
    log = Log()
    builder = source(range(3), continuous=True).pipe(twice, name="two").add_sink(3)
    with builder.build(num_threads=2, queue_class=log.make).auto_stop() as pipeline:
        for _ in range(3):
            assert list(pipeline.get_iterator(timeout=20)) == [0, 100, 1, 101, 2, 102]
    lines = [line for line in log.lines if line.startswith("two")]
    assert lines[:7] == [*(f"two {x}" for x in (0, 100, 1, 101, 2, 102)), "two EPOCH"]


def test_merges_and_forks_are_carried() -> None:
    branches = [PipelineConfig(SourceConfig(range(n, n + 4)), [], SinkConfig(1)) for n in (0, 10)]
    fork = PathVariants(lambda x: x % 2, [[Pipe(lambda x: x)], [Aggregate(2)]], "fork")
    config = PipelineConfig(Merge(branches), [fork], SinkConfig(2))
    log = Log()
    with build_pipeline(config, num_threads=2, queue_class=log.make).auto_stop() as pipeline:
        got = list(pipeline.get_iterator(timeout=20))
    assert sorted(x for x in got if isinstance(x, int)) == [0, 2, 10, 12]
    assert sorted(x for batch in got if isinstance(batch, list) for x in batch) == [1, 3, 11, 13]
    assert {"merge", "fork_path0", "fork_path1", "fork_merge", "src[0]", "src[1]", "sink"} < set(log.sizes)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_queue_may_wait_for_more_before_it_gives_any(kind: str) -> None:
    go = threading.Event()

    async def items() -> AsyncIterator[int]:
        for x in range(20):
            yield x

    class Gathering(AsyncQueue[Any]):
        def __init__(self, info: StageInfo, *, buffer_size: int) -> None:
            super().__init__(info, buffer_size=30)
            self.enough = asyncio.Event()

        async def put(self, item: Any) -> None:
            if item == 0:
                await asyncio.to_thread(go.wait, 20)
            await super().put(item)
            if is_eof(item) or self.qsize() == 10:
                self.enough.set()

        async def get(self) -> Any:
            await self.enough.wait()
            return await super().get()

    builder = source(range(20) if kind == "sync" else items()).add_sink(30)
    with builder.build(num_threads=1, queue_class=Gathering).auto_stop() as pipeline:
        engine = pipeline._engine
        # The first item is on its way into the queue, and two wait behind it. The source goes on only when these are
        # taken.
        assert wait_until(lambda: len(engine.nodes[0].queue) == 2)
        assert wait_until(
            lambda: engine.sources[0].wants_room or len(engine.workers.idle) == len(engine.workers._gates) > 0
        )
        go.set()
        assert list(pipeline.get_iterator(timeout=10)) == list(range(20))


@pytest.mark.filterwarnings("ignore:The source of the pipeline")
@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(0, 40),
    order=st.sampled_from(["completion", "input"]),
    batch=st.integers(1, 5),
    hooks=st.booleans(),
)
def test_nothing_is_lost(count: int, order: Any, batch: int, hooks: bool) -> None:  # noqa: FBT001 - drawn.
    def op(x: int) -> int:
        if x % 7 == 3:
            raise ValueError(x)
        return x

    class Nothing(TaskHook):
        @asynccontextmanager
        async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
            yield

    builder = source(range(count)).pipe(op, concurrency=3, output_order=order).pipe(twice_async, concurrency=2)
    builder.pipe(twice, output_order=order).aggregate(batch).disaggregate().add_sink(2)
    pipeline = builder.build(
        num_threads=4, queue_class=AsyncQueueOfOurs, task_hook_factory=lambda _: [Nothing()] * hooks
    )
    with pipeline.auto_stop():
        got = list(pipeline.get_iterator(timeout=20))
    expected = [z for x in range(count) if x % 7 != 3 for y in (x, x + 100) for z in (y, y + 100)]
    assert sorted(got) == sorted(expected)


class AsyncQueueOfOurs(AsyncQueue[Any]):
    """A queue that the engine uses, since it is no class of the library's own."""


class Faulty(AsyncQueue[Any]):
    """A queue that makes a mistake with item 2."""

    fault = ""

    async def put(self, item: Any) -> None:
        if item == 2 and self.fault == "put raises":
            raise OSError("no room")
        if item == 2 and self.fault == "put cancels":
            raise asyncio.CancelledError
        if item == 2 and self.fault == "loses":
            return
        await super().put(item)
        if item == 2 and self.fault == "doubles":
            await super().put(item)

    async def get(self) -> Any:
        item = await super().get()
        if item == 2 and self.fault == "get raises":
            raise OSError("no room")
        if item == 2 and self.fault == "get cancels":
            raise asyncio.CancelledError
        if item == 2 and self.fault == "wraps":
            return (item,)
        return item

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        if self.fault == "enter raises":
            raise OSError("no room")
        yield
        if self.fault == "leave raises":
            raise OSError("no room")


def somebodys_queue(_info: StageInfo, buffer_size: int) -> Any:
    return asyncio.Queue(buffer_size)


class TestFaults:
    @pytest.mark.parametrize("fault", ["put raises", "get raises", "enter raises", "leave raises"])
    def test_what_a_queue_raises_fails_the_pipeline(self, fault: str) -> None:
        class Queue(Faulty):
            pass

        Queue.fault = fault
        pipeline = source(range(5)).pipe(lambda x: x).add_sink(9).build(num_threads=1, queue_class=Queue)
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
        assert {type(error) for error in caught.value.exceptions} == {OSError}
        assert ":0:src" in "".join(caught.value.exceptions[0].__notes__) or len(caught.value.exceptions) > 1
        pipeline.stop()

    @pytest.mark.parametrize("fault", ["put cancels", "get cancels"])
    def test_a_cancellation_of_the_queues_own_fails_the_pipeline(self, fault: str) -> None:
        class Queue(Faulty):
            pass

        Queue.fault = fault
        pipeline = source(range(5)).pipe(lambda x: x).add_sink(9).build(num_threads=1, queue_class=Queue)
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
        assert "was cancelled from within" in str(caught.value.exceptions[0])
        pipeline.stop()

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("loses", r"The queue 'Queue' of stage \d+:0:src lost 1 item\(s\): source item 2"),
            ("doubles", r"The queue 'Queue' of stage \d+:\d:\w+ returned an object although nothing is inside"),
        ],
    )
    def test_a_queue_that_loses_or_doubles_an_item_is_named(self, fault: str, message: str) -> None:
        class Queue(Faulty):
            pass

        Queue.fault = fault
        pipeline = source([0, 1, 2]).add_sink(9).build(num_threads=1, queue_class=Queue)
        got = []
        with pytest.raises(PipelineFailure) as caught:
            got += list(pipeline.get_iterator(timeout=20))
        text = " ".join(map(str, caught.value.exceptions))
        assert pytest.raises(AssertionError, match=message).matches(AssertionError(text))
        pipeline.stop()

    def test_a_queue_may_wrap_its_items(self) -> None:
        class Queue(Faulty):
            fault = "wraps"

        with source(range(4)).add_sink(9).build(num_threads=1, queue_class=Queue).auto_stop() as pipeline:
            # There are two queues: the source's and the sink's.
            assert list(pipeline.get_iterator(timeout=20)) == [0, 1, (2,), 3]

    def test_a_failure_elsewhere_ends_the_queues(self) -> None:
        def op(x: int) -> int:
            if x == 20:
                raise KeyboardInterrupt
            return x

        log = Log()
        pipeline = source(range(1000)).pipe(lambda x: x).pipe(op).add_sink(3).build(num_threads=2, queue_class=log.make)
        assert [pipeline.get_item(timeout=20) for _ in range(20)] == list(range(20))
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=20)
        pipeline.stop()
        assert len([line for line in log.lines if line.startswith("leave")]) == len(log.sizes)

    def test_stop_while_everything_is_full(self) -> None:
        log = Log()
        pipeline = source(iter(int, 1)).pipe(lambda x: x).add_sink(2).build(num_threads=2, queue_class=log.make)
        pipeline.start()
        assert pipeline.get_item(timeout=20) == 0
        pipeline.stop(timeout=5)
        assert len([line for line in log.lines if line.startswith("leave")]) == len(log.sizes)

    def test_something_else_than_a_queue_is_refused(self) -> None:
        builder = source([1]).add_sink(1)
        with pytest.raises(TypeError, match=r"`queue_class` must be a subclass of AsyncQueue, got"):
            builder.build(num_threads=1, queue_class=somebodys_queue)
        with pytest.raises(TypeError, match=r"`queue_class` must be callable or None, got 3"):
            builder.build(num_threads=1, queue_class=3)  # type: ignore[arg-type]


def test_the_process_default_is_given_the_interval() -> None:
    from spdl.pipeline.config import set_default_queue_class  # noqa: PLC0415 - what this test is about.

    made = []

    class Default(AsyncQueue[Any]):
        def __init__(self, info: StageInfo, *, buffer_size: int, interval: float) -> None:
            super().__init__(info, buffer_size=buffer_size)
            made.append((info.stage_name, buffer_size, interval))

    set_default_queue_class(Default)
    try:
        with source(range(2)).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline) == [0, 1]
    finally:
        set_default_queue_class()
    assert made == [("src", 2, -1), ("sink", 3, -1)]
