"""Regions that do what the same stages do in threads."""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, Pipe, ProcessPoolExecutorConfig, ThreadPoolExecutorConfig

from . import ops

TWO = ProcessPoolExecutorConfig(2)
ONE = ProcessPoolExecutorConfig(1)


def run(builder: PipelineBuilder[Any, Any], **options: Any) -> list[Any]:
    with builder.add_sink().build(**{"num_threads": 2, **options}).auto_stop() as pipeline:
        return list(pipeline.get_iterator(timeout=60))


def test_plain_stages_run_in_other_processes() -> None:
    builder = PipelineBuilder().add_source(range(200)).to(TWO).pipe(ops.square).pipe(ops.pid).to(MAIN_PROCESS)
    pids = Counter(run(builder))
    assert sum(pids.values()) == 200
    assert os.getpid() not in pids
    assert len(pids) <= 2


def test_each_item_comes_once() -> None:
    builder = PipelineBuilder().add_source(range(3000)).to(TWO).pipe(ops.square, concurrency=2).to(MAIN_PROCESS)
    assert sorted(run(builder)) == [x * x for x in range(3000)]


@pytest.mark.parametrize("size", [1, 3, 64])
def test_the_size_of_a_hand_over_changes_nothing(size: int) -> None:
    builder = PipelineBuilder().add_source(range(500)).to(TWO, buffer_size=size).pipe(ops.three)
    builder = builder.pipe(ops.odd_only).to(MAIN_PROCESS, buffer_size=size)
    assert sorted(run(builder)) == sorted(y for x in range(500) for y in ops.three(x) if y % 2)


# How many cross at once follows from how long the op takes.
@pytest.mark.long
def test_short_items_cross_together_behind_a_stage_as_well() -> None:
    stops = range(1000, 11_000, 1000)
    opened = {stop: threading.Event() for stop in stops}
    made = [0]

    def front(item: int) -> int:
        made[0] += 1
        return item

    def has_made(many: int) -> bool:
        return made[0] >= many

    def inside(item: int) -> int:
        assert item not in opened or opened[item].wait(60)
        return item

    count = stops[-1] + 1000
    builder = PipelineBuilder().add_source(range(count)).pipe(front).to(ThreadPoolExecutorConfig(1), buffer_size=16)
    with builder.pipe(inside).to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        items = pipeline.get_iterator(timeout=60)
        came: list[int] = []
        together = False
        for stop in stops:
            came += islice(items, stop - 10 - len(came))
            # Where a few fill the queue in front of the region, a few cross at once. The worker has some, too. If the
            # machine lets an op seem long, few cross as well: then it must be so at a later stop.
            together = together or wait_until(partial(has_made, stop + 16), 1)
            opened[stop].set()
        assert together
        assert came + list(items) == list(range(count))


def test_all_kinds_of_ops() -> None:
    builder = PipelineBuilder().add_source(range(40)).to(TWO)
    builder = builder.pipe(ops.later, concurrency=3).pipe(ops.twice_later).pipe({x: -x for x in range(1000)})
    builder = builder.aggregate(4).disaggregate().to(MAIN_PROCESS)
    assert sorted(run(builder)) == sorted(-(10 * (x + 1) + i) for x in range(40) for i in range(2))


def test_batches_hold_each_item_once() -> None:
    builder = PipelineBuilder().add_source(range(100)).to(TWO).aggregate(8).to(MAIN_PROCESS)
    batches = run(builder)
    assert sorted(x for batch in batches for x in batch) == list(range(100))
    assert all(len(batch) <= 8 for batch in batches)
    # Each worker may have one that is not full.
    assert sum(len(batch) < 8 for batch in batches) <= 2


def test_one_worker_gathers_as_threads_do() -> None:
    builder = PipelineBuilder().add_source(range(100)).to(ONE).aggregate(8, drop_last=True).to(MAIN_PROCESS)
    assert run(builder) == [list(range(i, i + 8)) for i in range(0, 96, 8)]


