"""Corpora mixed by tokens."""

from __future__ import annotations

import json
import pickle
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import EpochOrder, EpochSampler, MixedOrder, SequentialOrder, WeightedOrder, merge_states

CORPUS = st.tuples(
    st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any), st.sampled_from([0, 0.1, 0.5, 1, 3])
)
CORPORA = st.lists(CORPUS, min_size=1, max_size=4).filter(lambda corpora: any(weight for _, weight in corpora))


def make(corpora: list[tuple[list[int], float]], **options: Any) -> MixedOrder:
    lengths, weights = zip(*corpora, strict=True)
    options = {"unit": "tokens", "lengths": lengths, "weights": weights, **options}
    return MixedOrder([len(each) for each in lengths], **options)


def take(order: MixedOrder, epoch: int = 0) -> list[tuple[int, int]]:
    return [order.locate(index) for index in order.take(epoch, np.arange(len(order))).tolist()]


@given(CORPORA, st.integers())
def test_mixed_order_by_tokens_keeps_the_shares_at_every_moment(
    corpora: list[tuple[list[int], float]], seed: int
) -> None:
    order = make(corpora, num_samples=200, seed=seed)
    total = sum(weight for _, weight in corpora)
    weights = [weight / total for _, weight in corpora]
    longest = [max(lengths) if weight else 0 for lengths, weight in corpora]
    had, drawn = [0] * len(corpora), [0] * len(corpora)
    for position, (part, item) in enumerate(take(order)):
        if position % 50 == 0:
            assert order.drawn(0, position) == (drawn, had)
        had[part] += corpora[part][0][item]
        drawn[part] += 1
        for weight, tokens, most in zip(weights, had, longest, strict=True):
            assert abs(tokens - weight * sum(had)) <= most + weight * sum(longest) + 1e-6


@given(CORPORA, st.integers())
def test_mixed_order_by_tokens_yields_each_document_before_one_again(
    corpora: list[tuple[list[int], float]], seed: int
) -> None:
    found = take(make(corpora, num_samples=200, seed=seed))
    for part, (lengths, weight) in enumerate(corpora):
        items = [item for of, item in found if of == part]
        assert bool(items) <= bool(weight)
        for begin in range(0, len(items), len(lengths)):
            assert len(set(items[begin : begin + len(lengths)])) == len(items[begin : begin + len(lengths)])


@given(CORPORA, st.integers(1, 40), st.integers())
def test_mixed_order_by_tokens_goes_on_in_the_next_epoch(
    corpora: list[tuple[list[int], float]], size: int, seed: int
) -> None:
    short, long = make(corpora, num_samples=size, seed=seed), make(corpora, num_samples=5 * size, seed=seed)
    assert [each for epoch in range(5) for each in take(short, epoch)] == take(long)


@given(CORPORA, st.integers())
def test_mixed_order_without_repetition_ends_before_a_document_comes_again(
    corpora: list[tuple[list[int], float]], seed: int
) -> None:
    for options in ({}, {"unit": "items"}):
        order = make(corpora, repeat=False, seed=seed, **options)
        found = take(order)
        assert max(Counter(found).values()) == 1
        longer = make(corpora, num_samples=len(found) + 1, seed=seed, **options)
        assert take(longer)[:-1] == found
        assert take(longer)[-1] in found
        with pytest.raises(ValueError, match=f"`num_samples` must be at most {len(found)} with repeat=False"):
            make(corpora, repeat=False, num_samples=len(found) + 1, seed=seed, **options)
        with pytest.raises(ValueError, match="Epoch 1 of a MixedOrder with repeat=False"):
            take(order, 1)


def lognormal(median: float, count: int, seed: int) -> Any:
    return np.maximum(np.random.default_rng(seed).lognormal(np.log(median), 1, count).astype(np.int64), 1)


def test_mixed_order_by_tokens_is_within_half_a_percent_after_a_million() -> None:
    lengths = [lognormal(400, 20_000, 1), lognormal(100, 20_000, 2)]
    shares = {}
    for unit in ("items", "tokens"):
        order = MixedOrder([20_000, 20_000], weights=[1, 1], unit=unit, lengths=lengths)
        both = np.concatenate(lengths)
        indices = order.take(0, np.arange(20_000))
        end = int(np.searchsorted(np.cumsum(both[indices]), 10**6)) + 1
        tokens = order.drawn(0, end)[1]
        assert tokens is not None
        assert sum(tokens) == both[indices[:end]].sum()
        shares[unit] = tokens[1] / sum(tokens)
    assert abs(shares["tokens"] - 0.5) < 0.0025
    # A fifth of the tokens, as documents are a quarter as long.
    assert 0.18 < shares["items"] < 0.22


def test_mixed_order_by_tokens_does_not_take_turns() -> None:
    order = MixedOrder([5000, 5000], weights=[1, 1], unit="tokens", lengths=[[10] * 5000] * 2)
    first = [part for part, _ in take(order)[::2]]
    assert abs(sum(first) - 2500) < 200


