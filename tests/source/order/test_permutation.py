"""The keyed permutation: each number once, and no statistic that tells it from a random order."""

from __future__ import annotations

import itertools
import math
import pickle
import threading
import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import KeyedPermutation

LARGE = st.one_of(st.integers(4097, 2**48), st.sampled_from([4097, 2**32, 2**32 + 1, 2**48 - 1, 2**48]))


def order(n: int, seed: int = 0, epoch: int = 0) -> np.ndarray[Any, Any]:
    return KeyedPermutation(n, seed=seed, epoch=epoch).take(np.arange(n))


def test_each_number_comes_once() -> None:
    for n in [*range(1, 200), 1000, 4095, 4096, 4097, 4099, 10_007, 65_537, 999_983]:
        assert np.array_equal(np.sort(order(n, seed=n)), np.arange(n))


@given(st.one_of(st.integers(1, 5000), LARGE), st.integers(), st.integers(0, 9), st.data())
def test_one_number_is_as_many(n: int, seed: int, epoch: int, data: st.DataObject) -> None:
    shuffled = KeyedPermutation(n, seed=seed, epoch=epoch)
    positions = data.draw(st.lists(st.integers(0, n - 1), max_size=8))
    taken = shuffled.take(np.array(positions, dtype=np.int64))
    assert taken.dtype == np.int64
    assert taken.tolist() == [shuffled[position] for position in positions]
    assert all(0 <= number < n for number in taken.tolist())
    assert len(set(taken.tolist())) == len(set(positions))


def test_slices_and_iterators_are_the_same() -> None:
    for n in (7, 20_000):
        shuffled = KeyedPermutation(n, seed=4)
        assert list(shuffled) == shuffled[:].tolist() == order(n, 4).tolist()
        assert shuffled[5:2:-1].tolist() == [shuffled[5], shuffled[4], shuffled[3]]
        assert shuffled[-1] == shuffled[n - 1]
        assert len(shuffled) == n
        assert pickle.loads(pickle.dumps(shuffled))[3] == shuffled[3]  # noqa: S301 - our own.


def test_orders_never_change() -> None:
    """Runs are resumed with other versions and on other machines: these numbers stay as they are."""
    assert list(KeyedPermutation(8, seed=1, epoch=2)) == [7, 5, 2, 0, 6, 4, 1, 3]
    assert KeyedPermutation(10**9, seed=1)[:3].tolist() == [462446534, 577481637, 44022516]
    assert KeyedPermutation(2**48, seed=-1, epoch=3)[2**47 : 2**47 + 2].tolist() == [162168827752396, 239975577323550]


