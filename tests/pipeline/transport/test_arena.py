"""Test arenas: what arrives, when memory is used again, and what happens when it is full."""

from __future__ import annotations

import gc
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.transport.work import contents

from spdl.pipeline import (
    PipelineBuilder,
    SharedMemoryRingBuffer,
    SharedMemorySegmentPool,
    iterate_in_subprocess,
    run_pipeline_in_subprocess,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.timeout(120)

ARENAS: list[Callable[[], Any]] = [
    partial(SharedMemoryRingBuffer, 1 << 22),
    partial(SharedMemorySegmentPool, 1 << 19, 8),
]


class Arrays:
    """Arrays whose content tells their number."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def __call__(self) -> Arrays:
        return self

    def __iter__(self) -> Iterator[Any]:
        for number, size in enumerate(self.sizes):
            yield {"number": number, "array": np.full(size, number % 251, np.uint8)}


def tensors() -> list[Any]:
    return [torch.arange(30_000), torch.arange(9)]


def doubled(array: Any) -> Any:
    return array * 2


@pytest.mark.parametrize(
    ("make", "method"), [(ARENAS[0], "fork"), (ARENAS[1], "fork"), (ARENAS[0], "spawn"), (ARENAS[1], "forkserver")]
)
def test_what_arrives(make: Callable[[], Any], method: str) -> None:
    items = iterate_in_subprocess(contents, arena=make(), mp_context=method)
    for _ in range(2):
        (*several, small), (numbers, deep) = items
        for got, sent in zip(several, contents()[0], strict=False):
            assert type(got) is type(sent)
            assert bytes(got) == bytes(sent)
        np.testing.assert_array_equal(small, np.arange(9))
        np.testing.assert_array_equal(numbers, np.arange(50_000))
        assert bytes(deep["deep"][0]) == b"q" * 4096
        numbers[:] = 0
    items.close()


@pytest.mark.parametrize("make", ARENAS)
def test_tensors_arrive(make: Callable[[], Any]) -> None:
    items = iterate_in_subprocess(tensors, arena=make(), mp_context="fork")
    for _ in range(2):
        for got, sent in zip(items, tensors(), strict=True):
            assert torch.equal(got, sent)
            got[:] = 0
    items.close()


@pytest.mark.parametrize("make", ARENAS)
def test_memory_is_used_again(make: Callable[[], Any]) -> None:
    """Hundreds of items go through memory that holds a few, and none shows the content of another."""
    sizes = [5000 + 7919 * number % 400_000 for number in range(300)]
    arena = make()
    items = iterate_in_subprocess(Arrays(sizes), arena=arena, mp_context="fork", buffer_size=2)
    kept: list[Any] = []
    item = each = None
    for item, size in zip(items, sizes, strict=True):
        kept = [*kept[-3:], item]
        assert len(item["array"]) == size
        for each in kept:
            assert (each["array"] == each["number"] % 251).all()
    del kept, item, each
    gc.collect()
    if isinstance(arena, SharedMemorySegmentPool):
        assert arena.published == arena.reclaimed == len(sizes)
        assert (arena.segment_size, arena.count) == (1 << 19, 8)
    else:
        assert arena.head == arena.tail >= sum(sizes)
        assert arena.capacity == 1 << 22
    items.close()
    items.close()


def test_an_item_takes_several_segments() -> None:
    arena = SharedMemorySegmentPool(10_000, 10)
    items = iterate_in_subprocess(Arrays([35_000] * 20), arena=arena, mp_context="fork", buffer_size=1)
    for item in items:
        assert (item["array"] == item["number"]).all()
    assert arena.published == 80
    items.close()


@pytest.mark.parametrize("make", [partial(SharedMemoryRingBuffer, 50_000), partial(SharedMemorySegmentPool, 10_000, 5)])
def test_an_item_larger_than_the_arena_comes_without_it(make: Callable[[], Any]) -> None:
    items = iter(iterate_in_subprocess(Arrays([30_000, 200_000, 30_000]), arena=make(), mp_context="fork"))
    assert next(items)["array"].size == 30_000
    with pytest.warns(RuntimeWarning, match=r"1 item\(s\) so far were larger than the arena.* 200,000 bytes"):
        item = next(items)
    assert (item["array"] == 1).all()
    assert item["array"].size == 200_000
    assert next(items)["array"].size == 30_000


class Large:
    """Items of arrays, tensors and bytes, of which the first two are larger than an arena or not."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def __call__(self) -> Large:
        return self

    def __iter__(self) -> Iterator[Any]:
        for number, size in enumerate(self.sizes):
            part = bytes([number]) * (size // 2)
            yield number, part, np.frombuffer(part, np.uint8), torch.frombuffer(bytearray(part), dtype=torch.uint8)


@pytest.mark.parametrize("make", [partial(SharedMemoryRingBuffer, 60_000), partial(SharedMemorySegmentPool, 15_000, 4)])
def test_items_larger_than_the_arena_are_counted(make: Callable[[], Any]) -> None:
    sizes = [90_000 if number % 2 else 45_000 for number in range(24)]
    items = iterate_in_subprocess(Large(sizes), arena=make(), mp_context="fork")
    with pytest.warns(RuntimeWarning, match="larger than the arena") as caught:
        arrived = [
            (number, bytes(part), array.tobytes(), bytes(tensor.numpy())) for number, part, array, tensor in items
        ]
    items.close()
    for number, size in enumerate(sizes):
        assert arrived[number] == (number, *[bytes([number]) * (size // 2)] * 3)
    assert [str(each.message).split(" so far")[0] for each in caught] == ["1 item(s)", "10 item(s)"]


def test_what_is_kept_of_a_ring_does_not_hold_up_the_worker() -> None:
    arena = SharedMemoryRingBuffer(10_000)
    items = iterate_in_subprocess(Arrays([9000] * 5), arena=arena, mp_context="fork")
    kept = list(items)
    assert arena.head == arena.tail >= 45_000
    assert [it["number"] for it in kept] == [0, 1, 2, 3, 4]
    assert all((it["array"] == it["number"]).all() for it in kept)
    items.close()


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_a_full_pool_raises_in_time(timeout: float) -> None:
    arena = SharedMemorySegmentPool(10_000, 2, acquire_timeout=timeout)
    items = iter(iterate_in_subprocess(Arrays([9000] * 5), arena=arena, mp_context="fork"))
    kept = [next(items), next(items)]
    with pytest.raises(BufferError, match=r"no room for .* bytes within"):
        next(items)
    assert [it["number"] for it in kept] == [0, 1]


def test_a_full_pool_waits_for_a_segment() -> None:
    items = iter(iterate_in_subprocess(Arrays([9000] * 4), arena=SharedMemorySegmentPool(10_000, 1), mp_context="fork"))
    kept = [next(items)]
    dropper = threading.Timer(0.2, kept.clear)
    dropper.start()
    assert next(items)["number"] == 1
    dropper.join()


def test_a_shut_down_arena_wakes_the_worker() -> None:
    arena = SharedMemorySegmentPool(10_000, 1)
    items = iter(iterate_in_subprocess(Arrays([9000] * 4), arena=arena, mp_context="fork"))
    kept = next(items)
    arena.shutdown_arena()
    with pytest.raises(BufferError, match="was shut down"):
        next(items)
    assert kept["number"] == 0


def test_an_arena_that_was_shut_down_before_it_serves_a_worker() -> None:
    arena = SharedMemorySegmentPool(10_000, 1)
    arena.shutdown_arena()
    items = iter(iterate_in_subprocess(Arrays([9000] * 4), arena=arena, mp_context="fork"))
    kept = next(items)
    with pytest.raises(BufferError, match="was shut down"):
        next(items)
    assert kept["number"] == 0


def test_leaving_a_pass_while_the_worker_waits_for_room() -> None:
    items = iterate_in_subprocess(Arrays([9000] * 4), arena=SharedMemorySegmentPool(10_000, 2), mp_context="fork")
    kept: list[Any] = []
    for _ in range(3):
        kept.clear()
        for item in items:
            kept.append(item)
            assert item["number"] == len(kept) - 1
            if len(kept) == 2:
                break
        del item
    kept.clear()
    assert [it["number"] for it in items] == [0, 1, 2, 3]
    items.close()


def test_a_pipeline_through_an_arena() -> None:
    config = PipelineBuilder().add_source([np.arange(5000)] * 30).pipe(doubled).add_sink(3).get_config()
    items = run_pipeline_in_subprocess(
        config, num_threads=1, arena=SharedMemorySegmentPool(1 << 16, 10), mp_context="fork"
    )
    for array in items:
        np.testing.assert_array_equal(array, np.arange(5000) * 2)
    items.close()


def test_views_outlive_everything() -> None:
    arena = SharedMemorySegmentPool(100_000, 6)
    items = iterate_in_subprocess(Arrays([50_000] * 5), arena=arena, mp_context="fork")
    kept = [item["array"][::7] for item in items]
    items.close()
    del items, arena
    gc.collect()
    for number, view in enumerate(kept):
        assert (view == number).all()
        view[:] = 9


def test_an_arena_serves_one_worker() -> None:
    arena = SharedMemorySegmentPool(10_000, 2)
    items = iterate_in_subprocess(Arrays([9000]), arena=arena, mp_context="fork")
    with pytest.raises(ValueError, match="already serves a worker process"):
        iterate_in_subprocess(Arrays([9000]), arena=arena)
    assert len(list(items)) == 1
    items.close()
    assert arena.published == 1
    arena.close()
    arena.unlink()
    with pytest.raises(ValueError, match="is closed"):
        _ = arena.published


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="capacity"):
        SharedMemoryRingBuffer(0)
    with pytest.raises(ValueError, match="segment_size"):
        SharedMemorySegmentPool(0, 1)
    with pytest.raises(ValueError, match="count"):
        SharedMemorySegmentPool(1, 0)
    with pytest.raises(ValueError, match="acquire_timeout"):
        SharedMemorySegmentPool(1, 1, acquire_timeout=-1)
    with pytest.raises(TypeError, match="arena"):
        iterate_in_subprocess(list, arena=7)  # type: ignore[arg-type]
