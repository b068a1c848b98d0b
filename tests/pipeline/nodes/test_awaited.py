"""Ops that are no coroutine functions and return coroutines all the same."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import let_go, source

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Item:
    """An item that can be referred to weakly, and shows itself in records of failures."""

    def __repr__(self) -> str:
        return "the item"


async def _later(item: Any, tried: list[Any]) -> Any:
    tried.append(item)
    await asyncio.sleep(0)
    raise ValueError(len(tried))


def _from_lambda(tried: list[Any]) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    return lambda item: _later(item, tried)


def _from_function(tried: list[Any]) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    def op(item: Any) -> Coroutine[Any, Any, Any]:
        return _later(item, tried)

    return op


def _from_object(tried: list[Any]) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    class Op:
        def __getitem__(self, item: Any) -> Coroutine[Any, Any, Any]:
            return _later(item, tried)

    return Op().__getitem__


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("make", [_from_lambda, _from_function, _from_object])
def test_each_attempt_gets_the_item_and_the_record_shows_it(
    make: Callable[[list[Any]], Callable[[Any], Any]], retries: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    tried: list[Any] = []
    item = Item()
    builder = source([item]).pipe(make(tried), name="op", retries=retries, retry_delay=0)
    pipeline = builder.add_sink(3).build(num_threads=1)
    with pytest.raises(PipelineFailure), pipeline.auto_stop():
        list(pipeline.get_iterator(timeout=20))
    assert tried == [item] * (retries + 1)
    assert [(failed.item, failed.attempts) for failed in pipeline.failures()] == [("the item", retries + 1)]


def test_an_attempt_that_fails_at_once_and_one_that_fails_later_get_the_same_item() -> None:
    tried: list[Any] = []

    async def later(item: int) -> int:
        if len(tried) < 3:
            raise ValueError
        return 10 * item

    def op(item: int) -> Any:
        tried.append(item)
        if len(tried) == 1:
            raise ValueError
        return later(item)

    with source([4]).pipe(op, retries=3, retry_delay=0).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [40]
    assert tried == [4, 4, 4]


class OneItem:
    """A source of one item, which it does not keep."""

    def __init__(self, died: threading.Event) -> None:
        self._left = [Item()]
        weakref.finalize(self._left[0], died.set)

    def __iter__(self) -> OneItem:
        return self

    def __next__(self) -> Item:
        if not self._left:
            raise StopIteration
        return self._left.pop()


def test_an_item_dies_as_soon_as_a_plain_result_is_there() -> None:
    died = threading.Event()
    dead: list[bool] = []

    def second(item: int) -> int:
        let_go()
        dead.append(died.is_set())
        return item

    builder = source(OneItem(died)).pipe(lambda _: 1, name="first").pipe(second)
    with builder.add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [1]
    assert dead == [True]
