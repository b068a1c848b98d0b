"""Test users' queues that lose the end of the input or of an epoch, or that take their time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source

from spdl.pipeline import AsyncQueue, PipelineFailure, is_eof, is_epoch_end
from spdl.pipeline._engine.sentinel import EOF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import Pipeline

_PATIENCE = "spdl.pipeline._queues.queue_node._PATIENCE"


class Plain(AsyncQueue[Any]):
    """A queue that the engine uses, since it is no class of the library's own."""


class EndsNot(AsyncQueue[Any]):
    """A queue that loses the end of the input on its way in."""

    async def put(self, item: Any) -> None:
        if not is_eof(item):
            await super().put(item)


class GivesNoEnd(AsyncQueue[Any]):
    """A queue that loses the end of the input on its way out."""

    async def get(self) -> Any:
        while is_eof(item := await super().get()):
            pass
        return item


class Takes4(AsyncQueue[Any]):
    """A queue that loses everything after the first 4 items."""

    taken = 0

    async def put(self, item: Any) -> None:
        self.taken += 1
        if self.taken <= 4:
            await super().put(item)


class Own(AsyncQueue[Any]):
    """A queue with its own store, which loses the end of the input."""

    def __init__(self, info: Any, *, buffer_size: int) -> None:
        super().__init__(info, buffer_size=buffer_size)
        self.store: deque[Any] = deque()
        self.filled = asyncio.Event()

    async def put(self, item: Any) -> None:
        if not is_eof(item):
            self.store.append(item)
            self.filled.set()

    async def get(self) -> Any:
        while not self.store:
            self.filled.clear()
            await self.filled.wait()
        return self.store.popleft()


def failure_of(pipeline: Pipeline[Any]) -> str:
    with pytest.raises(PipelineFailure) as caught:
        list(pipeline.get_iterator(timeout=20))
    pipeline.stop()
    return str(caught.value.exceptions[0])


@pytest.mark.parametrize("queue_class", [EndsNot, GivesNoEnd])
def test_a_queue_that_loses_the_end_of_the_input_is_named(
    queue_class: type[AsyncQueue[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_PATIENCE, 0.1)
    pipeline = source(range(6)).pipe(str).add_sink(9).build(num_threads=1, queue_class=queue_class)
    iterator = pipeline.get_iterator(timeout=20)
    # All items are delivered first.
    assert [next(iterator) for _ in range(6)] == list("012345")
    with pytest.raises(PipelineFailure) as caught:
        next(iterator)
    pipeline.stop()
    text = str(caught.value.exceptions[0])
    # The queue of any stage may be the first to report it.
    assert text.startswith(f"The queue {queue_class.__name__!r} of stage ")
    assert " lost the end of the input. Each object that is put into a queue must come out" in text


def test_one_that_loses_items_and_the_end_is_named_with_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_PATIENCE, 0.1)
    pipeline = source(range(6)).add_sink(9).build(num_threads=1, queue_class=Takes4)
    iterator = pipeline.get_iterator(timeout=20)
    assert [next(iterator) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(PipelineFailure, match="failed") as caught:
        next(iterator)
    pipeline.stop()
    text = " ".join(map(str, caught.value.exceptions))
    assert ":0:src lost 2 item(s): source items 4, 5, and the end of the input." in text


def test_one_with_a_store_of_its_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_PATIENCE, 0.1)
    monkeypatch.setattr(f"{_PATIENCE}_WITH_OWN_GET", 0.3)
    pipeline = source(range(4)).add_sink(9).build(num_threads=1, queue_class=Own)
    assert "lost the end of the input." in failure_of(pipeline)


def test_one_that_ends_too_early_is_named() -> None:
    class Early(AsyncQueue[Any]):
        async def get(self) -> Any:
            item = await super().get()
            return EOF if item == 2 else item

    pipeline = source(range(50)).pipe(abs).add_sink(9).build(num_threads=1, queue_class=Early)
    assert ":0:src returned the end of the input before it was put in. Each object that is put" in failure_of(pipeline)


def test_a_pipeline_can_be_stopped_while_a_queue_keeps_its_end() -> None:
    pipeline = source(range(4)).add_sink(9).build(num_threads=1, queue_class=EndsNot)
    assert [pipeline.get_item(timeout=20) for _ in range(4)] == [0, 1, 2, 3]
    begin = time.monotonic()
    pipeline.stop()
    assert time.monotonic() - begin < 4


def test_a_queue_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_PATIENCE, 0.05)

    class Slow(AsyncQueue[Any]):
        async def get(self) -> Any:
            item = await super().get()
            await asyncio.sleep(0.3)
            return item

    with source(range(3)).add_sink(9).build(num_threads=1, queue_class=Slow).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [0, 1, 2]


def test_what_is_full_behind_a_queue_is_no_fault_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_PATIENCE, 0.05)
    got = []
    with source(range(5)).add_sink(1).build(num_threads=1, queue_class=Plain).auto_stop() as pipeline:
        for item in pipeline.get_iterator(timeout=20):
            time.sleep(0.2)
            got.append(item)
    assert got == [0, 1, 2, 3, 4]


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
