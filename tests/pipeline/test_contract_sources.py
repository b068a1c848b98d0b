"""Test the calls that a pipeline makes to its source, and when it closes the source."""

from __future__ import annotations

import gc
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from tests.pipeline.support import build, source, wait_until

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class Numbers:
    """A source that counts to ``size``, raises at ``broken``, and records the calls it gets."""

    def __init__(self, size: int = 1000, broken: int = -1) -> None:
        self.size = size
        self.broken = broken
        self.calls: list[str] = []
        self.threads: set[int] = set()
        self.position = 0

    def step(self) -> int | None:
        self.threads.add(threading.get_ident())
        if self.position == self.broken:
            raise OSError("the disk is on fire")
        if self.position == self.size:
            return None
        self.position += 1
        return self.position

    def told(self, call: str) -> None:
        self.threads.add(threading.get_ident())
        self.calls.append(call)


class Iterating(Numbers):
    """A source that is its own iterator."""

    def __iter__(self) -> Iterating:
        self.told("iter")
        return self

    def __next__(self) -> int:
        number = self.step()
        if number is None:
            raise StopIteration
        return number

    def close(self) -> None:
        self.told("close")


class AsyncIterating(Numbers):
    """A source that is its own async iterator, and starts anew once it has ended."""

    def __aiter__(self) -> AsyncIterating:
        self.told("iter")
        return self

    async def __anext__(self) -> int:
        number = self.step()
        if number is None:
            self.position = 0
            raise StopAsyncIteration
        return number

    async def aclose(self) -> None:
        self.told("close")


Made = TypeVar("Made", bound=Numbers)


class Iterable(Numbers):
    """A source that makes an iterator for each pass."""

    def __iter__(self) -> Iterating:
        return self.made(Iterating(self.size, self.broken))

    def made(self, iterator: Made) -> Made:
        self.told("iter")
        iterator.calls = self.calls
        iterator.threads = self.threads
        return iterator


class AsyncIterable(Iterable):
    """A source that makes an async iterator for each pass. It has both methods, and is iterated by ``async for``."""

    def __aiter__(self) -> AsyncIterating:
        return self.made(AsyncIterating(self.size, self.broken))


KINDS = [Iterating, Iterable, AsyncIterating, AsyncIterable]
SYNC = [Iterating, Iterable]

# For each way to end, without ``continuous``: the calls after the first "iter", of sync and of async sources.
ENDS = {
    "exhausted": ([], ["close"]),
    "break": (["close"], ["close"]),
    "an op fails": (["close"], ["close"]),
    "the source fails": (["close"], ["close"]),
    "collected": (["close"], ["close"]),
}


def broken(_: int) -> int:
    raise ValueError("broken")


def end(numbers: Any, how: str, **kwargs: Any) -> None:
    """Run a pipeline over the numbers, and end it in the given way."""
    op: Any = broken if how == "an op fails" else lambda x: x
    graph = source(numbers, **kwargs).pipe(op, max_failures=0).pipe(lambda x: x).add_sink(1)
    pipeline: Pipeline[int] | None = graph.build(num_threads=2)
    assert pipeline is not None
    if how == "collected":
        assert pipeline.get_item(timeout=10) == 1
        pipeline = None
        gc.collect()
    elif how == "break":
        with pipeline.auto_stop():
            assert pipeline.get_item(timeout=10) == 1
    elif how == "exhausted":
        with pipeline.auto_stop():
            assert len(list(pipeline.get_iterator(timeout=10))) == numbers.size
    else:
        with pytest.raises(PipelineFailure):
            list(pipeline.get_iterator(timeout=10))
        pipeline.stop()


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("dedicated_thread", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_closed_once_unless_it_ran_out(kind: type[Numbers], how: str, *, dedicated_thread: bool) -> None:
    numbers = kind(size=20 if how == "exhausted" else 1000, broken=3 if how == "the source fails" else -1)
    end(numbers, how, dedicated_thread=dedicated_thread)
    expected = ["iter", *ENDS[how][kind not in SYNC]]
    assert wait_until(lambda: numbers.calls == expected), numbers.calls
    assert threading.get_ident() not in numbers.threads
    if dedicated_thread or kind not in SYNC:
        assert len(numbers.threads) == 1
    assert numbers.calls == expected


@pytest.mark.parametrize("dedicated_thread", [False, True])
def test_each_pass_is_closed_when_async_and_the_last_when_not(*, dedicated_thread: bool) -> None:
    for kind in (Iterable, AsyncIterable, AsyncIterating):
        numbers = kind(size=3)
        pipeline = build_continuous(numbers, dedicated_thread=dedicated_thread)
        with pipeline.auto_stop():
            for _ in range(3):
                assert list(pipeline.get_iterator(timeout=10)) == [1, 2, 3]
        calls = "".join(call[0] for call in numbers.calls)
        passes = calls.count("i")
        assert passes >= 3
        if kind is AsyncIterable:
            assert calls == "ic" * passes
        elif kind is AsyncIterating:
            # Closing it earlier would end all later passes.
            assert calls == "i" * passes + "c"
        else:
            # The last pass may have run out just when the pipeline was stopped.
            assert calls in ("i" * passes, "i" * passes + "c")


def build_continuous(items: Any, **kwargs: Any) -> Pipeline[Any]:
    return source(items, continuous=True, **kwargs).pipe(lambda x: x).add_sink(2).build(num_threads=1)


def test_generators_run_their_finally() -> None:
    closed: list[str] = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append("sync")

    async def numbers_async() -> AsyncIterator[int]:
        try:
            for number in range(1000):
                yield number
        finally:
            closed.append("async")

    for items in (numbers(), numbers_async()):
        with build(items, lambda x: x).auto_stop() as pipeline:
            assert pipeline.get_item(timeout=10) == 0
    assert closed == ["sync", "async"]


@pytest.mark.parametrize("make", [lambda: iter([]), lambda: Iterating(0), lambda: AsyncIterating(0), lambda: ()])
def test_an_empty_source(make: Callable[[], Any]) -> None:
    with build(make(), lambda x: x).auto_stop() as pipeline:
        with pytest.warns(RuntimeWarning, match="has yielded nothing") as caught:
            assert list(pipeline.get_iterator(timeout=10)) == []
        assert caught[0].filename == __file__


async def with_none_async() -> AsyncIterator[int | None]:
    for item in (1, None, 2):
        yield item


@pytest.mark.parametrize("make", [lambda: [1, None, 2], lambda: iter([1, None, 2]), with_none_async])
@pytest.mark.parametrize("arguments", [{}, {"dedicated_thread": True}])
def test_none_is_an_item(make: Callable[[], Any], arguments: dict[str, Any]) -> None:
    stages: list[tuple[list[Any], list[Any]]] = [([], [1, None, 2]), ([lambda x: (x,)], [(1,), (None,), (2,)])]
    for ops, expected in stages:
        graph = source(make(), **arguments)
        for op in ops:
            graph.pipe(op)
        with graph.add_sink(3).build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == expected
    with source(make(), **arguments).aggregate(3).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=10)) == [[1, None, 2]]