def test_batches_larger_than_what_crosses_at_once() -> None:
    builder = PipelineBuilder().add_source(range(5000)).to(TWO, buffer_size=2).aggregate(2000).to(MAIN_PROCESS)
    batches = run(builder)
    assert sorted(x for batch in batches for x in batch) == list(range(5000))


def test_paths_inside() -> None:
    paths = [[Pipe(ops.negative)], [Pipe(ops.square), Pipe(ops.three)]]
    builder = PipelineBuilder().add_source(range(60)).to(TWO).path_variants(ops.by_parity, paths).to(MAIN_PROCESS)
    expected = [-x for x in range(0, 60, 2)] + [y for x in range(1, 60, 2) for y in ops.three(x * x)]
    assert sorted(run(builder)) == sorted(expected)


def test_batched_paths_inside() -> None:
    paths = [[Pipe(ops.same)], [Pipe(ops.same)]]
    builder = PipelineBuilder().add_source([list(range(i, i + 5)) for i in range(0, 50, 5)]).to(ONE)
    builder = builder.path_variants(_parities, paths, batched=True).to(MAIN_PROCESS)
    assert run(builder) == [
        [x for x in range(i, i + 5) if x % 2 == 0] + [x for x in range(i, i + 5) if x % 2] for i in range(0, 50, 5)
    ]


def _parities(batch: list[int]) -> list[int]:
    return [x % 2 for x in batch]


def test_ordered_stages_keep_the_order_across_workers() -> None:
    builder = PipelineBuilder().add_source(range(120)).to(TWO)
    builder = builder.pipe(ops.uneven, concurrency=2, output_order="input").pipe(ops.three).pipe(ops.odd_only)
    expected = [y for x in range(120) for y in ops.three(x) if y % 2]
    assert run(builder.to(MAIN_PROCESS)) == expected


def test_one_worker_keeps_the_order_of_stages_that_keep_it() -> None:
    builder = PipelineBuilder().add_source(range(300)).to(ONE).pipe(ops.square).pipe(ops.negative).to(MAIN_PROCESS)
    assert run(builder) == [-x * x for x in range(300)]


def test_order_and_batches_in_several_workers_are_refused() -> None:
    builder = PipelineBuilder().add_source(range(9)).to(TWO).pipe(ops.same, output_order="input").aggregate(2)
    with pytest.raises(ValueError, match="cannot both keep the order and gather"):
        builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)


def test_several_regions_and_stages_between_them() -> None:
    builder = PipelineBuilder().add_source(range(50)).pipe(ops.square).to(TWO).pipe(ops.negative).to(ONE)
    builder = builder.pipe(ops.three).to(MAIN_PROCESS).pipe(ops.later).to(MAIN_PROCESS).aggregate(10)
    out = run(builder)
    assert [len(batch) for batch in out] == [10] * 15
    assert sorted(x for batch in out for x in batch) == sorted(y + 1 for x in range(50) for y in ops.three(-x * x))


def test_regions_of_merged_pipelines() -> None:
    left = PipelineBuilder().add_source(range(30)).to(ONE).pipe(ops.square).to(MAIN_PROCESS)
    right = PipelineBuilder().add_source(range(30)).to(ONE).pipe(ops.negative).to(MAIN_PROCESS)
    out = run(PipelineBuilder().merge([left, right]).to(ONE).pipe(ops.same).to(MAIN_PROCESS))
    assert sorted(out) == sorted([x * x for x in range(30)] + [-x for x in range(30)])


def test_no_items() -> None:
    with pytest.warns(RuntimeWarning, match="yielded nothing"):
        assert run(PipelineBuilder().add_source([]).to(TWO).pipe(ops.same).to(MAIN_PROCESS)) == []


def test_all_items_dropped() -> None:
    builder = PipelineBuilder().add_source(range(0, 500, 2)).to(TWO).pipe(ops.odd_only).to(MAIN_PROCESS)
    with pytest.warns(RuntimeWarning, match=r"stage 'odd_only' dropped \d+ items"):
        assert run(builder) == []


