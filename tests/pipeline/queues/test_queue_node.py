"""Test users' queues that lose the end of the input or of an epoch, or that take their time."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.queues.kinds import EndsNot
from tests.pipeline.support import source

from spdl.pipeline import AsyncQueue, PipelineFailure, is_eof, is_epoch_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import Pipeline


def failure_of(pipeline: Pipeline[Any]) -> str:
    with pytest.raises(PipelineFailure) as caught:
        list(pipeline.get_iterator(timeout=20))
    pipeline.stop()
    return str(caught.value.exceptions[0])


def end_of_input() -> Any:
    """Return what stands for the end of the input in a queue."""
    seen: list[Any] = []

    class Sees(AsyncQueue[Any]):
        async def put(self, item: Any) -> None:
            seen.append(item)
            await super().put(item)

    with source([1]).add_sink(1).build(num_threads=1, queue_class=Sees).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [1]
    return next(filter(is_eof, seen))


def test_one_that_ends_too_early_is_named() -> None:
    end = end_of_input()

    class Early(AsyncQueue[Any]):
        async def get(self) -> Any:
            item = await super().get()
            return end if item == 2 else item

    pipeline = source(range(50)).pipe(abs).add_sink(9).build(num_threads=1, queue_class=Early)
    assert ":0:src returned the end of the input before it was put in. Each object that is put" in failure_of(pipeline)


def test_a_pipeline_can_be_stopped_while_a_queue_keeps_its_end() -> None:
    pipeline = source(range(4)).add_sink(9).build(num_threads=1, queue_class=EndsNot)
    assert [pipeline.get_item(timeout=20) for _ in range(4)] == [0, 1, 2, 3]
    # It would take 5 seconds to find out what the queue does.
    pipeline.stop()
    assert pipeline.statistics().elapsed < 4.5


class Objects:
    """A source that makes new objects in each epoch."""

    def __iter__(self) -> Iterator[Any]:
        return iter([[0], [1], [2]])


@pytest.mark.parametrize("wraps", [False, True])
def test_a_queue_that_loses_the_end_of_an_epoch_is_named(wraps: bool) -> None:  # noqa: FBT001 - a case.
    class Endless(AsyncQueue[Any]):
        async def put(self, item: Any) -> None:
            if not is_epoch_end(item):
                await super().put((item,) if wraps and not is_eof(item) else item)

    pipeline = source(Objects(), continuous=True).add_sink(9).build(num_threads=1, queue_class=Endless)
    text = failure_of(pipeline)
    assert ":0:src lost the end of an epoch, or let source item 3 overtake it. Each object that is put" in text


@pytest.mark.parametrize("late", [False, True])
def test_a_queue_that_loses_an_item_of_an_epoch_is_named(late: bool) -> None:  # noqa: FBT001 - a case.
    """A continuous source has no end of the input at which it would be missed."""

    class Loses(AsyncQueue[Any]):
        async def put(self, item: Any) -> None:
            if item != [1]:
                await super().put(item)
            if late and is_epoch_end(item):
                await super().put([1])

    pipeline = source(Objects(), continuous=True).add_sink(9).build(num_threads=1, queue_class=Loses)
    text = failure_of(pipeline)
    assert ":0:src lost, or let the end of an epoch overtake, 1 item(s): source item 1. Each object that is put" in text


def test_a_queue_that_makes_the_end_of_an_epoch_is_named() -> None:
    class Twice(AsyncQueue[Any]):
        async def put(self, item: Any) -> None:
            await super().put(item)
            if is_epoch_end(item):
                await super().put(item)

    pipeline = source(Objects(), continuous=True).add_sink(9).build(num_threads=1, queue_class=Twice)
    pipeline.start()
    epochs = (item for _ in range(3) for item in pipeline.get_iterator(timeout=20))
    with pytest.raises(PipelineFailure) as caught:
        list(epochs)
    pipeline.stop()
    assert "returned the end of an epoch that has not ended." in str(caught.value.exceptions[0])


def test_a_stop_is_not_the_end_of_a_pipeline_whose_items_failed() -> None:
    inside = threading.Event()

    class Holding(AsyncQueue[Any]):
        """A queue that the good item never leaves."""

        async def put(self, item: Any) -> None:
            if self.info.stage_name == "op" and not is_eof(item):
                inside.set()
                await asyncio.sleep(60)
            await super().put(item)

    def op(x: int) -> int:
        if x == 0:
            raise ValueError(x)
        return x

    pipeline = source(range(2)).pipe(op, name="op").add_sink(3).build(num_threads=1, queue_class=Holding)
    pipeline.start()
    assert inside.wait(20)
    pipeline.stop()
    assert list(pipeline) == []
