from __future__ import annotations

import copy
import pickle
import threading
from itertools import islice
from typing import Any

import pytest
from tests.dataloader.reading_on import reading_on
from tests.pipeline.support import wait_until

from spdl.dataloader import CacheDataLoader, DataLoader


class Loader:
    batch_size = 4

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Any:
        self.passes += 1
        return iter(range(5))

    def __len__(self) -> int:
        return 5


def test_batches_are_repeated() -> None:
    loader = Loader()
    cached = CacheDataLoader(loader, 2, 3, 8)
    assert list(cached) == list(cached) == [0, 1, 2, 0, 1, 0, 1, 0]
    assert loader.passes == 2


def test_length_and_attributes_are_the_loaders() -> None:
    cached = CacheDataLoader(Loader(), num_caches=1, return_caches_after=1)
    assert len(cached) == 5
    assert cached.batch_size == 4
    with pytest.raises(AttributeError, match="'Loader' object has no attribute 'sampler'"):
        _ = cached.sampler
    with pytest.raises(TypeError, match="has no len"):
        len(CacheDataLoader(iter([1]), 1, 1))


def has_workers() -> bool:
    return any(thread.name.startswith("spdl_worker") for thread in threading.enumerate())


def test_the_loaders_threads_end_when_it_is_no_longer_needed() -> None:
    loader: DataLoader[int, int] = DataLoader(range(10**9), num_threads=2)
    cached = CacheDataLoader(loader, num_caches=2, return_caches_after=4)
    items = iter(cached)
    taken = [next(items) for _ in range(4)]
    assert has_workers()
    assert [next(items) for _ in range(3)] == [*taken[:2], taken[0]]
    assert wait_until(lambda: not has_workers())


def test_or_they_go_on_until_the_iteration_is_over() -> None:
    loader: DataLoader[int, int] = DataLoader(range(10**9), num_threads=2)
    items = iter(CacheDataLoader(loader, 2, 4, stop_after=9, delete_src=False))
    assert len([next(items) for _ in range(8)]) == 8
    assert has_workers()
    assert len(list(items)) == 1
    del items
    assert wait_until(lambda: not has_workers())


@pytest.mark.parametrize("delete_src", [True, False])
@pytest.mark.parametrize("late", [0, 1, 3])
def test_a_read_that_took_too_long_is_followed_by_others(late: int, *, delete_src: bool) -> None:
    gate = threading.Event()

    def wait(x: int) -> int:
        assert x != late or gate.wait(20)
        return x

    loader: DataLoader[int, int] = DataLoader(range(9), preprocessor=wait, num_threads=1, timeout=0.05)
    items = iter(CacheDataLoader(loader, 2, 4, stop_after=7, delete_src=delete_src))
    assert list(islice(reading_on(items), late)) == list(range(late))
    with pytest.raises(TimeoutError, match="the next read continues"):
        next(items)
    gate.set()
    assert list(reading_on(items)) == [0, 1, 2, 3, 0, 1, 0][late:]


def test_copies() -> None:
    cached = CacheDataLoader([1, 2, 3], 1, 2, 4)
    assert list(copy.copy(cached)) == list(pickle.loads(pickle.dumps(cached))) == [1, 2, 1, 1]  # noqa: S301


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 1), ValueError, "`num_caches` must be an int of at least 1, got 0"),
        ((2, 1), ValueError, "`return_caches_after` must be None or an int of at least `num_caches` (2), got 1"),
        ((1, 3, 2), ValueError, "`stop_after` must be None or an int of at least 3"),
        ((1, 1, None, 5), TypeError, "`delete_src` must be True or False, got 5"),
    ],
)
def test_mistakes_are_told_at_the_construction(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        CacheDataLoader([1], *arguments)
    assert message in str(caught.value)


def test_a_loader_that_is_no_iterable() -> None:
    with pytest.raises(TypeError, match="`dl` must be an iterable, got 5"):
        CacheDataLoader(5, 1, 1)  # type: ignore[arg-type]
