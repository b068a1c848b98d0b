"""What a StatsQueue measures, and how a queue that loses the end of the input is found out."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from tests.pipeline.queues.kinds import EndsNot, Kept, Plain
from tests.pipeline.support import source
from tests.pipeline.timed.programs import binned, exactly, nap, program, run, slowly
from tests.simulation.world import new_event_loop, sleep

from spdl.pipeline import AsyncQueue, PipelineFailure, QueuePerfStats, StageInfo, StatsQueue, is_eof
from spdl.pipeline.config import set_default_queue_class

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from spdl.pipeline import Pipeline


class Often(Kept):
    """One that has an interval."""

    def __init__(self, info: StageInfo, *, buffer_size: int = 1) -> None:
        super().__init__(info, buffer_size=buffer_size, interval=0.03)


def _run(builder: Any, kind: Any = Kept, **options: Any) -> list[Kept]:
    Kept.made = []
    run(builder, queue_class=kind, **options)
    return Kept.made


def _whole(queue: StatsQueue[Any]) -> QueuePerfStats:
    """Return the statistics from the queue's beginning to now. Log lines would show one decimal place only."""
    return queue._record().total(queue._began_at)


@program
def a_slow_stage() -> None:
    made = _run(source(range(40)).pipe(nap(0.01), name="slow"))
    before, behind, sink = (_whole(queue) for queue in made)
    assert [queue.info.stage_name for queue in made] == ["src", "slow", "sink"]
    assert before.num_items == behind.num_items == sink.num_items == 40
    assert 0.008 <= before.ave_put_time <= 0.01
    assert before.p90_put_time == binned(0.01)
    assert behind.ave_put_time == exactly(0)
    assert behind.ave_get_time == exactly(0.01)
    assert behind.p90_get_time == binned(0.01)
    assert behind.occupancy_rate < 0.02


@program
def a_slow_source() -> None:
    first = _whole(_run(source(slowly(30, 0.01)).pipe(abs))[0])
    assert first.num_items == 30
    assert first.ave_put_time == exactly(0)
    assert first.ave_get_time == exactly(0.01)
    assert first.occupancy_rate < 0.02


@program
def a_slow_consumer() -> None:
    sink = _whole(_run(source(range(30)), consume=0.01)[-1])
    assert sink.num_items == 30
    assert sink.occupancy_rate > 0.8
    assert 0.007 <= sink.ave_put_time <= 0.01


@program
def each_lap_covers_the_time_since_the_last() -> None:
    for queue in _run(source(range(30)).pipe(nap(0.01)), Often):
        assert len(queue.laps) in (9, 10)
        assert 27 <= sum(lap.num_items for lap in queue.laps) <= 30
        assert all(lap.elapsed == exactly(0.03) for lap in queue.laps)


@program
def the_default_class_gets_the_interval_of_the_build() -> None:
    set_default_queue_class(Kept)
    try:
        made = _run(source(range(20)).pipe(nap(0.005)), None, report_stats_interval=0.02)
    finally:
        set_default_queue_class()
    assert [queue.interval for queue in made] == [0.02] * 3
    assert all(len(queue.laps) in (4, 5) for queue in made)


def _alone(use: Coroutine[Any, Any, Any]) -> Any:
    loop = new_event_loop()
    try:
        return loop.run_until_complete(use)
    finally:
        loop.close()


@program
def one_without_a_pipeline_measures_the_waits_on_both_sides() -> None:
    async def use() -> tuple[QueuePerfStats, QueuePerfStats]:
        queue = StatsQueue[int](StageInfo(0, "1", "op", 2), buffer_size=1)
        async with queue.stage_hook():
            await queue.put(1)
            blocked = asyncio.ensure_future(queue.put(2))
            await asyncio.sleep(0.05)
            assert (await queue.get(), await queue.get()) == (1, 2)
            await blocked
            first = _whole(queue)
            waiting = asyncio.ensure_future(queue.get())
            await asyncio.sleep(0.1)
            await queue.put(3)
            assert await waiting == 3
            return first, _whole(queue)

    first, second = _alone(use())
    assert (first.num_items, second.num_items) == (2, 3)
    # One of two puts waited, and one of three gets.
    assert first.ave_put_time == exactly(0.05 / 2)
    assert first.ave_get_time == exactly(0)
    assert first.occupancy_rate > 0.99
    assert second.ave_get_time == exactly(0.1 / 3)
    assert second.occupancy_rate == exactly(0.05 / 0.15)


