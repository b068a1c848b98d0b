"""Test what crosses between a pipeline and the processes of its regions: it arrives as it was, and nothing is kept."""

from __future__ import annotations

import gc
import weakref
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.support import wait_until
from tests.pipeline.transport.work import shared_memories

from spdl.pipeline import Pipeline, PipelineBuilder, iterate_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(120)


class Color(IntEnum):
    """Equal to an int, but another type."""

    RED = 1


def echo(item: Any) -> Any:
    return item


def region(items: Any, op: Callable[[Any], Any] = echo, **workers: Any) -> Pipeline[Any]:
    """Return a pipeline whose items go to one process and come back in their order."""
    builder = PipelineBuilder[Any, Any]().add_source(items).to(ProcessPoolExecutorConfig(1, **workers), buffer_size=64)
    builder = builder.pipe(op, output_order="input").to(MAIN_PROCESS, buffer_size=64)
    return builder.add_sink().build(num_threads=1)


def there_and_back(items: list[Any], **workers: Any) -> list[Any]:
    with region(items, **workers).auto_stop() as pipeline:
        return list(pipeline.get_iterator(timeout=60))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_region_passes_items_of_all_sizes_both_ways(method: str) -> None:
    sent = [[], [1, "two", None], *(np.arange(n) for n in (0, 3, 5000, 500_000)), *[bytes(200_000)] * 3]
    got = there_and_back(sent, mp_context=method)
    assert len(got) == len(sent)
    for ours, theirs in zip(got, sent, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        if isinstance(ours, np.ndarray):
            assert ours.flags.writeable


def test_region_keeps_small_items_what_they_are() -> None:
    batches: list[list[Any]] = [
        [0, 1, 2, 3, 4],
        [("a.jpg", 1), ("b.jpg", 2), ("c.jpg", None), ("d.jpg", 2.5)],
        ["one", b"two", 3, 4.0, 5j, None, True, (), ("six", b"seven")],
        [1, 2, 3, Color.RED, Color.RED],
        [(1, [2]), (1, [2]), (1, {"two": 2}), 1],
        [b"x" * size for size in (0, 10, 100_000, 1_000_000)],
        ["\ud800", "\x00", "z" * 70_000, 1 << 4000],
    ]
    # An op that returns None drops its item, so each is in a tuple; and items of one kind cross together.
    sent = [(item,) for batch in batches for item in batch * 3]
    got = there_and_back(sent)
    assert got == sent
    assert [type(item) for (item,) in got] == [type(item) for (item,) in sent]


def test_region_keeps_nothing_of_what_was_sent() -> None:
    gone: list[weakref.ref[Any]] = []

    def arrays() -> Iterator[Any]:
        for number in range(200):
            array = np.ones(100_000 if number % 2 else 10)
            gone.append(weakref.ref(array))
            yield array

    with region(arrays()).auto_stop() as pipeline:
        for _ in range(200):
            pipeline.get_item(timeout=60)
        gc.collect()
        assert wait_until(lambda: not any(each() is not None for each in gone))


def test_region_gives_each_item_objects_of_its_own() -> None:
    shared: list[int] = []
    sent = [0, (shared,), (shared,), (shared,), shared] * 20
    lists = [item for item in there_and_back(sent) if item != 0]
    inner = [item[0] if isinstance(item, tuple) else item for item in lists]
    assert inner == [[]] * 80
    assert len(set(map(id, inner))) == 80


def test_iterate_gives_back_memory_that_was_needed_once() -> None:
    """The memory of items that were all held at once is not kept for ever by a channel that needs little."""

    def arrays() -> Iterator[Any]:
        for _ in range(12):
            yield np.ones(1 << 24, np.uint8)
        for _ in range(1500):
            yield np.ones(5000, np.uint8)

    items = iterate_in_subprocess(arrays, mp_context="fork")
    begun = iter(items)
    held = [next(begun) for _ in range(12)]
    most = max(shared_memories())
    held.clear()
    for array in begun:
        del array
    assert most > 12 << 24
    assert max(shared_memories()) < most - (6 << 24)
    items.close()
