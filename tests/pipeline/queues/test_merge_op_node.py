"""Test users' merge ops."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline import AsyncQueue, PipelineFailure, build_pipeline, is_eof, is_epoch_end
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spdl.pipeline import Pipeline, StageInfo

    Queues = Sequence[asyncio.Queue[Any]]


def merged(op: Any, *sources: Iterable[Any], continuous: bool = False, pipes: Sequence[Any] = ()) -> Pipeline[Any]:
    branches = [PipelineConfig(SourceConfig(each, continuous), list(pipes), SinkConfig(1)) for each in sources]
    return build_pipeline(PipelineConfig(Merge(branches, op), [], SinkConfig(3)), num_threads=2)


async def in_turn(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
    """Take one item from each branch in turn, until the first one ends."""
    while True:
        for queue in inputs:
            item = await queue.get()
            if is_eof(item):
                return
            await output.put(item)


async def in_epochs(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
    while True:
        end = None
        for queue in inputs:
            while not is_epoch_end(end := await queue.get()):
                if is_eof(end):
                    return
                await output.put(end)
        # One end of the epoch for all branches.
        await output.put(end)


async def pairs(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
    """Join items of the branches into new ones."""
    while True:
        items = [await queue.get() for queue in inputs]
        if any(map(is_eof, items)):
            return
        await output.put(tuple(items))


def test_it_gets_asyncio_queues_and_decides_the_order() -> None:
    seen: list[Any] = []

    async def op(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
        seen.extend([str(info).partition(":")[2], *inputs, output, threading.current_thread().name])
        await in_turn(info, inputs, output)

    with merged(op, [*"abc"], [*"xyz"]).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == list("axbycz")
    info, first, second, output, thread = seen
    assert info == "0:merge"
    assert thread.startswith("spdl_event_loop_thread")
    assert all(isinstance(queue, asyncio.Queue) for queue in (first, second, output))
    assert isinstance(first, AsyncQueue)
    assert first.info.stage_name == "src[0]"


def test_it_may_return_early_while_branches_go_on_for_ever() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    with merged(in_turn, [7, 8], endless()).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [7, 1, 8, 1]
    assert closed.wait(20)


def test_it_may_return_early_while_a_branch_blocks() -> None:
    blocked, end = threading.Event(), threading.Event()

    def blocks() -> Iterator[int]:
        yield 1
        blocked.set()
        assert end.wait(40)

    async def waits(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
        await output.put(await inputs[0].get())
        await asyncio.to_thread(blocked.wait, 20)

    try:
        with merged(waits, blocks(), [2]).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == [1]
    finally:
        end.set()


def test_it_is_told_that_a_branch_has_ended_while_nothing_else_happens() -> None:
    # Something else may wake the event loop by chance, but not every time.
    for _ in range(6):
        _end_of_a_branch()


def _end_of_a_branch() -> None:
    told, go = threading.Event(), threading.Event()

    async def one_after_the_other(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
        for queue in inputs:
            while not is_eof(item := await queue.get()):
                await output.put(item)
            told.set()

    def waits() -> Iterator[int]:
        assert told.wait(20)
        yield 3

    def drops_the_last(x: int) -> int | None:
        return x if x == 1 else go.wait(20) and None

    branches: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig([1, 2]), [Pipe(drops_the_last)], SinkConfig(1)),
        PipelineConfig(SourceConfig(waits()), [], SinkConfig(1)),
    ]
    config: PipelineConfig[Any] = PipelineConfig(Merge(branches, one_after_the_other), [], SinkConfig(3))
    with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        assert pipeline.get_item(timeout=20) == 1
        engine = pipeline._engine
        event_loop: Any = engine.event_loop
        # The loop has seen the end of the source, and the stage will drop the last item. If both threads are busy, the
        # loop sees that end later.
        wait_until(lambda: any(each.ended for each in engine.sources) and not event_loop._woken, 1)
        go.set()
        assert told.wait(10)
        assert list(pipeline.get_iterator(timeout=20)) == [3]


def test_it_may_make_new_items_and_drop_some() -> None:
    with merged(pairs, range(5), [*"abc"]).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [(0, "a"), (1, "b"), (2, "c")]


def test_epochs() -> None:
    with merged(in_epochs, [1, 2], [3], continuous=True).auto_stop() as pipeline:
        for _ in range(3):
            assert list(pipeline.get_iterator(timeout=20)) == [1, 2, 3]


async def of_those_left(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
    """Go on without the branches that have ended."""
    queues = list(inputs)
    while queues:
        end = None
        for queue in list(queues):
            while not (is_eof(item := await queue.get()) or is_epoch_end(item)):
                await output.put(item)
            if is_eof(item):
                queues.remove(queue)
            else:
                end = item
        if end is not None:
            await output.put(end)


def test_an_epoch_in_which_a_branch_has_failed_does_not_look_complete() -> None:
    first_is_read = threading.Event()

    class FailsInItsSecondPass:
        def __init__(self) -> None:
            self.passes = 0

        def __iter__(self) -> Iterator[str]:
            self.passes += 1
            yield "a"
            if self.passes == 2:
                assert first_is_read.wait(20)
                raise OSError("gone")
            yield "b"

    with merged(of_those_left, FailsInItsSecondPass(), [*"xy"], continuous=True).auto_stop() as pipeline:
        assert sorted(pipeline.get_iterator(timeout=20)) == list("abxy")
        first_is_read.set()
        with pytest.raises(PipelineFailure) as raised:
            list(pipeline.get_iterator(timeout=20))
    assert [str(error) for error in raised.value.exceptions] == ["gone"]


def test_failures_name_their_source_items() -> None:
    def odd_only(x: int) -> int:
        if x % 2 == 0:
            raise ValueError(f"{x} is even")
        return x

    branches = [PipelineConfig(SourceConfig(range(n, n + 3)), [], SinkConfig(1)) for n in (0, 10)]
    config = PipelineConfig(Merge(branches, in_turn), [Pipe(odd_only)], SinkConfig(3))
    with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        assert sorted(pipeline.get_iterator(timeout=20)) == [1, 11]
    origins = {(item.sources, item.positions) for item in pipeline.failures()}
    assert origins == {((0,), (0,)), ((0,), (2,)), ((1,), (0,)), ((1,), (2,))}


@pytest.mark.parametrize("error", [OSError("no network"), KeyboardInterrupt()])
def test_what_it_raises_fails_the_pipeline(error: BaseException) -> None:
    async def op(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
        await output.put(await inputs[0].get())
        raise error

    pipeline = merged(op, [1, 2, 3], [4])
    assert pipeline.get_item(timeout=20) == 1
    with pytest.raises(PipelineFailure) as caught:
        pipeline.get_item(timeout=20)
    (failure,) = caught.value.exceptions
    assert error in (failure, failure.__cause__)
    assert any(note.endswith(":0:merge") for note in failure.__notes__)
    pipeline.stop()


def test_it_may_put_out_more_than_it_took() -> None:
    """A merge op may repeat items or add some, as in the released reference."""

    async def op(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
        await output.put("header")
        for queue in inputs:
            while not is_eof(item := await queue.get()):
                await output.put(item)
                await output.put(item)
        await output.put("footer")

    with merged(op, range(4), range(4, 6)).auto_stop() as pipeline:
        got = list(pipeline.get_iterator(timeout=20))
    assert got == ["header", *(item for item in range(6) for _ in range(2)), "footer"]
    assert pipeline.statistics().in_flight == 0


@pytest.mark.filterwarnings("ignore:The source of the pipeline")
def test_what_it_makes_up_fails_without_a_source_item(caplog: pytest.LogCaptureFixture) -> None:
    async def op(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
        await output.put("made up")
        await output.put(1)

    config = PipelineConfig(
        Merge([PipelineConfig(SourceConfig([]), [], SinkConfig(1))], op), [Pipe(lambda x: 1 // x)], SinkConfig(3)
    )
    with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [1]
    (failed,) = pipeline.failures()
    assert (failed.positions, failed.origin) == ((), "an item of no source")
    assert "failed on an item of no source" in caplog.text
    assert "'made up'" in failed.item


def test_stop_while_it_waits() -> None:
    waiting = threading.Event()

    async def op(info: StageInfo, inputs: Queues, output: asyncio.Queue[Any]) -> None:
        waiting.set()
        await asyncio.sleep(60)

    pipeline = merged(op, range(100), range(100))
    pipeline.start()
    assert waiting.wait(20)
    assert wait_until(lambda: pipeline.statistics().stages[0].num_completed >= 2)
    pipeline.stop(timeout=5)


@pytest.mark.parametrize("wrong", [len, 3, lambda info, inputs, output: None, "op"])
def test_an_op_that_is_no_coroutine_function_is_refused(wrong: Any) -> None:
    branch = PipelineConfig(SourceConfig([1]), [], SinkConfig(1))
    with pytest.raises(TypeError, match=r"`op` must be a coroutine function of \(info, input_queues, output_queue\)"):
        Merge([branch], wrong)
