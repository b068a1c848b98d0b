"""Test a pipeline from start to end: reads, the ways to end, and that nothing is left behind."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.support import Gate, build, let_go, rests, wait_until

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_nothing_runs_before_the_start() -> None:
    before = threading.active_count()
    pipeline = build()
    assert threading.active_count() == before
    pipeline.stop()
    assert pipeline.statistics().elapsed == 0


def test_a_pipeline_runs_once() -> None:
    pipeline = build()
    with pipeline.auto_stop():
        assert list(pipeline) == list(range(10))
        with pytest.warns(RuntimeWarning, match="has been read to its end before") as caught:
            assert list(pipeline) == []
        assert caught[0].filename == __file__
    with pytest.raises(RuntimeError, match="build another"):
        pipeline.start()


def test_reading_starts_it() -> None:
    pipeline = build([1])
    assert pipeline.get_item() == 1
    with pytest.raises(EOFError):
        pipeline.get_item()
    with pytest.raises(EOFError):
        pipeline.get_item(timeout=0)
    pipeline.stop()


def test_several_readers_may_start_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = build([1])
    start, both = pipeline._start, threading.Barrier(2)

    def start_together() -> bool:
        # Both have seen that it is not started.
        both.wait(10)
        return start()

    monkeypatch.setattr(pipeline, "_start", start_together)
    seen: list[object] = []

    def read() -> None:
        try:
            seen.append(pipeline.get_item(timeout=10))
        except EOFError:
            seen.append("end")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(20)
    monkeypatch.undo()
    assert sorted(map(str, seen)) == ["1", "end"]
    with pytest.raises(RuntimeError, match="already started"):
        pipeline.start()
    pipeline.stop()


def test_get_item_times_out_and_goes_on() -> None:
    gate = threading.Event()
    pipeline = build([1], lambda x: gate.wait(10) and x)
    with pipeline.auto_stop():
        for timeout in (0, 0.01, -1):
            with pytest.raises(TimeoutError, match=r"none came in [\de.-]+ seconds. Nothing is lost"):
                pipeline.get_item(timeout=timeout)
        with pytest.raises(TimeoutError):
            next(pipeline.get_iterator(timeout=0.01))
        gate.set()
        assert pipeline.get_item(timeout=10) == 1


def test_a_loop_left_early_goes_on_where_it_stopped() -> None:
    pipeline = build(range(100))
    with pipeline.auto_stop():
        first = [item for item, _ in zip(pipeline, range(10), strict=False)]
        # zip takes one more item from the pipeline than it pairs.
        assert [*first, 10, *pipeline] == list(range(100))


def test_an_ended_iterator_stays_ended() -> None:
    pipeline = build([1])
    with pipeline.auto_stop():
        iterator = iter(pipeline)
        assert list(iterator) == [1]
        with pytest.raises(StopIteration):
            next(iterator)


def test_finished_items_can_be_read_after_stop() -> None:
    pipeline = build(range(100), sink=5)
    pipeline.start()
    assert wait_until(lambda: pipeline.statistics().stages[-1].queue_size == 5)
    pipeline.stop()
    with pytest.warns(RuntimeWarning, match=r"stopped before its end, so this iteration yields only the 5 items"):
        assert list(pipeline) == [0, 1, 2, 3, 4]
    pipeline.stop()


def test_a_pipeline_that_has_come_to_its_end_is_read_after_stop_without_a_warning() -> None:
    pipeline = build(range(3), sink=5)
    pipeline.start()
    assert wait_until(lambda: "finished" in repr(pipeline))
    pipeline.stop()
    assert list(pipeline) == [0, 1, 2]


@pytest.mark.parametrize("continuous", [False, True])
def test_ops_that_return_none_for_every_item_are_named(continuous: bool) -> None:  # noqa: FBT001
    def forgets(x: int) -> None:
        x + 1

    builder = PipelineBuilder().add_source(range(3), continuous=continuous).pipe(abs).pipe(forgets).add_sink()
    with (
        builder.build(num_threads=1).auto_stop() as pipeline,
        pytest.warns(RuntimeWarning, match=r"stage 'forgets' dropped \d+ items, since its op returned None") as caught,
    ):
        assert list(pipeline) == []
    assert caught[0].filename == __file__


def test_a_filter_that_lets_something_through_is_not_named() -> None:
    pipeline = build(range(3), lambda x: x if x == 2 else None)
    with pipeline.auto_stop():
        assert list(pipeline) == [2]


def failing_source() -> Iterator[int]:
    yield 1
    yield 2
    raise OSError("the disk is on fire")


def test_a_failed_source_is_told_after_the_items_before_it() -> None:
    pipeline = build(failing_source(), lambda x: x * 10, name="ten")
    pipeline.start()
    got: list[int] = []
    with pytest.raises(PipelineFailure) as caught:
        got.extend(iter(pipeline))
    assert got == [10, 20]
    (error,) = caught.value.exceptions
    assert isinstance(error, OSError)
    (note,) = error.__notes__
    assert note.endswith(":0:src")
    with pytest.raises(PipelineFailure):
        pipeline.get_item()
    pipeline.stop()


def test_an_unread_failure_is_told_once_by_stop() -> None:
    pipeline = build(failing_source(), sink=10)
    pipeline.start()
    assert wait_until(lambda: "failed" in repr(pipeline))
    with pytest.raises(PipelineFailure):
        pipeline.stop()
    pipeline.stop()


def test_the_blocks_own_exception_takes_precedence() -> None:
    pipeline = build(failing_source(), sink=10)

    def block() -> None:
        with pipeline.auto_stop():
            assert wait_until(lambda: "failed" in repr(pipeline))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        block()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_fails_the_pipeline(error: type[BaseException]) -> None:
    def op(x: int) -> int:
        if x == 3:
            raise error("from an op")
        return x

    pipeline = build(range(1000), op, sink=1000)
    pipeline.start()
    with pytest.raises(PipelineFailure) as caught:
        list(pipeline.get_iterator(timeout=10))
    assert isinstance(caught.value.exceptions[0].__cause__, error)
    pipeline.stop()


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration, MemoryError, EOFError, TimeoutError])
def test_any_exception_costs_one_item(error: type[Exception]) -> None:
    def op(x: int) -> int:
        if x == 3:
            raise error("from an op")
        return x

    pipeline = build(range(6), op)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=10)) == [0, 1, 2, 4, 5]
    assert pipeline.statistics().stages[1].num_failed == 1


def test_stop_waits_for_running_ops_and_names_those_that_do_not_return() -> None:
    gate = Gate()
    pipeline = build([1], lambda _: gate.wait(30), name="stuck")
    pipeline.start()
    assert gate.is_awaited()
    with pytest.raises(TimeoutError, match=r"(?s)'stuck', source item 0, .*gate\.wait"):
        pipeline.stop(timeout=0.05)
    gate.set()
    pipeline.stop()


def test_stop_does_not_wait_for_a_source_that_blocks() -> None:
    gate = threading.Event()

    def source() -> Iterator[int]:
        yield 1
        gate.wait(30)

    pipeline = build(source())
    pipeline.start()
    assert pipeline.get_item() == 1
    begin = time.monotonic()
    pipeline.stop()
    assert time.monotonic() - begin < 9
    gate.set()


def test_an_op_may_stop_its_own_pipeline_and_ask_for_statistics() -> None:
    def op(x: int) -> int:
        assert pipeline.statistics().stages[1].running >= 1
        if x == 5:
            pipeline.stop()
        return x

    pipeline = build(range(1000), op, num_threads=1)
    got = list(pipeline.get_iterator(timeout=10))
    assert got == list(range(len(got)))
    assert len(got) < 20
    pipeline.stop()


def test_a_waiting_reader_is_told_of_a_stop() -> None:
    gate = threading.Event()
    pipeline = build([1], lambda _: gate.wait(30))
    outcome: list[BaseException] = []

    def read() -> None:
        try:
            pipeline.get_item()
        except EOFError as error:
            outcome.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert wait_until(lambda: pipeline.statistics().stages[1].running == 1)
    with pytest.raises(TimeoutError):
        pipeline.stop(timeout=0)
    reader.join(20)
    assert not reader.is_alive()
    assert outcome
    gate.set()
    pipeline.stop()


def test_several_readers_share_the_items() -> None:
    pipeline = build(range(5000), lambda x: x, concurrency=2, sink=10)
    got: list[list[int]] = [[], [], []]
    readers = [threading.Thread(target=lambda mine=mine: mine.extend(pipeline)) for mine in got]
    with pipeline.auto_stop():
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(30)
    assert sorted(got[0] + got[1] + got[2]) == list(range(5000))


class Closable:
    def __init__(self) -> None:
        self.position = 0
        self.closed_in: list[str] = []

    def __iter__(self) -> Closable:
        return self

    def __next__(self) -> int:
        self.position += 1
        return self.position

    def close(self) -> None:
        self.closed_in.append(threading.current_thread().name)


def test_an_unfinished_source_is_closed_once() -> None:
    source = Closable()
    pipeline = build(source)
    with pipeline.auto_stop():
        assert pipeline.get_item() == 1
        # A stop does not wait for long for a source that is asked for an item at that moment.
        assert wait_until(lambda: rests(pipeline))
    assert len(source.closed_in) == 1


def test_an_exhausted_source_is_not_closed() -> None:
    class Short(Closable):
        def __next__(self) -> int:
            if self.position == 3:
                raise StopIteration
            return super().__next__()

    source = Short()
    with build(source).auto_stop() as pipeline:
        assert list(pipeline) == [1, 2, 3]
    assert source.closed_in == []


def test_an_item_that_stops_the_pipeline_when_it_is_dropped() -> None:
    class Item:
        def __del__(self) -> None:
            pipeline.stop()

    def op(x: int) -> Item | int:
        return Item() if x == 2 else x

    pipeline = build(range(100), op, num_threads=3, concurrency=3)
    pipeline.start()
    try:
        for _ in pipeline.get_iterator(timeout=10):
            gc.collect()
    finally:
        pipeline.stop()


def test_the_source_runs_no_further_ahead_than_said() -> None:
    source = Closable()
    pipeline = build(source, lambda x: x, concurrency=2, sink=1)
    with pipeline.auto_stop():
        assert pipeline.get_item() >= 1
        assert wait_until(lambda: pipeline.statistics().stages[1].blocked_seconds > 0)
        time.sleep(0.05)
        # One was read. The sink holds 1, the stage's slots 2, its queue 2, and a worker may hold one. The reference
        # pulls 10.
        assert source.position <= 1 + 1 + 2 + 2 + 1


def test_the_engine_keeps_no_item_that_was_read() -> None:
    class Item:
        pass

    alive: weakref.WeakSet[Item] = weakref.WeakSet()

    def items() -> Iterator[Item]:
        for _ in range(50):
            item = Item()
            alive.add(item)
            yield item
            del item
        gate.wait(10)

    def replace(_: Item) -> Item:
        item = Item()
        alive.add(item)
        return item

    gate = threading.Event()
    pipeline = build(items(), replace, concurrency=2, num_threads=2)
    with pipeline.auto_stop():
        for _ in range(50):
            pipeline.get_item(timeout=10)

        def are_gone() -> bool:
            let_go()
            return not alive

        assert wait_until(are_gone), f"{len(alive)} items are still referenced"
        gate.set()


def test_subscripts_and_repr() -> None:
    assert Pipeline[int] is not None
    pipeline = build([1], len, name="length")
    assert "built" in repr(pipeline)
    assert "length(concurrency=1, op=len)" in repr(pipeline)
