"""Test that the end of a stage is seen at once, whatever the workers are at."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineFailure, build_pipeline
from spdl.pipeline.defs import Aggregate, Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import Pipeline


def _merged(*branches: tuple[Any, list[Any]], num_threads: int) -> Pipeline[Any]:
    configs = [PipelineConfig(SourceConfig(items), stages, SinkConfig(1)) for items, stages in branches]
    return build_pipeline(PipelineConfig(Merge(configs), [], SinkConfig(10)), num_threads=num_threads)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_last_batch_does_not_wait_for_another_source(num_threads: int) -> None:
    goes_on, done = threading.Event(), threading.Event()

    def short() -> Iterator[int]:
        yield from (1, 2, 3)
        done.set()

    def blocks() -> Iterator[int]:
        assert done.wait(40)
        goes_on.wait(40)
        yield 9

    pipeline = _merged((short(), [Aggregate(2)]), (blocks(), []), num_threads=num_threads)
    with pipeline.auto_stop():
        assert [pipeline.get_item(timeout=20) for _ in range(2)] == [[1, 2], [3]]
        goes_on.set()
        assert list(pipeline.get_iterator(timeout=20)) == [9]


def test_an_epoch_that_failed_whole_is_told_though_the_source_waits_in_its_next_pass() -> None:
    goes_on = threading.Event()

    class Items:
        def __init__(self) -> None:
            self.passes = 0

        def __iter__(self) -> Iterator[int]:
            self.passes += 1
            if self.passes > 1:
                goes_on.wait(40)
            yield from range(3)

    async def op(item: int) -> None:
        raise ValueError(item)

    config: PipelineConfig[Any] = PipelineConfig(SourceConfig(Items(), continuous=True), [Pipe(op)], SinkConfig(3))
    pipeline = build_pipeline(config, num_threads=1)
    pipeline.start()
    with pytest.raises(PipelineFailure, match="stages failed"):
        list(pipeline.get_iterator(timeout=20))
    goes_on.set()
    pipeline.stop()


@pytest.mark.parametrize("order", ["completion", "input"])
def test_a_failure_upstream_ends_an_async_stage_whose_last_input_is_the_end_of_an_epoch(order: Any) -> None:
    async def op(item: int) -> int:
        return item

    def interrupted(item: int) -> int:
        count.append(item)
        if len(count) == 3:
            raise KeyboardInterrupt
        return item

    count: list[int] = []
    stages = [Pipe(interrupted), Pipe(op, output_order=order)]
    config: PipelineConfig[Any] = PipelineConfig(SourceConfig([1, 2], continuous=True), stages, SinkConfig(9))
    with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [1, 2]
        with pytest.raises(PipelineFailure, match="stages failed"):
            list(pipeline.get_iterator(timeout=20))