@pytest.mark.parametrize("n", range(3, 7))
def test_all_orders_of_few_numbers_are_equally_likely(n: int) -> None:
    orders = math.factorial(n)
    expected = max(8, 10_000 // orders)
    samples = expected * orders
    counts = Counter(order(n, seed=sample // 1000, epoch=sample % 1000).tobytes() for sample in range(samples))
    assert orders - len(counts) <= 10
    chi2 = sum((count - expected) ** 2 / expected for count in counts.values()) + (orders - len(counts)) * expected
    assert abs(chi2 - (orders - 1)) < 4.5 * math.sqrt(2 * (orders - 1))


def statistics(numbers: np.ndarray[Any, Any]) -> list[float]:
    """Return statistics of an order whose mean over random orders is 0 or given, and whose variance is near 1."""
    n = len(numbers)
    values = numbers.astype(np.float64)
    steps = np.diff(values)
    places = np.arange(n)
    return [
        float(np.corrcoef(values[:-1], values[1:])[0, 1]) * math.sqrt(n),
        float(np.corrcoef(places, values)[0, 1]) * math.sqrt(n),
        float((steps > 0).sum() - (n - 1) / 2) / math.sqrt((n + 1) / 12),
        # Neighbours that stay neighbours, and numbers that stay in place: Poisson of 2 and 1.
        (float((np.abs(steps) == 1).sum()) - 2) / math.sqrt(2),
        float((values == places).sum()) - 1,
        # Odd numbers in odd places.
        float(((numbers % 2) == (places % 2)).sum() - n / 2) / (math.sqrt(n) / 2),
    ]


@pytest.mark.parametrize(("n", "samples"), [(1000, 300), (4097, 300), (10_000, 200), (10**5, 60), (10**6, 12)])
def test_no_statistic_tells_it_from_a_random_order(n: int, samples: int) -> None:
    measured = np.array([statistics(order(n, seed=1, epoch=epoch)) for epoch in range(samples)])
    deviations = measured.mean(axis=0) * math.sqrt(samples)
    assert abs(deviations).max() < 4.5
    # Variances of 1; the relative error of a variance is sqrt(2 / samples), of a Poisson variable's somewhat more.
    assert abs(measured.var(axis=0) - 1).max() < 6 * math.sqrt(2 / samples)


def test_neighbours_of_the_table_of_the_network_are_spread() -> None:
    """Pairs in one row or column of the Feistel network come into one row or column as often as any pair."""
    n = 4097
    # Of 66 * 63 places, the smallest number of them that is no less, with an even side.
    rows = 63
    places = np.arange(n)

    def shared(numbers: np.ndarray[Any, Any]) -> list[int]:
        sizes = []
        for before in (places // rows, places % rows):
            for after in (numbers // rows, numbers % rows):
                count = np.unique(before * n + after, return_counts=True)[1]
                sizes.append(int((count * (count - 1) // 2).sum()))
        return sizes

    samples = 300
    ours = np.array([shared(order(n, seed=2, epoch=epoch)) for epoch in range(samples)])
    random = np.random.default_rng(0)
    theirs = np.array([shared(random.permutation(n)) for _ in range(samples)])
    errors = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / samples)
    assert (abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4.5 * errors).all()


@pytest.mark.parametrize("n", [1000, 100_000])
def test_each_bit_of_seed_and_epoch_makes_another_order(n: int) -> None:
    """Orders whose keys differ by one bit agree in as few places as random ones: one in the mean."""
    base = order(n, seed=12345, epoch=678)
    agreeing = []
    for bit in range(64):
        agreeing.append(int((order(n, seed=12345 ^ 1 << bit, epoch=678) == base).sum()))
        agreeing.append(int((order(n, seed=12345, epoch=678 ^ 1 << bit) == base).sum()))
    assert max(agreeing) < 10
    assert 70 < sum(agreeing) < 190  # Poisson of 128.


def test_the_next_seed_is_not_the_next_epoch() -> None:
    for n in (100, 10_000):
        orders = {(seed, epoch): order(n, seed, epoch) for seed in range(4) for epoch in range(4)}
        for one, other in itertools.combinations(orders.values(), 2):
            assert (one == other).sum() < 10


def test_the_first_of_a_billion_takes_no_time_and_no_memory() -> None:
    KeyedPermutation(10**9, seed=1)[0]
    tracemalloc.start()
    try:
        shuffled = KeyedPermutation(10**9, seed=2)
        iterator = iter(shuffled)
        for _ in range(50_000):
            next(iterator)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_threads_may_share_one() -> None:
    shuffled = KeyedPermutation(50_000, seed=3)
    expected = shuffled[:]
    results: list[bool] = []

    def read() -> None:
        results.append(all(np.array_equal(shuffled[:], expected) for _ in range(5)))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


@pytest.mark.parametrize("n", [5, 5000])
def test_positions_beyond_the_end_are_refused(n: int) -> None:
    shuffled = KeyedPermutation(n)
    for position in (n, -n - 1):
        with pytest.raises(IndexError, match="out of range"):
            shuffled[position]
    for positions in ([n], [-1], [0, 2**60]):
        with pytest.raises(IndexError, match="positions must be from 0 to"):
            shuffled.take(np.array(positions))
    with pytest.raises(TypeError, match="an array of integers"):
        shuffled.take(np.array([0.5]))
    with pytest.raises(TypeError, match="`position` must be an int"):
        shuffled[0.5]  # type: ignore[call-overload]
    assert shuffled.take(np.array([], dtype=np.int64)).shape == (0,)
    assert shuffled.take(np.zeros((2, 3), np.uint8)).shape == (2, 3)


@pytest.mark.parametrize(("n", "error"), [(0, ValueError), (2**48 + 1, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_senseless_sizes_are_refused(n: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`n` must be an int from 1 to"):
        KeyedPermutation(n)
