"""Test continuous sources: an epoch ends in all stages in order, while the next one is already under way."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.support import let_go, rest, rests, wait_until

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, build_pipeline, is_eof, is_epoch_end
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class Passes:
    """A source whose items show the pass they belong to."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.passes = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        this, self.passes = self.passes, self.passes + 1
        return ((this, index) for index in range(self.size))


class AsyncPasses(Passes):
    async def __aiter__(self) -> AsyncIterator[tuple[int, int]]:
        for item in self:
            await asyncio.sleep(0)
            yield item


def endless(*stages: Any, size: int = 10, sink: int = 3, source: Any = None) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig(source or Passes(size), continuous=True), stages, SinkConfig(sink))


def epochs(config: PipelineConfig[Any], count: int, num_threads: int = 3) -> list[list[Any]]:
    with build_pipeline(config, num_threads=num_threads).auto_stop() as pipeline:
        return [list(pipeline.get_iterator(timeout=20)) for _ in range(count)]


def epoch(number: int, size: int = 10) -> list[tuple[int, int]]:
    return [(number, index) for index in range(size)]


def test_each_iterator_is_one_epoch() -> None:
    assert epochs(endless(), 3) == [epoch(0), epoch(1), epoch(2)]
    assert epochs(endless(source=AsyncPasses(10)), 3) == [epoch(0), epoch(1), epoch(2)]


def test_get_item_tells_the_end_of_an_epoch() -> None:
    with build_pipeline(endless(Pipe(lambda x: x), size=1), num_threads=1).auto_stop() as pipeline:
        for number in range(3):
            assert pipeline.get_item(timeout=10) == (number, 0)
            with pytest.raises(EOFError, match="epoch"):
                pipeline.get_item(timeout=10)


def test_an_ended_iterator_does_not_roll_into_the_next_epoch() -> None:
    with build_pipeline(endless(), num_threads=1).auto_stop() as pipeline:
        iterator = iter(pipeline)
        assert list(iterator) == epoch(0)
        assert list(iterator) == []
        assert list(pipeline) == epoch(1)


def test_empty_epochs() -> None:
    with pytest.warns(RuntimeWarning, match=r"The source of the pipeline \('Passes'\) has yielded nothing"):
        assert epochs(endless(Pipe(lambda x: x), size=0), 3) == [[], [], []]


def slow_last(item: tuple[int, int]) -> tuple[int, int]:
    time.sleep(0.01 if item[1] == 9 else 0)
    return item


async def slow_last_async(item: tuple[int, int]) -> tuple[int, int]:
    await asyncio.sleep(0.01 if item[1] == 9 else 0)
    return item


def twice(item: tuple[int, int]) -> Iterator[tuple[int, int]]:
    yield item
    time.sleep(0.001)
    yield item


STAGES: dict[str, Any] = {
    "function": lambda c: Pipe(slow_last, concurrency=c),
    "ordered": lambda c: Pipe(slow_last, concurrency=c, output_order="input"),
    "async": lambda c: Pipe(slow_last_async, concurrency=c),
    "generator": lambda c: Pipe(twice, concurrency=c),
    "coroutine from a lambda": lambda c: Pipe(lambda item: slow_last_async(item), concurrency=c),  # noqa: PLW0108
    "fork": lambda c: PathVariants(lambda item: item[1] % 2, [[Pipe(slow_last, concurrency=c)], [Pipe(twice)]]),
}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    stages=st.lists(st.tuples(st.sampled_from(sorted(STAGES)), st.integers(1, 4)), max_size=3),
    num_threads=st.integers(1, 4),
)
def test_no_item_crosses_the_end_of_its_epoch(stages: list[tuple[str, int]], num_threads: int) -> None:
    got = epochs(endless(*(STAGES[kind](c) for kind, c in stages)), 3, num_threads)
    sizes = Counter(len(each) for each in got)
    assert len(sizes) == 1
    for number, each in enumerate(got):
        assert {item[0] for item in each} == {number}
        assert {item[1] for item in each} == set(range(10))


class Held(Aggregator[Any, list[Any]]):
    def __init__(self) -> None:
        self.items: list[Any] = []
        self.flushes = 0

    def accumulate(self, item: Any) -> list[Any] | None:
        self.items.append(item)
        return self._take() if len(self.items) == 4 else None

    def flush(self) -> list[Any] | None:
        self.flushes += 1
        return self._take()

    def _take(self) -> list[Any] | None:
        items, self.items = self.items, []
        return items or None