def test_a_source_whose_iter_fails() -> None:
    class Closed:
        def __iter__(self) -> Iterator[int]:
            raise OSError("closed file")

    with pytest.raises(PipelineFailure) as caught:
        list(build(Closed(), lambda x: x).get_iterator(timeout=10))
    assert str(caught.value.exceptions[0]) == "closed file"


@pytest.mark.parametrize("dedicated_thread", [False, True])
def test_a_source_that_fails_to_close_fails_the_pipeline(*, dedicated_thread: bool) -> None:
    class Jammed(Iterating):
        def close(self) -> None:
            raise OSError("jammed")

    pipeline = source(Jammed(), dedicated_thread=dedicated_thread).pipe(lambda x: x).add_sink(1).build(num_threads=1)
    assert pipeline.get_item(timeout=10) == 1
    with pytest.raises(PipelineFailure) as caught:
        pipeline.stop()
    assert [str(error) for error in caught.value.exceptions] == ["jammed"]
    pipeline.stop()


class TestPipelineAsSource:
    def make(self, items: Any = range(100)) -> tuple[Pipeline[int], Pipeline[int]]:
        inner = build(items, lambda x: x + 1, sink=2)
        return inner, build(inner, lambda x: 10 * x, sink=2)

    def test_all_comes_through(self) -> None:
        inner, outer = self.make()
        with inner.auto_stop(), outer.auto_stop():
            assert list(outer.get_iterator(timeout=10)) == [10 * (x + 1) for x in range(100)]

    def test_the_inner_one_is_started_by_the_first_read(self) -> None:
        inner, outer = self.make()
        with outer.auto_stop():
            assert outer.get_item(timeout=10) == 10
        inner.stop()

    def test_stopping_the_outer_one_wakes_its_reader_and_loses_nothing(self) -> None:
        gate = threading.Event()

        def items() -> Iterator[int]:
            yield 0
            gate.wait(20)
            yield from range(1, 5)

        inner, outer = self.make(items())
        with outer.auto_stop():
            assert outer.get_item(timeout=10) == 10
            begin = time.monotonic()
        assert time.monotonic() - begin < 9
        gate.set()
        with inner_rest(inner) as rest:
            assert rest == [2, 3, 4, 5]

    def test_a_reader_that_is_woken_by_an_item_and_by_a_stop_at_once(self) -> None:
        for _ in range(100):
            gate = threading.Event()
            inner, outer = self.make(iter(lambda: gate.wait(20) and 1, None))  # noqa: B023 - it ends with this pass.
            with outer.auto_stop():
                assert wait_until(lambda: inner.statistics().stages[0].running == 1)  # noqa: B023
                gate.set()
            assert inner.get_item(timeout=10) == 2
            inner.stop()

    def test_its_failure_is_the_outer_ones(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.CRITICAL)
        inner, outer = self.make(Iterating(broken=2))
        with pytest.raises(PipelineFailure) as caught:
            list(outer.get_iterator(timeout=10))
        (failure,) = caught.value.exceptions
        assert isinstance(failure, PipelineFailure)
        assert isinstance(failure.exceptions[0], OSError)
        outer.stop()
        inner.stop()

    def test_epochs_of_the_inner_one_are_those_of_the_outer(self) -> None:
        inner = build_continuous(range(3))
        outer = build_continuous(inner)
        with outer.auto_stop():
            for _ in range(3):
                assert list(outer.get_iterator(timeout=10)) == [0, 1, 2]
        inner.stop()


def inner_rest(pipeline: Pipeline[int]) -> Any:
    class Rest:
        def __enter__(self) -> list[int]:
            return list(pipeline.get_iterator(timeout=10))

        def __exit__(self, *_: object) -> None:
            pipeline.stop()

    return Rest()


def test_a_builder_makes_any_number_of_pipelines() -> None:
    builder = PipelineBuilder[Any, Any]().add_source(range(3)).add_sink(1)
    for _ in range(2):
        with builder.build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=10)) == [0, 1, 2]
