"""Ops in regions that ask where their items come from: the same is told as in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import ItemContext, PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def told(x: Any, context: ItemContext) -> Any:
    return x, context, context.key(7), list(context.keys(7))


def generates(x: Any, context: ItemContext) -> Iterator[Any]:
    for number in range(2):
        yield x, number, context


class Told:
    """An op with states of its own."""

    async def __call__(self, x: Any, *, where: ItemContext) -> Any:
        return x, where


def same(builder: Any) -> Any:
    return builder


def generator(builder: Any) -> Any:
    return builder.pipe(ops.three)


def batches(builder: Any) -> Any:
    return builder.aggregate(3)


def results_of_batches(builder: Any) -> Any:
    return builder.aggregate(3).pipe(generates)


BEFORE = {"items": same, "results": generator, "batches": batches, "results of batches": results_of_batches}


def inside_op(builder: Any) -> Any:
    return builder.pipe(told)


def inside_async(builder: Any) -> Any:
    return builder.pipe(Told())


def inside_results(builder: Any) -> Any:
    return builder.pipe(generates).pipe(generates).pipe(told)


def inside_batches(builder: Any) -> Any:
    return builder.pipe(generates).aggregate(4).pipe(told)


INSIDE = {"op": inside_op, "async": inside_async, "results": inside_results, "batches": inside_batches}


def run(builder: Any) -> list[Any]:
    with builder.add_sink().build(num_threads=2).auto_stop() as pipeline:
        return list(pipeline.get_iterator(timeout=60))


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("before", BEFORE)
def test_what_is_told(before: str, inside: str) -> None:
    def source() -> Any:
        return BEFORE[before](PipelineBuilder().add_source([5, 3, 8, 1, 9, 2, 7]))

    there = source().to(ProcessPoolExecutorConfig(1))
    expected = run(INSIDE[inside](source()))
    assert run(INSIDE[inside](there).to(MAIN_PROCESS)) == expected
    assert expected


def test_it_is_told_in_every_worker_and_epoch() -> None:
    builder = PipelineBuilder().add_source(range(50), continuous=True).to(ProcessPoolExecutorConfig(2)).pipe(told)
    with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        for epoch in range(3):
            got = sorted(pipeline.get_iterator(timeout=60), key=lambda each: each[0])
            assert [(x, context.epoch, context.index) for x, context, *_ in got] == [(x, epoch, x) for x in range(50)]


def test_sources_of_merged_pipelines() -> None:
    first = PipelineBuilder().add_source([1, 2])
    second = PipelineBuilder().add_source([3, 4])
    builder = PipelineBuilder().merge([first, second]).to(ProcessPoolExecutorConfig(2)).pipe(told).to(MAIN_PROCESS)
    assert {(x, context.source, context.index) for x, context, *_ in run(builder)} == {
        (1, 0, 1),
        (2, 0, 2),
        (3, 1, 3),
        (4, 1, 4),
    }


def test_items_that_are_run_again(tmp_path: Path) -> None:
    workers = ProcessPoolExecutorConfig(2, on_death="rerun")
    builder = (
        PipelineBuilder().add_source(range(40)).to(workers).pipe(ops.DieOnce(str(tmp_path / "died"), 20)).pipe(told)
    )
    builder = builder.to(MAIN_PROCESS)
    got = sorted(run(builder), key=lambda each: each[0])
    assert [(x, context.index) for x, context, *_ in got] == [(x, x) for x in range(40)]
    assert (tmp_path / "died").exists()


def test_an_item_that_cannot_be_sent_beside_others(caplog: pytest.LogCaptureFixture) -> None:
    items: list[Any] = [0, 1, lambda: 0, 3, 4]
    builder = PipelineBuilder().add_source(items).to(ProcessPoolExecutorConfig(1)).pipe(told).to(MAIN_PROCESS)
    assert [(x, context.position) for x, context, *_ in run(builder)] == [(0, 0), (1, 1), (3, 3), (4, 4)]
    assert "could not be pickled" in caplog.text
