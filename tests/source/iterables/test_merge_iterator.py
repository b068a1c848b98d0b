from __future__ import annotations

from collections import Counter
from itertools import count, islice, zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source.utils import MergeIterator

lengths = st.lists(st.integers(0, 6), min_size=1, max_size=5)
NOTHING = object()


def tagged(lengths: list[int]) -> list[list[tuple[int, int]]]:
    return [[(source, item) for item in range(length)] for source, length in enumerate(lengths)]


@given(lengths)
def test_in_turns(lengths: list[int]) -> None:
    merged = MergeIterator(tagged(lengths))
    turns = zip_longest(*tagged(lengths), fillvalue=NOTHING)
    assert list(merged) == [item for turn in turns for item in turn if item is not NOTHING]
    assert list(merged) == list(merged)


@given(lengths, st.integers(1, 40), st.booleans())
def test_an_end_after_so_many(lengths: list[int], stop_after: int, weighted: bool) -> None:  # noqa: FBT001
    weights = [1.0] * len(lengths) if weighted else None
    everything = list(MergeIterator(tagged(lengths), weights=weights))
    assert list(MergeIterator(tagged(lengths), weights=weights, stop_after=stop_after)) == everything[:stop_after]


@given(lengths, st.booleans())
def test_an_end_with_the_first_that_is_exhausted(lengths: list[int], weighted: bool) -> None:  # noqa: FBT001
    weights = [1.0] * len(lengths) if weighted else None
    everything = list(MergeIterator(tagged(lengths), weights=weights))
    merged = list(MergeIterator(tagged(lengths), weights=weights, stop_after=-1))
    assert merged == everything[: len(merged)]
    taken = Counter(source for source, _ in merged)
    assert any(taken[source] == length for source, length in enumerate(lengths))


@given(lengths, st.integers(), st.data())
def test_drawn_ones_come_once_and_in_their_order(lengths: list[int], seed: int, data: st.DataObject) -> None:
    weight = st.floats(0, 1e6)
    weights = data.draw(st.lists(weight, min_size=len(lengths), max_size=len(lengths)).filter(any))
    merged = list(MergeIterator(tagged(lengths), weights=weights, seed=seed))
    for source, items in enumerate(tagged(lengths)):
        assert [item for item in merged if item[0] == source] == (items if weights[source] else [])


def test_proportions_stay_when_one_is_exhausted() -> None:
    sources = [["a"] * 10, (("b", n) for n in count()), (("c", n) for n in count())]
    merged = islice(MergeIterator(sources, weights=[4, 1, 3], seed=1), 20_010)
    counts = Counter(item[0] for item in merged)
    assert counts["a"] == 10
    # Some 5 standard deviations of the 20,000 others.
    assert abs(counts["b"] - 5_000) < 310


@pytest.mark.parametrize("weights", [[1e-300, 3e-300], [1e300, 3e300], [1, 3], [0.1, 0.3]])
def test_only_proportions_count(weights: list[float]) -> None:
    first = list(islice(MergeIterator([count(), count(10**6)], weights=weights, seed=5), 400))
    assert 50 < sum(item < 10**6 for item in first) < 150


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any), st.integers(1, 99), st.integers(-60, 60))
def test_the_unit_of_weights_changes_nothing(weights: list[int], factor: int, exponent: int) -> None:
    sources = tagged([5] * len(weights))
    scaled = [weight * factor * 2.0**exponent for weight in weights]
    assert list(MergeIterator(sources, weights=scaled)) == list(MergeIterator(sources, weights=weights))


def test_the_seed_decides() -> None:
    orders = {tuple(MergeIterator(["abcd", "efgh"], weights=[1, 1], seed=seed)) for seed in range(20)}
    assert len(orders) > 10


def test_a_source_of_no_weight_is_not_iterated() -> None:
    class Source:
        def __iter__(self) -> Any:
            raise AssertionError

    sources: list[Any] = [Source(), "ab"]
    assert list(MergeIterator(sources, weights=[0, 1])) == ["a", "b"]


def test_an_error_in_a_source_is_not_taken_for_its_end() -> None:
    def broken() -> Any:
        yield 1
        raise OSError("disk")

    merged = iter(MergeIterator([broken(), [2, 3]]))
    assert [next(merged), next(merged)] == [1, 2]
    with pytest.raises(OSError, match="disk"):
        next(merged)


@pytest.mark.parametrize(
    ("iterables", "kwargs", "error", "message"),
    [
        ([], {}, ValueError, "`iterables` must be at least one iterable, got ()"),
        (2, {}, TypeError, "`iterables` must be several iterables, in a list, got 2"),
        ([[1], 2], {}, TypeError, "`iterables[1]` must be an iterable, got 2"),
        ([[1]], {"stop_after": -2}, ValueError, "`stop_after` must be an int of at least -1, got -2"),
        ([[1]], {"seed": 1.5}, TypeError, "`seed` must be an int, got 1.5"),
        (
            [[1]],
            {"weights": [1, 2]},
            ValueError,
            "`weights` must be 1 numbers, as many as there are `iterables`, got [1, 2]",
        ),
        ([[1]], {"weights": [-1]}, ValueError, "`weights[0]` must be a finite number of at least 0, got -1"),
        ([[1]], {"weights": [float("inf")]}, ValueError, "`weights[0]` must be a finite number"),
        ([[1]], {"weights": [float("nan")]}, ValueError, "`weights[0]` must be a number, got nan"),
        ([[1]], {"weights": ["1"]}, TypeError, "`weights[0]` must be a number, got '1'"),
        (
            [[1]],
            {"weights": [0.0]},
            ValueError,
            "`weights` must be numbers, at least one above 0, got [0.0]",
        ),
    ],
)
def test_mistakes(iterables: Any, kwargs: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        MergeIterator(iterables, **kwargs)
    assert message in str(caught.value)