@pytest.mark.parametrize("make", [lambda: 4, Held])
@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [4, 4, 2]), (True, [4, 4])])
def test_batches_never_span_epochs(make: Any, *, drop_last: bool, sizes: list[int]) -> None:
    pipeline = build_pipeline(endless(Aggregate(make(), drop_last=drop_last)), num_threads=1)
    with pipeline.auto_stop():
        for number in range(3):
            batches = list(pipeline.get_iterator(timeout=10))
            assert [len(batch) for batch in batches] == sizes
            assert [item for batch in batches for item in batch] == epoch(number)[: sum(sizes)]


def test_the_next_epoch_is_prefetched() -> None:
    source = Passes(3)
    with build_pipeline(endless(Pipe(lambda x: x), source=source, sink=10), num_threads=1).auto_stop() as pipeline:
        assert list(pipeline) == epoch(0, 3)
        assert wait_until(lambda: source.passes >= 3)


@pytest.mark.parametrize("stages", [[], [Pipe(lambda x: x)], [Aggregate(1)]], ids=["source", "pipe", "aggregate"])
def test_the_statistics_count_no_ends_of_epochs(stages: Any) -> None:
    with build_pipeline(endless(*stages, size=1, sink=10), num_threads=1).auto_stop() as pipeline:

        def sink() -> Any:
            return pipeline.statistics().stages[-1]

        assert wait_until(lambda: len(pipeline._engine.sink.entries) >= 10)
        assert wait_until(lambda: rests(pipeline))
        items = sum(not is_epoch_end(entry[0]) for entry in pipeline._engine.sink.entries)
        assert 0 < items < 10
        assert (sink().num_completed, sink().num_emitted, sink().queue_size) == (0, 0, items)
        for _ in range(3):
            assert len(list(pipeline.get_iterator(timeout=10))) == 1
        # While the sink is filled again, the counts may differ by an item, which is counted before it is there.
        assert wait_until(lambda: rests(pipeline))
        assert sink().num_completed == 3
        assert all(0 <= stage.queue_fill <= 1 for stage in pipeline.statistics().stages)


def test_a_stage_that_holds_ends_of_epochs_has_no_items_waiting() -> None:
    gate = threading.Event()

    def op(x: Any) -> Any:
        assert gate.wait(20)
        return x

    class Empty:
        def __iter__(self) -> Iterator[int]:
            return iter([0] if not next(self.passes) else [])

        passes = itertools.count()

    with build_pipeline(endless(Pipe(op), source=Empty()), num_threads=2).auto_stop() as pipeline:
        (stage,) = pipeline._engine.nodes
        assert wait_until(lambda: stage.queue)
        assert pipeline.statistics().stages[1].queue_size == 0
        gate.set()


def test_a_merge_waits_for_the_end_in_every_branch() -> None:
    config = PipelineConfig(
        Merge([endless(Pipe(slow_last), size=10), endless(size=3)]), [Pipe(lambda x: x, concurrency=2)], SinkConfig(2)
    )
    for number, each in enumerate(epochs(config, 3)):
        assert Counter(each) == Counter(epoch(number, 10) + epoch(number, 3))


def test_merged_sources_are_all_continuous_or_none() -> None:
    once = PipelineConfig(SourceConfig([1]), [], SinkConfig(1))
    with pytest.raises(ValueError, match="either continuous sources only or none"):
        build_pipeline(PipelineConfig(Merge([endless(), once]), [], SinkConfig(1)), num_threads=1)


@pytest.mark.parametrize("stages", [(), (Pipe(lambda x: x),)])
def test_an_iterator_that_does_not_start_anew_fails_at_its_second_pass(stages: Any) -> None:
    config = endless(*stages, source=iter([1, 2]))
    pipeline = build_pipeline(config, num_threads=1)
    pipeline.start()
    assert list(pipeline.get_iterator(timeout=10)) == [1, 2]
    with pytest.raises(PipelineFailure) as caught:
        list(pipeline.get_iterator(timeout=10))
    assert "gave nothing when it was iterated again" in str(caught.value.exceptions[0])
    pipeline.stop()