def test_the_initializer_runs_in_each_worker() -> None:
    workers = ProcessPoolExecutorConfig(2, initializer=ops.remember, initargs=(1, "two"))
    out = run(PipelineBuilder().add_source(range(20)).to(workers).pipe(ops.recall).to(MAIN_PROCESS))
    assert sorted(out) == [(x, (1, "two")) for x in range(20)]
    assert ops.SECRET == []


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_ways_to_start(method: str) -> None:
    workers = ProcessPoolExecutorConfig(1, mp_context=method)
    assert run(PipelineBuilder().add_source([2, 3]).to(workers).pipe(ops.square).to(MAIN_PROCESS)) == [4, 9]


def test_executors_inside_are_left_out() -> None:
    with ThreadPoolExecutor(1) as executor:
        builder = PipelineBuilder().add_source([1]).to(ONE).pipe(ops.pid, executor=executor).to(MAIN_PROCESS)
        assert run(builder) != [os.getpid()]


def test_statistics_of_stages_in_workers() -> None:
    builder = PipelineBuilder().add_source(range(100)).to(TWO).pipe(ops.nap, concurrency=2).pipe(ops.odd_only)
    with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        assert len(list(pipeline)) == 50
        statistics = pipeline.statistics()
    source, nap, odd, sink = statistics.stages
    assert (source.name, nap.name, odd.name, sink.name) == ("src", "nap", "odd_only", "sink")
    assert (nap.concurrency, odd.concurrency) == (4, 2)
    assert (nap.num_completed, nap.num_emitted) == (100, 100)
    assert (odd.num_completed, odd.num_emitted, odd.num_dropped) == (100, 50, 50)
    assert nap.busy_seconds >= 100 * 0.002
    assert nap.durations[-1][1] == 100
    assert statistics.edges == ((0, 1), (1, 2), (2, 3))
    assert statistics.in_flight == 0


def test_statistics_count_what_runs_in_workers() -> None:
    go = threading.Event()

    def inside(item: int) -> int:
        assert go.wait(60)
        return item

    builder = PipelineBuilder().add_source(range(10)).to(ThreadPoolExecutorConfig(2)).pipe(inside, concurrency=2)
    with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        assert wait_until(lambda: pipeline.statistics().stages[1].running == 4, 60)
        go.set()
        assert sorted(pipeline) == list(range(10))
        assert pipeline.statistics().stages[1].running == 0


def test_epochs() -> None:
    builder = PipelineBuilder().add_source(range(10), continuous=True).to(TWO).pipe(ops.same).aggregate(4)
    with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        for _ in range(5):
            batches = list(pipeline.get_iterator(timeout=60))
            assert sorted(x for batch in batches for x in batch) == list(range(10))


def test_epochs_keep_their_workers() -> None:
    builder = PipelineBuilder().add_source(range(20), continuous=True).to(TWO).pipe(ops.pid).to(MAIN_PROCESS)
    with builder.add_sink().build(num_threads=1).auto_stop() as pipeline:
        pids = [pid for _ in range(4) for pid in pipeline]
    assert len(pids) == 80
    assert len(set(pids)) <= 2


def test_set_concurrency_reaches_workers() -> None:
    builder = PipelineBuilder().add_source(range(300)).to(TWO).pipe(ops.nap).to(MAIN_PROCESS).add_sink()
    with builder.build(num_threads=1).auto_stop() as pipeline:
        pipeline.get_item(timeout=60)
        pipeline.set_concurrency("nap", 8)
        assert len(list(pipeline)) == 299
        assert pipeline.statistics().stages[1].concurrency == 8


def test_a_pipeline_with_a_region_in_a_subprocess() -> None:
    config = PipelineBuilder().add_source(range(9)).to(ONE).pipe(ops.square).to(MAIN_PROCESS).add_sink().get_config()
    items = run_pipeline_in_subprocess(config, num_threads=1)
    try:
        assert sorted(items) == sorted(items) == [x * x for x in range(9)]
    finally:
        items.close()
