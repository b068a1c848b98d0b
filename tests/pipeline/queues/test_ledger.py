"""Test that items lost or doubled by users' queues are reported where they can be known, and nothing else is."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.queues.kinds import Plain
from tests.pipeline.support import source

from spdl.pipeline import AsyncQueue, PipelineFailure, is_eof

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import Pipeline


class Item:
    """An item."""


def failure_of(pipeline: Pipeline[Any]) -> str:
    with pytest.raises(PipelineFailure) as caught:
        list(pipeline.get_iterator(timeout=20))
    pipeline.stop()
    (error,) = caught.value.exceptions
    return str(error)


def behind_source(kind: type[AsyncQueue[Any]]) -> Callable[..., AsyncQueue[Any]]:
    """Return a factory that makes such a queue for the source, and plain queues for the stages."""
    return lambda info, buffer_size: (kind if info.stage_name == "src" else Plain)(info, buffer_size=buffer_size)


def replaced(lost: int, again: int) -> Callable[..., AsyncQueue[Any]]:
    """Return a factory of a queue that repeats an item in place of a later one, so the number of items is right."""

    class Replacing(AsyncQueue[Any]):
        def __init__(self, info: Any, *, buffer_size: int) -> None:
            super().__init__(info, buffer_size=buffer_size)
            self.seen: list[Any] = []

        async def put(self, item: Any) -> None:
            self.seen.append(item)
            await super().put(self.seen[again] if len(self.seen) == lost + 1 else item)

    return behind_source(Replacing)


MAKERS: dict[str, Callable[[int], Any]] = {
    "int": int,
    "large int": lambda i: i + 10**6,
    "str": lambda i: f"photo {i}.jpg",
    "float": float,
    "array": lambda i: np.full(3, i),
    "object": lambda _: Item(),
    "set": lambda i: {i},
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(("lost", "again"), [(2, 1), (7, 1), (19, 0)])
def test_a_loss_behind_a_double_is_told(kind: str, lost: int, again: int) -> None:
    items = [MAKERS[kind](i) for i in range(20)]
    pipeline = source(items).pipe(lambda x: x).add_sink(9).build(num_threads=1, queue_class=replaced(lost, again))
    text = failure_of(pipeline)
    assert text.startswith("The queue 'Replacing' of stage ")
    assert f":0:src returned the same object twice: source item {again}. Each object that is put" in text


def test_of_very_many_the_latest_are_known() -> None:
    items = [Item() for _ in range(1300)]
    pipeline = source(items).add_sink(9).build(num_threads=1, queue_class=replaced(1250, 1240))
    assert "returned the same object twice: source item 1240." in failure_of(pipeline)


@pytest.mark.parametrize("make", [Item, lambda: np.zeros(3)])
def test_identities_that_are_used_again_are_no_doubles(make: Callable[[], Any]) -> None:
    seen: set[int] = set()
    builder = source(range(2500)).pipe(lambda _: make()).add_sink(1)
    with builder.build(num_threads=1, queue_class=behind_source(Plain)).auto_stop() as pipeline:
        for item in pipeline.get_iterator(timeout=20):
            seen.add(id(item))
    assert len(seen) < 2500


@pytest.mark.parametrize("kind", [list, tuple, bytes])
def test_of_what_cannot_be_referred_to_weakly_the_last_one_is_known(kind: Callable[[Any], Any]) -> None:
    items = [kind([i] * 300) for i in range(9)]
    pipeline = source(items).add_sink(9).build(num_threads=1, queue_class=replaced(5, 4))
    assert "returned the same object twice: source item 4." in failure_of(pipeline)


@settings(max_examples=15, deadline=None)
@given(st.data(), st.sampled_from(sorted(MAKERS)))
def test_a_queue_that_replaces_one_by_an_earlier_one_always_fails(data: st.DataObject, kind: str) -> None:
    count = data.draw(st.integers(2, 30))
    lost = data.draw(st.integers(1, count - 1))
    again = data.draw(st.integers(0, lost - 1))
    items = [MAKERS[kind](i) for i in range(count)]
    pipeline = source(items).add_sink(9).build(num_threads=1, queue_class=replaced(lost, again))
    assert f"source item {again}." in failure_of(pipeline)


@pytest.mark.parametrize("kind", MAKERS)
def test_objects_that_are_put_in_several_times_come_out_as_often(kind: str) -> None:
    objects = [MAKERS[kind](i) for i in range(5)]
    builder = source(range(40)).pipe(lambda i: objects[i % 5]).add_sink(9)
    with builder.build(num_threads=1, queue_class=Plain).auto_stop() as pipeline:
        for index, item in enumerate(pipeline.get_iterator(timeout=20)):
            assert item is objects[index % 5]
    assert index == 39


@pytest.mark.parametrize("wrap", [lambda x: (x,), lambda x: [x], lambda _: "label", lambda x: x // 2 + 1000, str])
def test_items_may_be_wrapped(wrap: Callable[[int], Any]) -> None:
    class Wrapping(AsyncQueue[Any]):
        async def put(self, item: Any) -> None:
            # Every fifth item is not wrapped.
            await super().put(item if is_eof(item) or item % 5 == 0 else wrap(item))

    builder = source(range(60)).add_sink(9)
    with builder.build(num_threads=1, queue_class=behind_source(Wrapping)).auto_stop() as pipeline:
        got = list(pipeline.get_iterator(timeout=20))
    assert got == [x if x % 5 == 0 else wrap(x) for x in range(60)]


@pytest.mark.parametrize("make", [Item, lambda: np.zeros(3)])
def test_what_came_out_is_not_kept_alive(make: Callable[[], Any]) -> None:
    refs: list[weakref.ref[Any]] = []

    def op(_: int) -> Any:
        made = make()
        refs.append(weakref.ref(made))
        return made

    builder = source(range(50)).pipe(op).add_sink(1)
    with builder.build(num_threads=1, queue_class=Plain).auto_stop() as pipeline:
        for index, made in enumerate(pipeline.get_iterator(timeout=20)):
            assert refs[index]() is made
            gc.collect()
            # Only the item at hand may be alive.
            assert [i for i in range(index) if refs[i]() is not None] == []
