"""The counters against pipelines whose times are known."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import PipelineBuilder, PipelineStatistics


def sleep(seconds: float) -> Any:
    def op(x: int) -> int:
        time.sleep(seconds)
        return x

    return op


def burn(seconds: float) -> Any:
    def op(x: int) -> int:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return x

    return op


def finished(builder: PipelineBuilder[Any, Any], num_threads: int = 4) -> PipelineStatistics:
    with builder.add_sink(3).build(num_threads=num_threads).auto_stop() as pipeline:
        for _ in pipeline:
            pass
        return pipeline.statistics()


def test_counts() -> None:
    def op(x: int) -> int | None:
        if x % 10 == 0:
            raise ValueError(x)
        return x if x % 10 != 1 else None

    statistics = finished(source(range(100)).pipe(op, name="op", concurrency=2).aggregate(8))
    src, stage, batches, sink = statistics.stages
    assert [record.name for record in statistics.stages] == [
        "src",
        "op",
        "aggregate(op=collate(8), drop_last=False)",
        "sink",
    ]
    assert (src.num_completed, src.num_emitted) == (100, 100)
    assert (stage.num_completed, stage.num_failed, stage.num_dropped, stage.num_emitted) == (90, 10, 10, 80)
    assert (batches.num_completed, batches.num_emitted) == (80, 10)
    assert sink.num_completed == 10
    assert statistics.in_flight == 0
    assert stage.items_per_second == pytest.approx(80 / statistics.elapsed)


def test_generators_count_items_and_results_apart() -> None:
    def op(x: int) -> Iterator[int | None]:
        yield x
        yield None
        yield x

    stage = finished(source(range(10)).pipe(op)).stages[1]
    assert (stage.num_completed, stage.num_emitted, stage.num_dropped) == (10, 20, 10)


def test_in_flight_is_what_is_neither_delivered_nor_dropped() -> None:
    gate = threading.Event()
    pipeline = (
        source([[1, 2], [3, 4]]).disaggregate().pipe(lambda x: gate.wait(10) and x).add_sink(8).build(num_threads=2)
    )
    with pipeline.auto_stop():
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0.05)
        assert pipeline.statistics().in_flight == 2
        gate.set()
        assert [pipeline.get_item(timeout=10) for _ in range(3)] == [1, 2, 3]
        # The second list still has an element unread.
        assert pipeline.statistics().in_flight == 1
        assert pipeline.get_item(timeout=10) == 4
        assert pipeline.statistics().in_flight == 0


def test_busy_time_is_that_of_the_op_alone() -> None:
    statistics = finished(source(range(40)).pipe(sleep(0.005), concurrency=2).pipe(sleep(0.001)))
    first, second = statistics.stages[1:3]
    assert first.busy_seconds >= 40 * 0.005
    assert second.busy_seconds >= 40 * 0.001
    assert first.busy_seconds <= 2 * statistics.elapsed
    assert second.busy_seconds <= statistics.elapsed
    assert first.cpu_seconds < first.busy_seconds
    assert 0 < first.busy_share <= 1
    # The second stage has one slot: it works, or it waits.
    assert second.starved_seconds + second.busy_seconds <= statistics.elapsed * 1.01
    assert second.starved_seconds > 0


def test_cpu_time_of_ops_long_and_short() -> None:
    long = finished(source(range(20)).pipe(burn(0.002))).stages[1]
    assert 20 * 0.002 <= long.cpu_seconds <= long.busy_seconds * 1.01
    short = finished(source(range(3000)).pipe(burn(0.00002))).stages[1]
    # One op in 16 is measured and stands for the others.
    assert 0.5 * 3000 * 0.00002 <= short.cpu_seconds <= 4 * 3000 * 0.00002


def test_time_stops_with_the_pipeline() -> None:
    with source(range(3)).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline) == [0, 1, 2]
    assert pipeline.statistics() == pipeline.statistics()
