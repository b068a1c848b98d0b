"""What the statistics say of stages whose times are known, and what they say is the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.pipeline.support import source
from tests.pipeline.timed.programs import drain, exactly, nap, program, slowly
from tests.simulation.world import sleep

if TYPE_CHECKING:
    from spdl.pipeline import PipelineBuilder, PipelineStatistics


def _finished(builder: PipelineBuilder[Any, Any], *, sink: int = 3, **options: Any) -> PipelineStatistics:
    pipeline = builder.add_sink(sink).build(num_threads=options.pop("num_threads", 4), **options)
    drain(pipeline)
    return pipeline.statistics()


@program
def busy_time_is_that_of_the_op_alone() -> None:
    statistics = _finished(source(range(40)).pipe(nap(0.005), concurrency=2).pipe(nap(0.001)))
    first, second = statistics.stages[1:3]
    assert first.busy_seconds == exactly(40 * 0.005)
    assert second.busy_seconds == exactly(40 * 0.001)
    assert first.busy_share == exactly(first.busy_seconds / statistics.elapsed / 2)
    # The second stage has one slot, so it either works or waits.
    assert second.starved_seconds + second.busy_seconds == exactly(statistics.elapsed)


@program
def a_slot_waits_for_input() -> None:
    src, stage = _finished(source(slowly(10, 0.01)).pipe(lambda x: x, name="op")).stages[:2]
    assert stage.starved_seconds == exactly(0.1)
    assert stage.blocked_seconds + stage.held_seconds == exactly(0)
    assert src.busy_seconds == exactly(0.1)
    assert src.blocked_seconds == exactly(0)


@program
def a_slot_waits_for_room() -> None:
    with source(range(100)).pipe(lambda x: x, name="op").add_sink(1).build(num_threads=1).auto_stop() as pipeline:
        assert pipeline.get_item(timeout=10) == 0
        sleep(0.1)
        # One is in the sink, and one keeps the stage's slot until there is room for it.
        src, stage, sink = pipeline.statistics().stages
    assert stage.blocked_seconds == exactly(0.1)
    assert src.blocked_seconds == exactly(0.1)
    assert stage.held_seconds == 0
    assert (sink.queue_size, sink.queue_capacity, sink.num_completed) == (2, 1, 1)
    assert stage.queue_size == stage.queue_capacity == 2


@program
def a_slot_waits_for_an_earlier_item() -> None:
    def op(x: int) -> int:
        if x == 0:
            sleep(0.2)
        return x

    graph = source(range(100)).pipe(op, concurrency=2, output_order="input", name="op").add_sink(200)
    with graph.build(num_threads=2).auto_stop() as pipeline:
        sleep(0.1)
        stage = pipeline.statistics().stages[1]
        assert stage.held_seconds == exactly(0.1)
        assert (stage.running, stage.num_emitted) == (1, stage.num_completed)
        assert stage.queue_size == 2
        assert list(pipeline.get_iterator(timeout=10)) == list(range(100))
    assert pipeline.statistics().stages[1].held_seconds == exactly(0.2)
    assert pipeline.statistics().stages[1].blocked_seconds == exactly(0)


@program
def an_ordered_stage_takes_no_more_than_is_said() -> None:
    for before in (0, 1):
        started: list[int] = []

        def op(x: int, started: list[int] = started) -> int:
            started.append(x)
            if x == 0:
                sleep(1.0)
            return x

        builder = source(range(100))
        for _ in range(before):
            builder.pipe(lambda x: x)
        pipeline = builder.pipe(op, concurrency=4, output_order="input").add_sink(100).build(num_threads=4)
        with pipeline.auto_stop():
            sleep(0.5)
            assert len(started) == 4 + 2
            assert list(pipeline.get_iterator(timeout=10)) == list(range(100))
        assert pipeline.statistics().stages[1 + before].held_seconds == exactly(1.0)


@program
def queues_are_as_full_as_they_are_found() -> None:
    """The queue from a quick stage to a slow one is full, and the queue from a slow stage to a quick one is empty."""
    statistics = _finished(
        source(range(60)).pipe(lambda x: x).pipe(nap(0.002), name="slow").pipe(lambda x: x, name="quick"), num_threads=3
    )
    _, _, slow, quick, sink = statistics.stages
    assert 0.9 < slow.queue_fill <= 1
    assert 0 <= quick.queue_fill < 0.05
    assert 0 <= sink.queue_fill < 0.05


@program
def retries_and_timeouts_are_counted() -> None:
    tries: dict[int, int] = {}

    def op(x: int) -> int:
        tries[x] = tries.get(x, 0) + 1
        if x < 3 and tries[x] <= 2:
            raise ValueError(x)
        if x == 9:
            sleep(0.5)
        return x

    stage = _finished(source(range(10)).pipe(op, retries=2, retry_delay=0.001, timeout=0.3)).stages[1]
    assert (stage.num_retried, stage.num_failed, stage.num_completed, stage.num_overdue) == (6, 0, 10, 1)


@program
def the_wait_for_the_lock_is_no_time_of_the_ops() -> None:
    with source([1]).pipe(nap(0.1)).add_sink(1).build(num_threads=1).auto_stop() as pipeline:
        sleep(0.05)
        with pipeline._engine.lock:
            sleep(0.5)
        assert pipeline.get_item(timeout=10) == 1
        stage = pipeline.statistics().stages[1]
        assert stage.busy_seconds == exactly(0.1)
        assert pipeline.statistics().elapsed > 0.5
