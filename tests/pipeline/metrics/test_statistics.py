"""Test the counters with pipelines whose times are known."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import pickle
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.hooks.kinds import Bystander
from tests.pipeline.support import fails_at, source, wait_until

from spdl.pipeline import PipelineFailure, PipelineStatistics, StageStatistics, build_pipeline
from spdl.pipeline.defs import Aggregate, Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from spdl.pipeline import PipelineBuilder, TaskHook


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
        assert wait_until(lambda: pipeline.statistics().in_flight == 2)
        gate.set()
        assert [pipeline.get_item(timeout=10) for _ in range(3)] == [1, 2, 3]
        # One element of the second list is still unread.
        assert pipeline.statistics().in_flight == 1
        assert pipeline.get_item(timeout=10) == 4
        # The stage that took it apart may let go of the list a moment later.
        assert wait_until(lambda: pipeline.statistics().in_flight == 0)


def test_busy_time_is_that_of_the_op_alone() -> None:
    statistics = finished(source(range(40)).pipe(sleep(0.005), concurrency=2).pipe(sleep(0.001)))
    first, second = statistics.stages[1:3]
    assert first.busy_seconds >= 40 * 0.005
    assert second.busy_seconds >= 40 * 0.001
    assert first.busy_seconds <= 2 * statistics.elapsed
    assert second.busy_seconds <= statistics.elapsed
    assert first.cpu_seconds < first.busy_seconds
    assert 0 < first.busy_share <= 1
    # The second stage has one slot, so it either works or waits.
    assert second.starved_seconds + second.busy_seconds <= statistics.elapsed * 1.01
    assert second.starved_seconds > 0


@pytest.mark.parametrize("kind", ["function", "retried"])
def test_a_slot_that_found_no_room_is_starved_once_there_is_room_and_no_item(kind: str) -> None:
    more, held = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield from range(4)
        assert more.wait(20)

    def op(x: int) -> int:
        assert x < 3 or held.wait(20)
        return x

    arguments: dict[str, Any] = {"retried": {"retries": 1}}
    builder = source(items()).pipe(op, concurrency=2, **arguments.get(kind, {})).add_sink(1)
    with builder.build(num_threads=2).auto_stop() as pipeline:

        def stage() -> StageStatistics:
            return pipeline.statistics().stages[1]

        # Three results take the place in the sink and those of both slots; the fourth item waits.
        assert wait_until(lambda: stage().blocked_seconds > 0 and stage().queue_size == 1)
        assert sorted(pipeline.get_item(timeout=10) for _ in range(3)) == [0, 1, 2]
        assert wait_until(lambda: stage().running == 1)
        # It is worked on in one slot, and nothing is there for the other one.
        before = stage().starved_seconds
        time.sleep(0.1)
        assert stage().starved_seconds - before >= 0.05
        held.set()
        more.set()
        assert list(pipeline.get_iterator(timeout=10)) == [3]


@pytest.mark.parametrize("kind", ["function", "ordered", "generator", "async", "executor"])
def test_a_slot_without_an_item_is_starved(kind: str) -> None:
    more, begun, held = threading.Event(), threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 0
        assert more.wait(20)
        yield 1

    def op(x: int) -> int:
        if x:
            begun.set()
            assert held.wait(20)
        return x

    def generator(x: int) -> Iterator[int]:
        yield op(x)

    async def coroutine(x: int) -> int:
        if x:
            begun.set()
            await asyncio.to_thread(held.wait, 20)
        return x

    with ThreadPoolExecutor(1) as pool:
        arguments: dict[str, Any] = {"ordered": {"output_order": "input"}, "executor": {"executor": pool}}
        function = {"generator": generator, "async": coroutine}.get(kind, op)
        builder = source(items()).pipe(function, **arguments.get(kind, {})).add_sink(3)
        with builder.build(num_threads=1).auto_stop() as pipeline:

            def stage() -> StageStatistics:
                return pipeline.statistics().stages[1]

            assert pipeline.get_item(timeout=10) == 0
            assert wait_until(lambda: not stage().running)
            before = stage().starved_seconds
            time.sleep(0.1)
            assert stage().starved_seconds - before >= 0.05
            more.set()
            assert begun.wait(10)
            # The slot is taken.
            before = stage().starved_seconds
            time.sleep(0.05)
            assert stage().starved_seconds == before
            held.set()
            assert pipeline.get_item(timeout=10) == 1


def test_cpu_time_of_ops_long_and_short() -> None:
    long = finished(source(range(20)).pipe(burn(0.002))).stages[1]
    assert 20 * 0.002 <= long.cpu_seconds <= long.busy_seconds * 1.01
    short = finished(source(range(3000)).pipe(burn(0.00002))).stages[1]
    # One op in 16 is measured, and stands for all 16.
    assert 0.5 * 3000 * 0.00002 <= short.cpu_seconds <= 4 * 3000 * 0.00002


def test_time_stops_with_the_pipeline() -> None:
    with source(range(3)).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline) == [0, 1, 2]
    assert pipeline.statistics() == pipeline.statistics()


# What samples, statistics and windows call the same.
Counts: Any = StageStatistics.__base__


@pytest.mark.parametrize("record", [StageStatistics, PipelineStatistics, Counts])
def test_every_field_is_documented(record: Any) -> None:
    described = re.findall(r"^ {4,8}(\w+): \S", record.__doc__.partition("Attributes:")[2], re.MULTILINE)
    # What samples and statistics share is documented once.
    shared = {field.name for field in dataclasses.fields(Counts)} if record is not Counts else set()
    assert described == [field.name for field in dataclasses.fields(record) if field.name not in shared]


def test_records_are_frozen_and_hold_no_more_than_numbers_and_text() -> None:
    statistics = finished(source(range(3)).pipe(abs))
    for record in (statistics, *statistics.stages):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, "elapsed", 0)  # noqa: B010 - the type checker forbids the statement.
    for stage in statistics.stages:
        *values, durations = dataclasses.astuple(stage)
        assert {type(value) for value in values} <= {int, float, str}
        assert {type(value) for pair in durations for value in pair} <= {int, float}
        assert json.loads(json.dumps(dataclasses.asdict(stage), allow_nan=False))["name"] == stage.name
    assert pickle.loads(pickle.dumps(statistics)) == statistics  # noqa: S301 - our own.


def test_before_the_start_all_is_nought() -> None:
    pipeline = source(range(3)).pipe(len, concurrency=4).add_sink(5).build(num_threads=1)
    statistics = pipeline.statistics()
    assert (statistics.elapsed, statistics.in_flight, statistics.bottleneck) == (0, 0, "Nothing has run yet.")
    assert [stage.concurrency for stage in statistics.stages] == [1, 4, 1]
    assert [stage.queue_capacity for stage in statistics.stages] == [0, 2, 5]
    for stage in statistics.stages:
        assert stage.num_completed == stage.running == stage.busy_seconds == stage.starved_seconds == 0
        assert stage.items_per_second == stage.busy_share == 0


def test_the_sentence_says_what_was_counted_when_the_statistics_were_taken() -> None:
    pipeline = source(range(3)).pipe(lambda item: item).add_sink(5).build(num_threads=1)
    before = pipeline.statistics()
    with pipeline.auto_stop():
        assert list(pipeline) == [0, 1, 2]
    assert pipeline.statistics().bottleneck != "Nothing has run yet."
    assert (before.bottleneck, before.stages[-1].num_completed) == ("Nothing has run yet.", 0)


def test_the_limit_is_the_current_one() -> None:
    gate = threading.Event()
    graph = source(range(100)).pipe(lambda x: gate.wait(20) and x, concurrency=2, name="op").add_sink(200)
    pipeline = graph.build(num_threads=2)

    def working() -> tuple[int, int]:
        stage = pipeline.statistics().stages[1]
        return stage.running, stage.concurrency

    with pipeline.auto_stop():
        assert wait_until(lambda: working() == (2, 2))
        pipeline.set_concurrency("op", 5)
        assert wait_until(lambda: working() == (5, 5))
        pipeline.set_concurrency("op", 1)
        # Ops under way are not interrupted.
        assert working() == (5, 1)
        gate.set()
        assert len(list(pipeline.get_iterator(timeout=10))) == 100
    assert working() == (0, 1)


def test_async_ops_are_busy_and_use_no_measured_cpu() -> None:
    async def op(x: int) -> int:
        await asyncio.sleep(0.01)
        return x

    stage = finished(source(range(20)).pipe(op, concurrency=10)).stages[1]
    assert stage.busy_seconds >= 20 * 0.009
    assert stage.cpu_seconds == 0
    assert (stage.num_completed, stage.num_emitted, stage.running) == (20, 20, 0)


async def _asked_for_more(x: int) -> AsyncIterator[int]:
    yield x
    yield x


@pytest.mark.parametrize("hooks", [[], [Bystander()]])
def test_nothing_runs_in_a_pipeline_that_was_stopped(hooks: list[TaskHook]) -> None:
    """Generators waited for a place when the stop came."""
    builder = source(range(100)).pipe(_asked_for_more, concurrency=2).add_sink(1)
    with builder.build(num_threads=1, task_hook_factory=lambda _: hooks).auto_stop() as pipeline:
        assert pipeline.get_item(timeout=10) == 0
        assert wait_until(lambda: pipeline.statistics().stages[1].running)
    assert [stage.running for stage in pipeline.statistics().stages] == [0, 0, 0]


def test_merges_forks_and_their_paths() -> None:
    branches = [PipelineConfig(SourceConfig(range(size)), [Pipe(abs)], SinkConfig(1)) for size in (4, 6)]
    fork = PathVariants(lambda x: x % 2, [[Pipe(str)], [Pipe(float), Aggregate(2)]])
    pipeline = build_pipeline(PipelineConfig(Merge(branches), [fork], SinkConfig(1)), num_threads=2)
    with pipeline.auto_stop():
        assert len(list(pipeline.get_iterator(timeout=10))) == 8
    emitted = [(stage.name, stage.num_emitted) for stage in pipeline.statistics().stages]
    assert emitted == [
        ("src[0]", 4),
        ("src[1]", 6),
        ("abs", 4),
        ("abs", 6),
        ("merge", 10),
        ("path_variants", 10),
        ("str", 5),
        ("float", 5),
        ("aggregate(op=collate(2), drop_last=False)", 3),
        ("path_variants_merge", 8),
        ("sink", 8),
    ]


class TestAnywhere:
    """Statistics take no lock, so they can be read anywhere."""

    def test_in_ops_sources_callbacks_and_finalisers(self) -> None:
        seen: dict[str, PipelineStatistics] = {}

        class Item:
            def __del__(self) -> None:
                seen["finaliser"] = pipeline.statistics()

        def items() -> Iterator[int]:
            for x in range(4):
                seen["source"] = pipeline.statistics()
                yield x

        def op(x: int) -> Any:
            seen["op"] = pipeline.statistics()
            if x == 1:
                raise ValueError(x)
            return Item() if x == 2 else x

        async def op_async(x: Any) -> Any:
            seen["async op"] = pipeline.statistics()
            return x if isinstance(x, int) else -1

        graph = source(items()).pipe(op, name="op", on_failure=lambda _: seen.update(callback=pipeline.statistics()))
        pipeline = graph.pipe(op_async).add_sink(4).build(num_threads=1)
        with pipeline.auto_stop():
            assert list(pipeline.get_iterator(timeout=10)) == [0, -1, 3]
        assert sorted(seen) == ["async op", "callback", "finaliser", "op", "source"]
        assert seen["op"].stages[1].running == 1
        assert seen["source"].stages[0].running == 1
        assert seen["callback"].stages[1].num_failed == 1

    def test_in_a_signal_handler(self) -> None:
        """The handler runs wherever the main thread is, also in the engine's critical sections."""
        seen: list[PipelineStatistics] = []
        pipeline = source(itertools.count()).pipe(lambda x: x, concurrency=2).add_sink(2).build(num_threads=2)
        looking = False

        def look(*_: object) -> None:
            nonlocal looking
            # A handler may be interrupted by the next signal, and would note its older counts later.
            if not looking:
                looking = True
                seen.append(pipeline.statistics())
                looking = False

        before = signal.signal(signal.SIGALRM, look)
        try:
            with pipeline.auto_stop():
                signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
                for _ in zip(pipeline.get_iterator(timeout=10), range(20_000), strict=False):
                    if len(seen) >= 50:
                        break
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert seen
        counts = [statistics.stages[1].num_completed for statistics in seen]
        assert counts == sorted(counts)

    def test_from_many_threads_while_all_moves(self) -> None:
        pipeline = source(range(20_000)).pipe(lambda x: x, concurrency=2).aggregate(8).add_sink(2).build(num_threads=2)
        failures: list[BaseException] = []
        ended = threading.Event()

        def look() -> None:
            last = 0
            try:
                while not ended.is_set():
                    statistics = pipeline.statistics()
                    src, stage, batches, sink = statistics.stages
                    assert last <= src.num_completed
                    assert 0 <= stage.running <= 2
                    assert 0 <= sink.queue_fill <= 1
                    assert 0 <= batches.queue_fill <= 1
                    assert all(record.elapsed == statistics.elapsed for record in statistics.stages)
                    last = src.num_completed
                    # A thread that never waits would keep the GIL from the others.
                    time.sleep(0.0001)
            except BaseException as error:  # noqa: BLE001 - it is raised below.
                failures.append(error)

        threads = [threading.Thread(target=look) for _ in range(3)]
        with pipeline.auto_stop():
            for thread in threads:
                thread.start()
            assert sum(map(len, pipeline.get_iterator(timeout=30))) == 20_000
            ended.set()
            for thread in threads:
                thread.join()
        assert not failures

    def test_after_the_pipeline_failed(self) -> None:
        pipeline = source(range(10)).pipe(fails_at(3), max_failures=0).add_sink(10).build(num_threads=1)
        with pytest.raises(PipelineFailure):
            list(pipeline.get_iterator(timeout=10))
        pipeline.stop()
        stage = pipeline.statistics().stages[1]
        assert (stage.num_completed, stage.num_failed, stage.concurrency) == (3, 1, 1)
        assert pipeline.statistics() == pipeline.statistics()
