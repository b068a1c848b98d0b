"""Test the measurements of StatsQueue and classes derived from it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.queues.kinds import Kept
from tests.pipeline.support import source

from spdl.pipeline import AsyncQueue, QueuePerfStats, StageInfo, StatsQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline import PipelineBuilder

INFO = StageInfo(0, "1", "op", 2)


@pytest.fixture(autouse=True)
def made() -> list[Kept]:
    Kept.made = []
    return Kept.made


def nap(seconds: float) -> Callable[[Any], Any]:
    def op(x: Any) -> Any:
        time.sleep(seconds)
        return x

    return op


def until(enough: Callable[[], object]) -> Iterator[int]:
    """Yield some items, and more until there was enough: how many are done in an interval depends on the machine."""
    return itertools.takewhile(lambda x: x < 20 or not enough(), range(4000))


def run(builder: PipelineBuilder[Any, Any], kind: Any = Kept, *, consume: float = 0, **kwargs: Any) -> list[Any]:
    with builder.add_sink(3).build(num_threads=4, queue_class=kind, **kwargs).auto_stop() as pipeline:
        items = []
        for item in pipeline.get_iterator(timeout=20):
            items.append(item)
            time.sleep(consume)
        return items


def whole(queue: StatsQueue[Any]) -> QueuePerfStats:
    """Return the statistics from the queue's beginning to now. Log lines would show one decimal place only."""
    return queue._record().total(queue._began_at)


class TestValues:
    """The values that need no known times; tests/pipeline/timed has the others."""

    def test_epochs_are_no_items(self, made: list[Kept]) -> None:
        pipeline = source([1, 2, 3], continuous=True).add_sink(1).build(num_threads=1, queue_class=Kept)
        with pipeline.auto_stop():
            for _ in range(4):
                assert list(pipeline.get_iterator(timeout=10)) == [1, 2, 3]
        assert 12 <= whole(made[-1]).num_items <= 20


class TestAlone:
    """A StatsQueue also works as an asyncio queue without a pipeline; tests/pipeline/timed has its values."""

    @pytest.mark.parametrize("interval", ["1", None, float("nan")])
    def test_an_interval_is_a_number(self, interval: Any) -> None:
        with pytest.raises((TypeError, ValueError), match="`interval`"):
            StatsQueue[int](INFO, interval=interval)


class TestReports:
    """Statistics come at intervals and at the end."""

    def test_a_line_for_each_at_its_end(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "spdl.pipeline")
        run(source(range(20)).pipe(abs, name="op"))
        lines = [record.getMessage() for record in caplog.records if record.name == "spdl.pipeline.queues"]
        assert sorted(line.split("]\t")[0].split(":", 1)[1] for line in lines) == [
            "0:src_queue",
            "1:op_queue",
            "2:sink_queue",
        ]
        assert all("Processed    20 items in" in line for line in lines)

    def test_what_the_callback_raises_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        calls: list[QueuePerfStats] = []

        class Failing(StatsQueue[Any]):
            def __init__(self, info: StageInfo, *, buffer_size: int = 1) -> None:
                super().__init__(info, buffer_size=buffer_size, interval=0.02)

            async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
                calls.append(stats)
                raise OSError("no place left")

        assert len(run(source(until(lambda: len(calls) >= 3)).pipe(nap(0.005)), Failing)) >= 20
        errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(errors) >= 3
        assert all("interval_stats_callback" in error and "no place left" in error for error in errors)

    def test_a_callback_that_ignores_its_cancellation_is_left_behind(self, caplog: pytest.LogCaptureFixture) -> None:
        calls: list[QueuePerfStats] = []

        class Deaf(StatsQueue[Any]):
            def __init__(self, info: StageInfo, *, buffer_size: int = 1) -> None:
                super().__init__(info, buffer_size=buffer_size, interval=0.02 if info.stage_name == "op" else -1)

            async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
                calls.append(stats)
                while True:
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(3600)

        assert len(run(source(until(lambda: calls)).pipe(nap(0.005), name="op"), Deaf)) >= 20
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert len(warnings) == 1
        assert "interval_stats_callback of" in warnings[0]
        assert "op_queue' should have ended with its pipeline and still runs after 1 s" in warnings[0]


class TestMethodsOfObjects:
    """Callbacks may be set on a queue instead of written in its class."""

    def test_a_callback_is_called_at_intervals(self) -> None:
        laps: dict[str, list[QueuePerfStats]] = {}

        def make(info: StageInfo, *, buffer_size: int) -> StatsQueue[Any]:
            queue = StatsQueue[Any](info, buffer_size=buffer_size, interval=0.03)

            async def keep(stats: QueuePerfStats) -> None:
                await asyncio.sleep(0)
                laps.setdefault(info.stage_name, []).append(stats)

            queue.interval_stats_callback = keep  # type: ignore[method-assign]
            return queue

        def are_told() -> bool:
            return len(laps) == 3 and all(sum(lap.num_items for lap in each) for each in laps.values())

        results = run(source(until(are_told)).pipe(nap(0.01), name="op"), make)
        assert set(laps) == {"src", "op", "sink"}
        assert all(1 <= sum(lap.num_items for lap in each) <= len(results) for each in laps.values())

    @pytest.mark.parametrize("kind", [AsyncQueue, StatsQueue])
    def test_one_that_carries_is_called(self, kind: type[AsyncQueue[Any]]) -> None:
        seen: list[Any] = []

        def make(info: StageInfo, *, buffer_size: int) -> AsyncQueue[Any]:
            queue = kind(info, buffer_size=buffer_size)
            put = queue.put

            async def note(item: Any) -> None:
                seen.append((info.stage_name, item))
                await put(item)

            queue.put = note  # type: ignore[method-assign]
            return queue

        assert run(source([7]), make) == [7]
        assert [each for each in seen if each[1] == 7] == [("src", 7), ("sink", 7)]


def test_the_record_is_that_of_the_reference() -> None:
    stats = QueuePerfStats(2.0, 10, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.5)
    assert astuple(stats) == (2.0, 10, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.5)
    assert stats.qps == 5
    assert QueuePerfStats(0, 10, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.5).qps == 0
    assert repr(stats).startswith(
        "QueuePerfStats(elapsed=2.0, num_items=10, ave_put_time=1.0, ave_get_time=2.0, p90_put"
    )
