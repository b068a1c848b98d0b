"""A pipeline with regions goes on where another one was stopped."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, Pipe, ProcessPoolExecutorConfig

from . import ops

TWO = ProcessPoolExecutorConfig(2)


def take(pipeline: Pipeline[Any], count: int) -> list[Any]:
    return [pipeline.get_item(timeout=60) for _ in range(count)]


def interrupted(build: Any, count: int) -> tuple[list[Any], list[Any]]:
    """Return what came before a state was taken, and what came after it was loaded."""
    with build().auto_stop() as pipeline:
        before = take(pipeline, count)
        state = json.loads(json.dumps(pipeline.state_dict()))
    resumed = build()
    resumed.load_state_dict(state)
    with resumed.auto_stop():
        return before, list(resumed.get_iterator(timeout=60))


@pytest.mark.parametrize("count", [0, 1, 17, 99])
def test_each_item_comes_once(count: int) -> None:
    def build() -> Pipeline[Any]:
        builder = PipelineBuilder().add_source(range(100)).to(TWO).pipe(ops.uneven, concurrency=2).pipe(ops.square)
        return builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)

    before, after = interrupted(build, count)
    assert sorted(before + after) == [x * x for x in range(100)]


@pytest.mark.parametrize("seed", range(4))
def test_results_of_generators_come_once(seed: int) -> None:
    def build() -> Pipeline[Any]:
        builder = PipelineBuilder().add_source(range(40)).pipe(ops.three).to(TWO)
        builder = builder.pipe(ops.three).pipe(ops.uneven, concurrency=3).pipe(ops.three).pipe(ops.odd_only)
        return builder.to(MAIN_PROCESS).pipe(ops.three).add_sink().build(num_threads=1)

    expected = list(range(40))
    for _ in range(3):
        expected = [y for x in expected for y in ops.three(x)]
    expected = [z for y in expected if y % 2 for z in ops.three(y)]
    count = random.Random(seed).randrange(len(expected))  # noqa: S311 - no secret.
    before, after = interrupted(build, count)
    assert sorted(before + after) == sorted(expected)


def test_order_is_that_of_one_run() -> None:
    def build() -> Pipeline[Any]:
        builder = PipelineBuilder().add_source(range(80)).to(TWO).pipe(ops.uneven, concurrency=2, output_order="input")
        return builder.pipe(ops.three).to(MAIN_PROCESS).add_sink().build(num_threads=1)

    before, after = interrupted(build, 100)
    assert before + after == [y for x in range(80) for y in ops.three(x)]


@pytest.mark.parametrize("count", [0, 3, 9])
def test_items_of_batches_come_once(count: int) -> None:
    def build() -> Pipeline[Any]:
        builder = PipelineBuilder().add_source(range(100)).to(TWO).aggregate(8).to(MAIN_PROCESS)
        return builder.add_sink().build(num_threads=1)

    before, after = interrupted(build, count)
    assert sorted(x for batch in before + after for x in batch) == list(range(100))


def test_batches_taken_apart_lose_nothing() -> None:
    def build() -> Pipeline[Any]:
        builder = PipelineBuilder().add_source(range(100)).to(TWO).aggregate(8).to(MAIN_PROCESS).disaggregate()
        return builder.add_sink().build(num_threads=1)

    before, after = interrupted(build, 21)
    assert set(before + after) == set(range(100))
    # Of each batch that was consumed in part, all comes again.
    assert len(before + after) < 100 + 3 * 8


def test_failed_items_do_not_come_again() -> None:
    def build() -> Pipeline[Any]:
        builder = PipelineBuilder().add_source(range(50)).to(TWO).pipe(ops.fail_on_fives).to(MAIN_PROCESS)
        return builder.add_sink().build(num_threads=1)

    before, after = interrupted(build, 20)
    assert sorted(before + after) == [x for x in range(50) if x % 5]


def test_epochs() -> None:
    def build() -> Pipeline[Any]:
        builder = PipelineBuilder().add_source(range(30), continuous=True).to(TWO).pipe(ops.square).to(MAIN_PROCESS)
        return builder.add_sink().build(num_threads=1)

    with build().auto_stop() as pipeline:
        first = list(pipeline.get_iterator(timeout=60))
        before = take(pipeline, 11)
        state = pipeline.state_dict()
    resumed = build()
    resumed.load_state_dict(state)
    with resumed.auto_stop():
        after = list(resumed.get_iterator(timeout=60))
        third = list(resumed.get_iterator(timeout=60))
    squares = [x * x for x in range(30)]
    assert sorted(first) == sorted(before + after) == sorted(third) == squares


def test_from_threads_to_a_region_and_back() -> None:
    def build(*, region: bool) -> Pipeline[Any]:
        builder = PipelineBuilder().add_source(range(60))
        builder = builder.to(TWO) if region else builder
        builder = builder.pipe(ops.three, concurrency=2).path_variants(
            ops.by_parity, [[Pipe(ops.same)], [Pipe(ops.negative)]]
        )
        return builder.to(MAIN_PROCESS).add_sink().build(num_threads=2)

    expected = sorted(-y if y % 2 else y for x in range(60) for y in ops.three(x))
    for first in (True, False):
        with build(region=first).auto_stop() as pipeline:
            before = take(pipeline, 50)
            state = pipeline.state_dict()
        resumed = build(region=not first)
        resumed.load_state_dict(state)
        with resumed.auto_stop():
            assert sorted(before + list(resumed.get_iterator(timeout=60))) == expected
