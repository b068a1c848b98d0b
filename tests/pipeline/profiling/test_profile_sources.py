"""Test which items are profiled: the first ones of any kind of source, and the results given to the next stage."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.profiling.profiles import ALL, Notes, concurrencies, profile
from tests.pipeline.support import source

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.usefixtures("short")


def test_the_first_items_and_no_more_are_read() -> None:
    pulled: list[int] = []

    def numbers() -> Iterator[int]:
        for x in itertools.count():
            pulled.append(x)
            yield x

    notes = Notes()
    profile(source(numbers()).pipe(notes), 7)
    assert pulled == list(range(7))
    assert notes.given == set(range(7))


def test_the_rest_of_an_iterator_is_closed() -> None:
    closed: list[bool] = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            closed.append(True)

    numbers_in_time = numbers()
    profile(source(numbers_in_time).pipe(abs), 5)
    assert closed == [True]


def test_an_exhausted_iterator_is_not_closed() -> None:
    class Numbers:
        left = 3

        def __iter__(self) -> Numbers:
            return self

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            self.left -= 1
            return self.left

        def close(self) -> None:
            raise AssertionError("closed")

    profile(source(Numbers()).pipe(abs))


def test_async_source() -> None:
    closed: list[bool] = []

    class Numbers:
        async def __aiter__(self) -> AsyncIterator[int]:
            try:
                for x in itertools.count():
                    await asyncio.sleep(0)
                    yield x
            finally:
                closed.append(True)

    notes = Notes()
    profile(source(Numbers()).pipe(notes), 5)
    assert notes.given == set(range(5))
    assert closed == [True]


def test_one_epoch_of_a_continuous_source() -> None:
    class Epochs:
        begun = 0

        def __iter__(self) -> Iterator[int]:
            self.begun += 1
            return iter(range(3))

    epochs = Epochs()
    notes = Notes()
    profile(source(epochs, continuous=True).pipe(notes))
    assert epochs.begun == 1
    assert notes.given == {0, 1, 2}


@pytest.mark.usefixtures("impatient_reader")
def test_a_slow_source_gives_what_it_gives_in_time() -> None:
    def numbers() -> Iterator[int]:
        for x in itertools.count():
            time.sleep(0.02)
            yield x

    notes = Notes()
    profile(source(numbers()).pipe(notes))
    assert 1 <= len(notes.given) <= 7


def test_source_on_a_thread_of_its_own() -> None:
    threads: set[int] = set()

    def numbers() -> Iterator[int]:
        for x in range(20):
            threads.add(threading.get_ident())
            yield x

    profile(source(numbers(), dedicated_thread=True).pipe(abs))
    assert len(threads) == 1


def test_none_among_the_items() -> None:
    (result,) = profile(source([None, None]).pipe(lambda x: x is None))
    assert all(it.num_failures == 0 for it in result.stats)


# With several ops at once, an item of the second pass may take the place of a slow one of the first.
@pytest.mark.usefixtures("one_at_a_time", "patient")
def test_what_a_stage_gives_is_what_the_next_one_gets() -> None:
    given = Counter[str]()

    def note(x: str) -> str:
        given[x] += 1
        return x

    profile(source(range(50)).pipe(str).pipe(note))
    assert set(given) == {str(x) for x in range(50)}


@pytest.mark.usefixtures("brief")
def test_batches_of_what_was_given_once() -> None:
    # The last batch of a measurement has few items, since its second round has just begun.
    notes = Notes()
    profile(source(range(100)).aggregate(25).pipe(notes))
    assert notes.given == {tuple(range(start, start + 25)) for start in range(0, 100, 25)}


def test_no_more_results_are_kept_than_were_asked_for() -> None:
    notes = Notes()

    def many(x: int) -> Iterator[int]:
        yield from range(1000 * x, 1000 * x + 1000)

    profile(source(range(20)).pipe(many).pipe(notes), 20)
    assert 1 <= len(notes.given) <= 20


@pytest.mark.usefixtures("patient")
def test_flow_is_items_per_source_item() -> None:
    def thrice(x: int) -> Iterator[int]:
        yield x
        yield x
        yield x

    builder = source(range(600)).pipe(thrice).pipe(lambda x: x if x % 2 else None, name="odd").aggregate(3).pipe(len)
    flows = [it.flow for it in profile(builder)]
    # A measurement of the generator stage ends in the middle of generators.
    assert flows == [1.0, pytest.approx(3, rel=0.4), pytest.approx(1.5, rel=0.4), pytest.approx(0.5, rel=0.4)]


def test_an_endless_generator() -> None:
    def endless(x: int) -> Iterator[int]:
        while True:
            yield x

    began = time.monotonic()
    results = profile(source(range(3)).pipe(endless).pipe(abs))
    assert time.monotonic() - began < 30
    assert all(it.num_outputs > 0 for it in results[0].stats)


def test_async_ops() -> None:
    async def nap(x: int) -> int:
        await asyncio.sleep(0.005)
        return x

    async def twice(x: int) -> AsyncIterator[int]:
        yield x
        yield x

    results = profile(source(range(50)).pipe(nap).pipe(twice).pipe(abs))
    assert [it.is_async for it in results] == [True, True, False]
    assert [concurrencies(it) for it in results] == [ALL] * 3


def test_as_many_items_as_measurements() -> None:
    """Each measurement gets one of the items that can be used only once."""
    seen: set[int] = set()

    def once(x: int) -> int:
        if x in seen:
            raise TypeError("used up")
        seen.add(x)
        return x

    (result,) = profile(source(range(6)).pipe(once))
    assert concurrencies(result) == ALL
    assert [it.num_inputs for it in result.stats] == [1] * 5


def test_a_source_that_raises() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise OSError("disk on fire")

    with pytest.raises(PipelineFailure) as failure:
        profile(source(numbers()).pipe(abs))
    assert isinstance(failure.value.exceptions[0], OSError)


@pytest.mark.filterwarnings("ignore:The source of the pipeline")
def test_a_source_without_items() -> None:
    with pytest.raises(RuntimeError, match=r"The source 'src' \(source\(list at 0x.*\)\) gave no items"):
        profile(source([]).pipe(abs))