@program
def one_in_which_something_lies_is_occupied() -> None:
    async def use() -> QueuePerfStats:
        queue = StatsQueue[int](StageInfo(0, "1", "op", 2), buffer_size=2)
        async with queue.stage_hook():
            await queue.put(1)
            await asyncio.sleep(0.05)
            return _whole(queue)

    stats = _alone(use())
    assert stats.num_items == 0
    assert stats.occupancy_rate > 0.99
    assert stats.qps == 0


class GivesNoEnd(AsyncQueue[Any]):
    """A queue that loses the end of the input on its way out."""

    async def get(self) -> Any:
        while is_eof(item := await super().get()):
            pass
        return item


class Takes4(AsyncQueue[Any]):
    """A queue that loses everything after the first 4 items."""

    taken = 0

    async def put(self, item: Any) -> None:
        self.taken += 1
        if self.taken <= 4:
            await super().put(item)


class Own(AsyncQueue[Any]):
    """A queue with its own store, which loses the end of the input."""

    def __init__(self, info: Any, *, buffer_size: int) -> None:
        super().__init__(info, buffer_size=buffer_size)
        self.store: deque[Any] = deque()
        self.filled = asyncio.Event()

    async def put(self, item: Any) -> None:
        if not is_eof(item):
            self.store.append(item)
            self.filled.set()

    async def get(self) -> Any:
        while not self.store:
            self.filled.clear()
            await self.filled.wait()
        return self.store.popleft()


class Slow(AsyncQueue[Any]):
    """A queue that takes longer for each item than the end may take to come out."""

    async def get(self) -> Any:
        item = await super().get()
        await asyncio.sleep(30)
        return item


def _lost(pipeline: Pipeline[Any], items: list[Any]) -> str:
    """Return what is said of a queue that has lost something, once these items have come."""
    assert [pipeline.get_item(timeout=200) for _ in items] == items
    try:
        pipeline.get_item(timeout=200)
    except PipelineFailure as failure:
        return " ".join(map(str, failure.exceptions))
    finally:
        pipeline.stop()
    raise AssertionError("nothing was said")


def _loses_the_end(kind: type[AsyncQueue[Any]]) -> None:
    text = _lost(source(range(6)).pipe(str).add_sink(9).build(num_threads=1, queue_class=kind), list("012345"))
    # The queue of any stage may be the first to report it.
    assert text.startswith(f"The queue {kind.__name__!r} of stage ")
    assert " lost the end of the input. Each object that is put into a queue must come out" in text


@program
def one_that_loses_the_end_of_the_input_on_its_way_in_is_named() -> None:
    _loses_the_end(EndsNot)


@program
def one_that_loses_the_end_of_the_input_on_its_way_out_is_named() -> None:
    _loses_the_end(GivesNoEnd)


@program
def one_that_loses_items_and_the_end_is_named_with_the_items() -> None:
    text = _lost(source(range(6)).add_sink(9).build(num_threads=1, queue_class=Takes4), [0, 1, 2, 3])
    assert ":0:src lost 2 item(s): source items 4, 5, and the end of the input." in text


@program
def one_with_a_store_of_its_own_is_named() -> None:
    pipeline = source(range(4)).add_sink(9).build(num_threads=1, queue_class=Own)
    assert "lost the end of the input." in _lost(pipeline, [0, 1, 2, 3])


@program
def a_queue_may_take_its_time() -> None:
    with source(range(3)).add_sink(9).build(num_threads=1, queue_class=Slow).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=100)) == [0, 1, 2]


@program
def what_is_full_behind_a_queue_is_no_fault_of_it() -> None:
    got = []
    with source(range(5)).add_sink(1).build(num_threads=1, queue_class=Plain).auto_stop() as pipeline:
        for item in pipeline.get_iterator(timeout=100):
            sleep(30)
            got.append(item)
    assert got == [0, 1, 2, 3, 4]
