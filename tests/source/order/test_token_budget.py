"""Batches under a budget of tokens."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.dataloader import DataLoader, ImageLoader, PyTorchDataLoader
from spdl.source import BucketedOrder, EpochSampler, MixedOrder, merge_states

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=60)


def make(lengths: Any, rank: int = 0, world_size: int = 1, **options: Any) -> EpochSampler:
    order = BucketedOrder(lengths, **{"tokens_per_batch": 64, **options})
    return EpochSampler(order, rank=rank, world_size=world_size)


def padded(batch: list[int], lengths: list[int], multiple: int = 1) -> int:
    longest = max(max(lengths[document], 1) for document in batch)
    return len(batch) * -(-longest // multiple) * multiple


OPTIONS = st.fixed_dictionaries(
    {
        "tokens_per_batch": st.integers(1, 70),
        "multiple": st.integers(1, 8),
        "group": st.integers(1, 5),
        "max_padding": st.sampled_from([0, 0.02, 0.5]),
        "cost": st.sampled_from(["linear", "quadratic"]),
        "seed": st.integers(),
    }
)


@given(LENGTHS, OPTIONS, st.integers(0, 3))
def test_bucketed_order_with_a_budget_has_each_document_once(
    lengths: list[int], options: dict[str, Any], epoch: int
) -> None:
    budget, multiple = options["tokens_per_batch"], options["multiple"]
    fits = [number for number, length in enumerate(lengths) if padded([number], lengths, multiple) <= budget]
    if not fits:
        with pytest.raises(ValueError, match="`tokens_per_batch` must be enough for at least one document"):
            BucketedOrder(lengths, too_long="drop", **options)
        return
    order = BucketedOrder(lengths, too_long="drop", **options)
    numbers = order.take(epoch, np.arange(len(order))).tolist()
    batches = [order.batch(number, epoch).tolist() for number in numbers]
    assert sorted(document for batch in batches for document in batch) == fits
    assert max(padded(batch, lengths, multiple) for batch in batches) <= budget
    assert sorted(set(range(len(lengths))) - set(fits)) == order.dropped.tolist()
    assert len(order) % options["group"] == 0 or len(fits) < len(order) + options["group"]


@given(LENGTHS.map(lambda lengths: [length % 30 for length in lengths]), st.integers(1, 5), st.data())
def test_epoch_sampler_resumes_batches_under_a_budget(lengths: list[int], world_size: int, data: st.DataObject) -> None:
    def ranks(world_size: int) -> list[EpochSampler]:
        return [make(lengths, rank, world_size, group=2, seed=3) for rank in range(world_size)]

    first = ranks(world_size)
    steps = {len(list(make(lengths, rank, world_size, group=2).batch_sampler)) for rank in range(world_size)}
    assert steps == {len(first[0].batch_sampler)} == {first[0].num_batches}
    cut = data.draw(st.integers(0, first[0].num_batches))
    taken: list[tuple[int, ...]] = []
    for sampler in first:
        iterator = iter(sampler.batch_sampler)
        taken += [tuple(next(iterator)) for _ in range(cut)]
    states = [json.loads(json.dumps(sampler.state_dict())) for sampler in first]
    others = ranks(data.draw(st.sampled_from([1, 2, 3, 5])))
    for sampler in others:
        sampler.load_state_dict(states[-1] if data.draw(st.booleans()) else merge_states(states))
    rest = [tuple(batch) for sampler in others for batch in sampler.batch_sampler]
    order = first[0].order
    assert isinstance(order, BucketedOrder)
    expected = Counter(tuple(order.batch(number, 0).tolist()) for number in range(len(order)))
    # Ranks that would have nothing in the last step repeat another's batch.
    assert set(taken + rest) == set(expected)
    assert (Counter(taken + rest) - expected).total() < world_size + len(others)


def test_bucketed_order_with_a_budget_pads_little_and_evens_out_steps() -> None:
    random = np.random.default_rng(1)
    lengths = np.clip(random.lognormal(np.log(400), 1, 30_000).astype(np.int64), 1, 32_768)

    def steps_of(**options: Any) -> list[tuple[list[int], ...]]:
        ranks = [make(lengths, rank, 4, tokens_per_batch=32_768, seed=2, **options) for rank in range(4)]
        return list(zip(*(sampler.batch_sampler for sampler in ranks), strict=True))

    def imbalance(steps: list[tuple[list[int], ...]]) -> float:
        costs = np.array([[len(batch) * float(lengths[batch].max()) ** 2 for batch in step] for step in steps])
        return float(costs.max(axis=1).sum() / costs.mean(axis=1).sum())

    steps = steps_of(group=4, cost="quadratic")
    batches = [batch for step in steps for batch in step]
    taken = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    assert 1 - lengths.sum() / taken < 0.03
    assert taken / len(batches) > 0.9 * 32_768
    assert imbalance(steps) < 1.1
    assert imbalance(steps_of()) > 1.5
    # The lengths of one step say nothing about those of the next.
    longest = [lengths[step[0]].max() for step in steps]
    assert abs(np.corrcoef(longest[1:], longest[:-1])[0, 1]) < 0.3


def test_bucketed_order_with_a_budget_shuffles_each_epoch() -> None:
    order = BucketedOrder([100 + number % 2 for number in range(4000)], tokens_per_batch=1010)
    first, second = (
        {frozenset(order.batch(number, epoch).tolist()) for number in range(len(order))} for epoch in (0, 1)
    )
    assert len(first) == 400
    assert len(first & second) < 3


def test_bucketed_order_refuses_documents_beyond_the_budget() -> None:
    with pytest.raises(ValueError, match=r"`lengths\[1\]` must be at most 64 .* multiple of 16.*, got 65 "):
        BucketedOrder([64, 65, 1], tokens_per_batch=64, multiple=16)
    order = BucketedOrder([64, 65, 1], tokens_per_batch=64, too_long="drop")
    assert (order.dropped.tolist(), order.num_items) == ([1], 3)
    assert BucketedOrder([1], group=1).dropped.size == 0


def test_epoch_sampler_yields_batches_of_an_order_only_from_its_batch_sampler() -> None:
    sampler = make([5, 5, 3])
    with pytest.raises(TypeError, match=r"iterate over `batch_sampler`"):
        iter(sampler)
    assert sampler.batch_sampler.batch_size is None
    loader: DataLoader[list[int], int] = DataLoader(sampler.batch_sampler, preprocessor=len)
    assert list(loader) == [3]


def test_loaders_resume_batches_under_a_budget() -> None:
    lengths = [1 + number % 30 for number in range(100)]

    def by_torch() -> PyTorchDataLoader:
        return PyTorchDataLoader(range(100), batch_sampler=make(lengths).batch_sampler, collate_fn=list)

    def by_us() -> DataLoader[list[int], str]:
        return DataLoader(make(lengths).batch_sampler, preprocessor=str, output_order="input")

    for new in (by_torch, by_us):
        expected = list(new())
        for cut in (0, 3, len(expected)):
            loader = new()
            batches = iter(loader)
            assert [next(batches) for _ in range(cut)] == expected[:cut]
            resumed = new()
            resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
            assert list(resumed) == expected[cut:]


ORDER = BucketedOrder([5, 5, 3], tokens_per_batch=10)


@pytest.mark.parametrize(
    ("use", "argument"),
    [
        (lambda: EpochSampler(ORDER, batch_size=2), "batch_size"),
        (lambda: MixedOrder([3, ORDER]), r"parts\[1\]"),
        (lambda: ImageLoader(["a", "b", "c"], 2, size=8, order=ORDER), "order"),
        (lambda: BucketedOrder([5], tokens_per_batch=9, window=3), "window"),
        (lambda: BucketedOrder([5], group=2, multiple=8), "multiple"),
        (lambda: BucketedOrder([5], group=2, cost="quadratic"), "cost"),
        (lambda: BucketedOrder([5], tokens_per_batch=0), "tokens_per_batch"),
        (lambda: BucketedOrder([5], tokens_per_batch=9, max_padding=1), "max_padding"),
        (lambda: BucketedOrder([5], tokens_per_batch=9, cost="cubic"), "cost"),  # type: ignore[arg-type]
        (lambda: BucketedOrder([-5], tokens_per_batch=9), r"lengths\[0\]"),
    ],
)
def test_orders_of_batches_are_refused_where_items_are_wanted(use: Any, argument: str) -> None:
    with pytest.raises(ValueError, match=f"`{argument}` must be"):
        use()


def test_bucketed_order_refuses_lengths_that_are_no_ints() -> None:
    with pytest.raises(TypeError, match="`lengths` must be a sequence of ints with `tokens_per_batch`"):
        BucketedOrder([1.5], tokens_per_batch=9)
    with pytest.raises(TypeError, match="`group` must be"):
        BucketedOrder([1])
    with pytest.raises(ValueError, match="makes no batches"):
        BucketedOrder([1], group=1).batch(0, 0)
    with pytest.raises(IndexError, match="batch 1 is out of range for 1 batches"):
        BucketedOrder([1], tokens_per_batch=1).batch(1, 0)
