"""Whose turn it is where branches meet, and how long an end takes."""

from __future__ import annotations

import asyncio
import itertools
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.pipeline.support import source, twice, twice_async
from tests.pipeline.timed.programs import exactly, nap, program, slowly
from tests.simulation import scheduler
from tests.simulation.world import monotonic, sleep

from spdl.pipeline import build_pipeline
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def _merged(*branches: PipelineConfig[Any], sink: int) -> PipelineConfig[Any]:
    return PipelineConfig(Merge(branches), [], SinkConfig(sink))


def _chain(items: Any, *stages: Any) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig(items), stages, SinkConfig(1))


@program
def branches_of_a_merge_take_turns() -> None:
    branches = [_chain(itertools.repeat(branch)) for branch in range(3)]
    with build_pipeline(_merged(*branches, sink=1), num_threads=1).auto_stop() as pipeline:
        got = []
        for _ in range(100):
            # Until all places are taken.
            sleep(0.001)
            got.append(pipeline.get_item(timeout=20))
    # Those that came while the branches began may be out of the order.
    assert all(after == (before + 1) % 3 for before, after in pairwise(got[8:])), got


@program
def a_fast_branch_does_not_starve_a_slow_one() -> None:
    fast = _chain(itertools.count(), Pipe(lambda x: x, concurrency=16))
    slow = _chain(itertools.repeat("slow"), Pipe(nap(0.001)))
    with build_pipeline(_merged(fast, slow, sink=3), num_threads=4).auto_stop() as pipeline:
        got = []
        for _ in range(200):
            sleep(0.0005)
            got.append(pipeline.get_item(timeout=10))
    # One in a millisecond.
    assert got.count("slow") > 90


@program
def the_end_cancels_a_step_of_a_generator_at_once() -> None:
    async def waits() -> AsyncIterator[int]:
        await asyncio.sleep(300)
        yield 0

    steps: list[asyncio.Future[int]] = []

    async def op(item: int) -> int:
        steps.append(asyncio.ensure_future(anext(waits())))
        return item

    begin = monotonic()
    with source(range(3)).pipe(op).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [0, 1, 2]
    assert monotonic() - begin == exactly(0)
    assert all(step.cancelled() for step in steps)


@program
def workers_that_may_run_no_op_pull_what_takes_long() -> None:
    for seconds, before, ahead in ((0.0, 300, 0), (0.001, 50, 1)):
        closed = [False]
        pulled: list[int] = []
        begun: list[int] = []

        def items(seconds: float = seconds, pulled: list[int] = pulled) -> Iterator[int]:
            for number in itertools.count():
                sleep(seconds)
                pulled.append(number)
                yield number

        def op(x: int, begun: list[int] = begun, closed: list[bool] = closed) -> int:
            begun.append(x)
            while closed[0]:
                sleep(0.01)
            return x

        with source(items()).pipe(op).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
            results = pipeline.get_iterator(timeout=20)
            assert list(itertools.islice(results, before)) == list(range(before))
            # Until all places are taken. Then the reader makes one, and an op that does not end holds the only permit.
            sleep(1.0)
            closed[0] = True
            pulls, ops = len(pulled), len(begun)
            got = next(results)
            sleep(1.0)
            begun_then, pulled_then = len(begun), len(pulled)
            closed[0] = False
            assert got == before
            assert begun_then == ops + 1
            assert pulled_then == pulls + ahead


@program
def a_turn_that_needs_none_of_the_threads_waits_for_none() -> None:
    def op(x: int) -> int:
        sleep(100 if x >= 5 else 0)
        return x

    # Both threads are taken: by item 5, and by the last stage, in front of which there is room for three. Item 4 waits
    # for a place there. Whoever ends an op of the last stage makes one, and begins its next op at once.
    builder = source(range(10)).pipe(op).aggregate(1).pipe(nap(1)).add_sink(20)
    with builder.build(num_threads=2).auto_stop(timeout=1000) as pipeline:
        batched = []
        for _ in range(2):
            sleep(0.5)
            batched.append(pipeline.statistics().stages[2].num_emitted)
            sleep(0.5)
    assert batched == [4, 5]


def _parity(x: int) -> int:
    return x % 2


def _fails(x: int) -> int:
    raise ValueError(x)


@program
def a_blocked_pipeline_does_nothing() -> None:
    items = itertools.count
    builders = [
        source(items()),
        source(items()).pipe(_parity, concurrency=4).pipe(abs),
        source(items()).pipe(_parity, concurrency=4, output_order="input"),
        source(items()).pipe(twice, concurrency=4),
        source(items()).pipe(twice, concurrency=4, output_order="input"),
        source(items()).pipe(twice_async, concurrency=4),
        source(items()).aggregate(3).disaggregate().aggregate(2),
        source(items()).path_variants(_parity, [[Pipe(abs)], [Pipe(abs, concurrency=2)]]),
        source(range(3), continuous=True).pipe(abs),
        source(items(), dedicated_thread=True).pipe(abs),
        source(items()).pipe(abs, concurrency=2, timeout=60),
        source(slowly(9, 50)),
        source(range(9)).pipe(nap(50), concurrency=2),
        source(range(9)).pipe(nap(50), timeout=60, on_timeout="drop"),
        source(range(9)).pipe(_fails, retries=1, retry_delay=60),
    ]
    pipelines = [builder.add_sink(2).build(num_threads=2) for builder in builders]
    pipelines.append(build_pipeline(_merged(*(_chain(items()) for _ in range(3)), sink=1), num_threads=2))
    for pipeline in pipelines:
        pipeline.start()
        sleep(1.0)
    before = scheduler.active.steps
    sleep(20.0)
    assert scheduler.active.steps - before < 100
    for pipeline in pipelines:
        pipeline.stop(timeout=60)