@pytest.mark.parametrize("stages", [(), (Pipe(lambda x: x),)])
@pytest.mark.parametrize("dedicated_thread", [False, True])
def test_an_iterator_that_starts_anew_is_iterated_again(stages: Any, *, dedicated_thread: bool) -> None:
    class Restarting:
        def __iter__(self) -> Self:
            self.position = 0
            return self

        def __next__(self) -> int:
            if self.position == 3:
                raise StopIteration
            self.position += 1
            return self.position

    class AsyncRestarting:
        def __aiter__(self) -> Self:
            self.position = 0
            return self

        async def __anext__(self) -> int:
            if self.position == 3:
                raise StopAsyncIteration
            self.position += 1
            return self.position

    for source in (Restarting(), AsyncRestarting()):
        config = PipelineConfig(SourceConfig(source, True, dedicated_thread), stages, SinkConfig(2))  # noqa: FBT003
        assert epochs(config, 3) == [[1, 2, 3]] * 3


class Watched:
    """A sync and async iterator that uses the pipeline when it is finalized, and records that."""

    def __init__(self, use: Callable[[], None], finalized: list[str]) -> None:
        self.use = use
        self.finalized = finalized
        self.items = iter([1, 2, 3])

    def __next__(self) -> int:
        return next(self.items)

    async def __anext__(self) -> int:
        for item in self.items:
            return item
        raise StopAsyncIteration

    def __iter__(self) -> Self:
        return self

    __aiter__ = __iter__

    def __del__(self) -> None:
        try:
            self.use()
            self.finalized.append("")
        except RuntimeError as error:
            self.finalized.append(str(error))


@pytest.mark.parametrize("kind", ["plain", "dedicated", "async"])
def test_the_iterator_of_an_epoch_is_finalized_without_the_lock(kind: str) -> None:
    finalized: list[str] = []

    class Source:
        def __iter__(self) -> Watched:
            return Watched(lambda: pipeline.set_concurrency("same", 1), finalized)

    class AsyncSource:
        __aiter__ = Source.__iter__

    items = AsyncSource() if kind == "async" else Source()
    config = PipelineConfig(
        SourceConfig(items, continuous=True, dedicated_thread=kind == "dedicated"),
        [Pipe(lambda x: x, name="same")],
        SinkConfig(2),
    )
    pipeline = build_pipeline(config, num_threads=2)
    with pipeline.auto_stop():
        assert [list(pipeline.get_iterator(timeout=10)) for _ in range(4)] == [[1, 2, 3]] * 4
        let_go()
        assert wait_until(lambda: len(finalized) >= 2)
        assert set(finalized) == {""}


def test_an_endless_source_needs_no_epochs() -> None:
    with build_pipeline(endless(source=itertools.count()), num_threads=1).auto_stop() as pipeline:
        assert [pipeline.get_item(timeout=10) for _ in range(100)] == list(range(100))


def test_the_builder_passes_it_on() -> None:
    builder = PipelineBuilder[Any, Any]().add_source([1, 2], continuous=True).add_sink(1)
    assert "continuous=True" in repr(builder.get_config())
    with builder.build(num_threads=1).auto_stop() as pipeline:
        assert [list(pipeline) for _ in range(3)] == [[1, 2]] * 3


def test_sentinels_are_told_by_identity() -> None:
    assert not is_eof(None)
    assert not is_epoch_end("EPOCH_END")


def test_source_may_hold_an_item_that_contains_itself() -> None:
    endless: list[Any] = [b"12"]
    endless.extend([endless] * 7)
    for items in ([endless], (endless,), iter([endless])):
        with source_of(items).auto_stop() as pipeline:
            assert next(pipeline.get_iterator(timeout=20)) is endless
            # What is noted of the source for a state.
            pipeline.state_dict()


@pytest.mark.parametrize("kind", ["plain", "negative", "nested"])
def test_source_may_hold_an_integer_that_python_does_not_write(kind: str) -> None:
    large = 2**20_000
    item = {"plain": large, "negative": -large, "nested": (large, [large])}[kind]
    for items in ([item, 3, 4], (item, 3, 4), iter([item, 3, 4])):
        with source_of(items).auto_stop() as pipeline:
            assert next(pipeline.get_iterator(timeout=20)) is item
            # What is noted of the source for a state.
            json.dumps(pipeline.state_dict())
    with source_of([item, 3, 4]).auto_stop() as pipeline:
        pipeline.get_item(timeout=20)
        state = json.loads(json.dumps(pipeline.state_dict()))
    assert rest(source_of([item, 3, 4]), state) == [3, 4]
    with pytest.raises(ValueError, match="another source"):
        source_of([5, 3, 4]).load_state_dict(state)


def source_of(items: Any) -> Pipeline[Any]:
    return PipelineBuilder[Any, Any]().add_source(items).add_sink(1).build(num_threads=1)