def test_mixed_order_by_tokens_is_entered_anywhere() -> None:
    def new() -> MixedOrder:
        lengths = [lognormal(400, 30_000, 1), lognormal(100, 30_000, 2)]
        return MixedOrder([30_000, 30_000], weights=[3, 1], unit="tokens", lengths=lengths, seed=4)

    whole = new().take(0, np.arange(60_000))
    for positions in ([59_999], [40_000, 10, 40_001], [10]):
        order = new()
        assert order.take(0, np.array(positions)).tolist() == whole[positions].tolist()
        assert order.take(0, np.arange(60_000)).tolist() == whole.tolist()
        assert pickle.loads(pickle.dumps(order)).take(0, np.array([5])) == whole[5]  # noqa: S301 - our own.
    order, found = new(), {}

    def enter(place: int) -> None:
        found[place] = order.take(0, np.arange(place, 60_000, 997)).tolist()

    threads = [threading.Thread(target=enter, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {place: whole[place::997].tolist() for place in range(4)}


class Counted:
    """Counts the positions that are asked for."""

    fingerprint = "counted"
    asked = 0

    def __len__(self) -> int:
        return 100_000

    def take(self, epoch: int, positions: Any) -> Any:
        self.asked += len(positions)
        return positions


@pytest.mark.parametrize("merged", [False, True])
def test_mixed_order_by_tokens_is_resumed_without_the_way_there(merged: bool) -> None:  # noqa: FBT001
    def make(part: Counted, rank: int = 0) -> EpochSampler:
        lengths = [np.full(100_000, 5), np.full(100_000, 7)]
        order = MixedOrder([part, 100_000], weights=[1, 1], unit="tokens", lengths=lengths)
        return EpochSampler(order, batch_size=100, rank=rank, world_size=2)

    whole = make(Counted())
    batches = iter(whole.batch_sampler)
    for _ in range(600):
        next(batches)
    state = json.loads(json.dumps(whole.state_dict()))
    assert len(json.dumps(state)) < 1000
    if merged:
        other = make(Counted(), 1)
        state = merge_states([state, other.batch_sampler.advance_state(other.state_dict(), 600)])
    part = Counted()
    resumed = make(part)
    resumed.load_state_dict(state)
    assert next(iter(resumed.batch_sampler)) == next(batches)
    assert part.asked < 20_000
    assert len(list(resumed.batch_sampler)) == 1000


def test_mixed_order_by_tokens_takes_the_natural_shares_without_weights() -> None:
    order = MixedOrder([3, 2], unit="tokens", lengths=[[1, 2, 3], [6, 6]])
    assert order.weights.tolist() == [6, 12]
    assert len(order) == 5


def test_mixed_order_by_tokens_mixes_orders_of_any_kind() -> None:
    parts: list[EpochOrder] = [SequentialOrder(4), WeightedOrder([0, 1])]
    order = MixedOrder(parts, weights=[1, 1], unit="tokens", lengths=[[2] * 4, [9, 4]], num_samples=90)
    found = take(order)
    assert {item for part, item in found if part == 1} == {1}
    assert [item for part, item in found if part == 0] == [0, 1, 2, 3] * 15


def test_mixed_order_does_not_copy_lengths() -> None:
    lengths = np.ones(10, np.int32)
    order = MixedOrder([10], unit="tokens", lengths=[lengths])
    assert order._lengths is not None
    assert np.shares_memory(order._lengths[0], lengths)


def test_mixed_order_has_a_fingerprint_of_its_lengths() -> None:
    def name(*lengths: Any, **options: Any) -> str:
        return MixedOrder([len(each) for each in lengths], unit="tokens", lengths=lengths, **options).fingerprint

    many = np.arange(2**21)
    names = [
        name([1, 2], [3]),
        name([1, 2], [4]),
        name([1, 2], [3], weights=[1, 1]),
        name([1, 2], [3], stage=1),
        name([1, 2], [3], repeat=False),
        name(many),
        name(many + 1),
    ]
    assert len(set(names)) == len(names)
    assert name(many) == name(many.astype(np.int32))


@pytest.mark.parametrize(
    ("options", "error", "argument"),
    [
        ({"unit": "words"}, ValueError, "unit"),
        ({"unit": "tokens"}, TypeError, "lengths"),
        ({"unit": "tokens", "lengths": [[1, 2]]}, ValueError, "lengths"),
        ({"unit": "tokens", "lengths": 3}, TypeError, "lengths"),
        ({"unit": "tokens", "lengths": [[1, 2], [3]]}, ValueError, r"lengths\[1\]"),
        ({"unit": "tokens", "lengths": [[1, 2], [0.5, 1, 2]]}, TypeError, r"lengths\[1\]"),
        ({"unit": "tokens", "lengths": [[0, 0], [0, 0, 0]]}, ValueError, "weights"),
        ({"repeat": "yes"}, TypeError, "repeat"),
        ({"stage": -1}, ValueError, "stage"),
    ],
)
def test_mixed_order_refuses_senseless_lengths(options: dict[str, Any], error: type[Exception], argument: str) -> None:
    with pytest.raises(error, match=f"`{argument}` must be"):
        MixedOrder([2, 3], **options)


@pytest.mark.parametrize(("lengths", "reason"), [([1, -2], "at least 0, got -2"), ([0, 0], "not all be 0")])
def test_mixed_order_by_tokens_refuses_lengths_that_it_cannot_mix(lengths: list[int], reason: str) -> None:
    order = MixedOrder([2, 2], weights=[1, 1], unit="tokens", lengths=[[3, 4], lengths])
    with pytest.raises(ValueError, match=reason):
        order.take(0, np.arange(4))


@pytest.mark.parametrize("position", [-1, 6])
def test_mixed_order_counts_no_draws_outside_of_an_epoch(position: int) -> None:
    with pytest.raises(ValueError, match="`position` must be"):
        MixedOrder([2, 3]).drawn(0, position)
