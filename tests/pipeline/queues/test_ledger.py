"""Test that items lost or doubled by users' queues are reported where they can be known, and nothing else is."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.queues.kinds import Plain
from tests.pipeline.support import source

from spdl.pipeline import AsyncQueue, is_eof

if TYPE_CHECKING:
    from collections.abc import Callable


class Item:
    """An item."""


def behind_source(kind: type[AsyncQueue[Any]]) -> Callable[..., AsyncQueue[Any]]:
    """Return a factory that makes such a queue for the source, and plain queues for the stages."""
    return lambda info, buffer_size: (kind if info.stage_name == "src" else Plain)(info, buffer_size=buffer_size)


MAKERS: dict[str, Callable[[int], Any]] = {
    "int": int,
    "large int": lambda i: i + 10**6,
    "str": lambda i: f"photo {i}.jpg",
    "float": float,
    "array": lambda i: np.full(3, i),
    "object": lambda _: Item(),
    "set": lambda i: {i},
}


@pytest.mark.parametrize("make", [Item, lambda: np.zeros(3)])
def test_identities_that_are_used_again_are_no_doubles(make: Callable[[], Any]) -> None:
    seen: set[int] = set()
    builder = source(range(2500)).pipe(lambda _: make()).add_sink(1)
    with builder.build(num_threads=1, queue_class=behind_source(Plain)).auto_stop() as pipeline:
        for item in pipeline.get_iterator(timeout=20):
            seen.add(id(item))
    assert len(seen) < 2500


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
