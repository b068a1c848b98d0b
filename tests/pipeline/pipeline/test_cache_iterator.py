"""Test the iterator that repeats cached items, against a model."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import cache_iterator

if TYPE_CHECKING:
    from collections.abc import Iterator


@given(size=st.integers(0, 12), caches=st.integers(1, 5), extra=st.integers(0, 5), more=st.integers(0, 20))
def test_against_a_model(size: int, caches: int, extra: int, more: int) -> None:
    real = list(range(size))[: caches + extra]
    repeated = itertools.cycle(range(min(size, caches))) if size else iter(())
    expected = list(itertools.islice(itertools.chain(real, repeated), caches + extra + more))
    got = cache_iterator(range(size), caches, return_caches_after=caches + extra, stop_after=caches + extra + more)
    assert list(got) == expected


def test_it_goes_on_for_ever() -> None:
    assert list(itertools.islice(cache_iterator("abc", 2), 7)) == list("abababa")


@pytest.mark.parametrize("delete_src", [True, False])
def test_the_source_is_dropped_once_it_is_not_needed(*, delete_src: bool) -> None:
    class Source:
        def __iter__(self) -> Iterator[int]:
            return iter([1, 2, 3])

    source = Source()
    alive = weakref.ref(source)
    items = cache_iterator(source, 1, return_caches_after=2, delete_src=delete_src)
    del source
    assert [next(items) for _ in range(5)] == [1, 2, 1, 1, 1]
    gc.collect()
    assert (alive() is None) == delete_src


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_caches": 0}, "`num_caches` must be an int of at least 1, got 0"),
        (
            {"num_caches": 3, "return_caches_after": 2},
            r"`return_caches_after` must be None or an int of at least `num_caches` \(3\), got 2",
        ),
        ({"num_caches": 3, "stop_after": 2}, "`stop_after` must be None or an int of at least 3, "),
        (
            {"num_caches": 3, "return_caches_after": 5, "stop_after": 4},
            "`stop_after` must be None or an int of at least 5, ",
        ),
    ],
)
def test_mistakes_are_told_at_the_call(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cache_iterator([], **arguments)


def test_a_source_that_fails_is_not_repeated() -> None:
    class Failing:
        def __iter__(self) -> Iterator[int]:
            yield 1
            yield 2
            raise OSError("no such host")

    cached = cache_iterator(Failing(), num_caches=2, return_caches_after=10)
    assert [next(cached), next(cached)] == [1, 2]
    with pytest.raises(OSError, match="no such host"):
        next(cached)
    assert list(cached) == []
