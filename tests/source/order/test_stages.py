"""Mixes whose weights change, or whose corpora grow, during a run."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.dataloader import DataLoader, PyTorchDataLoader
from spdl.source import EpochSampler, MixedOrder, SequentialOrder, merge_states

UNITS = st.sampled_from(["items", "tokens"])


def lengths_of(sizes: list[int]) -> list[list[int]]:
    """Of documents that do not change when a corpus grows."""
    return [[1 + (7 * item + part) % 9 for item in range(size)] for part, size in enumerate(sizes)]


def make(sizes: list[int], rank: int = 0, world_size: int = 1, *, batch_size: int = 1, **options: Any) -> EpochSampler:
    order = MixedOrder(sizes, lengths=lengths_of(sizes), **{"seed": 5, **options})
    return EpochSampler(order, batch_size=batch_size, rank=rank, world_size=world_size)


def mix(sampler: EpochSampler) -> MixedOrder:
    assert isinstance(sampler.order, MixedOrder)
    return sampler.order


def located(sampler: EpochSampler, count: int | None = None) -> list[tuple[int, int]]:
    return [mix(sampler).locate(index) for index in islice(sampler, count)]


class Passes:
    """What each corpus has left of its pass: an item comes again only when all that there are have come."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.left: list[set[int]] = []

    def grow(self, sizes: list[int]) -> None:
        self.left += [set() for _ in sizes[len(self.left) :]]
        self.sizes += [0] * (len(sizes) - len(self.sizes))
        for left, before, size in zip(self.left, self.sizes, sizes, strict=True):
            left |= set(range(before, size))
        self.sizes = sizes

    def take(self, part: int, item: int) -> None:
        self.left[part] = self.left[part] or set(range(self.sizes[part]))
        self.left[part].remove(item)


class Stages:
    """The stages of a run: each draws some steps on some ranks, and is continued by the next one."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []
        self.passes = Passes()
        self.state: dict[str, Any] | None = None

    def run(self, ranks: list[EpochSampler], sizes: list[int], steps: int) -> list[dict[str, Any]]:
        if self.state is not None:
            for sampler in ranks:
                sampler.load_state_dict(self.state)
        self.passes.grow(sizes)
        lengths = lengths_of(sizes)
        parts = range(len(sizes))
        drawn, tokens = mix(ranks[0]).drawn(0, 0)
        assert drawn == [sum(of == part for of, _ in self.found) for part in parts]
        assert tokens == [sum(lengths[of][item] for of, item in self.found if of == part) for part in parts]
        iterators = [iter(sampler.batch_sampler) for sampler in ranks]
        for _ in range(steps):
            for sampler, batches in zip(ranks, iterators, strict=True):
                for index in next(batches):
                    self.found.append(mix(sampler).locate(index))
                    self.passes.take(*self.found[-1])
        return [json.loads(json.dumps(sampler.state_dict())) for sampler in ranks]


@given(st.data())
def test_each_document_comes_once_over_the_stages(data: st.DataObject) -> None:
    """Whatever the mixes, the cuts, the growth of the corpora and the numbers of ranks are."""
    sizes = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
    stages = Stages()
    for stage in range(3):
        if stage:
            sizes = [size + data.draw(st.sampled_from([0, 0, 1, 9])) for size in sizes]
            sizes += data.draw(st.lists(st.integers(1, 20), max_size=1))
        weights = data.draw(st.lists(st.integers(0, 4), min_size=len(sizes), max_size=len(sizes)).filter(any))
        options = {"weights": weights, "unit": data.draw(UNITS), "stage": stage, "num_samples": 30}
        world_size, batch_size = data.draw(st.sampled_from([1, 2, 3, 5])), data.draw(st.integers(1, 3))
        ranks = [make(sizes, rank, world_size, batch_size=batch_size, **options) for rank in range(world_size)]
        states = stages.run(ranks, sizes, data.draw(st.integers(0, 30 // (world_size * batch_size))))
        chosen = data.draw(st.integers(0, world_size))
        stages.state = merge_states(states) if chosen == world_size else states[chosen]


@given(st.integers(0, 40), st.integers(0, 30), UNITS, st.sampled_from([1, 2, 3, 5]))
def test_a_stage_is_resumed_like_any_order(first: int, second: int, unit: str, world_size: int) -> None:
    options: dict[str, Any] = {"unit": unit, "num_samples": 50}
    old = make([40, 30], weights=[3, 1], **options)
    located(old, first)
    state = old.state_dict()
    new: dict[str, Any] = {**options, "weights": [1, 2, 1], "stage": 1}

    whole = make([40, 35, 8], **new)
    whole.load_state_dict(state)
    expected = located(whole)
    cut = make([40, 35, 8], **new)
    cut.load_state_dict(state)
    begun = located(cut, second)
    saved = json.loads(json.dumps(cut.state_dict()))
    rest = []
    ranks = [make([40, 35, 8], rank, world_size, **new) for rank in range(world_size)]
    for sampler in ranks:
        sampler.load_state_dict(saved)
        rest += located(sampler)
    assert begun == expected[:second]
    assert set(expected[second:]) <= set(rest)
    assert not Counter(expected[second:]) - Counter(rest)
    # The next epoch goes on, too.
    assert ranks[0].fingerprint == whole.fingerprint == saved["fingerprint"]
    assert whole.epoch == 1
    assert len(located(whole)) == 50


def test_what_is_left_comes_first_when_a_corpus_has_grown() -> None:
    old = make([10], num_samples=100)
    found = located(old, 14)
    new = make([16], num_samples=100, stage=1)
    new.load_state_dict(old.state_dict())
    more = located(new, 44)
    second = [item for _, item in found[10:]]
    # The rest of the second pass and the new documents, then whole passes.
    assert sorted([item for _, item in more[:12]] + second) == list(range(16))
    for begin in (12, 28):
        assert sorted(item for _, item in more[begin : begin + 16]) == list(range(16))
    assert [item for _, item in more[:12]] != sorted(item for _, item in more[:12])


def test_without_repetition_a_stage_ends_with_its_first_corpus() -> None:
    old = make([10, 10], weights=[1, 1], repeat=False)
    found = located(old, 6)
    new = make([10, 10, 2], weights=[2, 1, 0], repeat=False, stage=1)
    new.load_state_dict(old.state_dict())
    assert len(new) == len(mix(new))
    found += located(new)
    assert max(Counter(found).values()) == 1
    assert sum(part == 0 for part, _ in found) == 10 or sum(part == 1 for part, _ in found) == 10
    gone = make([10, 10, 2], weights=[2, 1, 0], repeat=False, stage=2)
    with pytest.raises(ValueError, match="nothing of this part is left"):
        gone.load_state_dict(new.state_dict())


def test_a_loader_goes_on_with_the_next_stage() -> None:
    def load(sampler: EpochSampler) -> DataLoader[int, str]:
        def name(index: int) -> str:
            return str(mix(sampler).locate(index))

        return DataLoader(sampler, preprocessor=name, output_order="input", num_threads=1)

    for cut, unit in itertools.product((0, 7, 30), ("items", "tokens")):
        options: dict[str, Any] = {"unit": unit, "num_samples": 30}
        old = load(make([20, 20], weights=[1, 1], **options))
        batches = iter(old)
        found = [next(batches) for _ in range(cut)]
        new = make([20, 20, 9], weights=[1, 1, 2], stage=1, **options)
        loader = load(new)
        loader.load_state_dict(json.loads(json.dumps(old.state_dict())))
        more = list(loader)
        expected = make([20, 20], weights=[1, 1], **options)
        assert found == [str(each) for each in located(expected, cut)]
        after = make([20, 20, 9], weights=[1, 1, 2], stage=1, **options)
        after.load_state_dict(expected.state_dict())
        assert more == [str(each) for each in located(after)]


def test_a_pytorch_loader_refuses_a_state_of_another_stage() -> None:
    def load(sampler: EpochSampler) -> PyTorchDataLoader:
        return PyTorchDataLoader(range(40), batch_sampler=sampler.batch_sampler)

    old = make([20, 20], weights=[1, 1], batch_size=4)
    before = old.state_dict()
    loader = load(old)
    found = [next(batches).tolist() for batches in [iter(loader)] for _ in range(3)]
    new = make([20, 20], weights=[1, 3], batch_size=4, stage=1)
    with pytest.raises(ValueError, match="from another stage of a MixedOrder"):
        load(new).load_state_dict(loader.state_dict())
    new.load_state_dict(old.batch_sampler.advance_state(before, 3))
    found += [batch.tolist() for batch, _ in zip(load(new), range(4), strict=False)]
    assert max(Counter(index for batch in found for index in batch).values()) == 1


STATE = make([20, 20], weights=[1, 1]).state_dict()
LATER = make([20, 20], weights=[1, 1], stage=3).state_dict()


def received_out_of_order() -> dict[str, Any]:
    sampler = make([20, 20], weights=[1, 1])
    return sampler.advance_state(sampler.state_dict(), 3, [(5, 6)])


def within_a_step() -> dict[str, Any]:
    sampler = make([20, 20], 0, 2, batch_size=4, weights=[1, 1])
    return sampler.advance_state(sampler.state_dict(), 3)


@pytest.mark.parametrize(
    ("state", "options", "reason"),
    [
        (LATER, {}, "it is of stage 3, and this mix is stage 1. Pass stage=3"),
        (STATE, {"seed": 6}, "with the corpora and the seed of this mix that stage would be of"),
        (STATE, {"sizes": [20]}, "it mixes 2 parts, and this mix 1"),
        (STATE, {"sizes": [20, 19]}, "part 1 had 20 items and has 19"),
        (STATE, {"stage": 0, "weights": [2, 1]}, "make it as the one that was saved"),
        (STATE, {"stage": 0, "sizes": [20, 21]}, "make it as the one that was saved"),
        (STATE, {"data": "other"}, "that stage would be of"),
        (received_out_of_order(), {}, "same whole steps"),
        (within_a_step(), {}, "same whole steps"),
        ({**STATE, "mix": 3}, {}, "is damaged: its 'checksum' is"),
    ],
)
def test_states_that_a_stage_cannot_go_on_from_are_refused(
    state: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    sizes = options.get("sizes", [20, 20])
    own = {"weights": [1] * len(sizes), "stage": 1, "seed": 5, **options}
    own.pop("sizes", None)
    data = own.pop("data", "")
    order = MixedOrder(sizes, lengths=lengths_of(sizes), **own)
    sampler = EpochSampler(order, data=data, rank=0, world_size=1)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match=reason):
        sampler.load_state_dict(state)
    assert sampler.state_dict() == before


@pytest.mark.parametrize(
    ("sizes", "options", "difference"),
    [
        ([20] * 30, {"weights": [1] * 29 + [2]}, "Of the two mixes, the weight of part 29 was 1.0 and is 2.0."),
        ([20] * 29 + [21], {"num_samples": 600}, "Of the two mixes, the number of items of part 29 was 20 and is 21."),
        ([20] * 30, {"num_samples": 60}, "Of the two mixes, the size was 600 and is 60."),
        ([20] * 29, {}, "The mix of the state has 30 parts, and this one 29."),
        ([20] * 30, {"seed": 6}, "their seed, or a part or its own seed, differs."),
        ([30] * 30, {"num_samples": 600}, "the number of items of part 4 was 20 and is 30, 25 more differ."),
    ],
)
def test_the_state_of_another_mix_says_what_differs(sizes: list[int], options: dict[str, Any], difference: str) -> None:
    """So many parts that the mix is named by a digest."""

    def of(sizes: list[int], **options: Any) -> EpochSampler:
        order = MixedOrder(sizes, **{"weights": [1] * len(sizes), "seed": 5, **options})
        return EpochSampler(order, rank=0, world_size=1)

    with pytest.raises(ValueError, match=re.escape(difference) + "$"):
        of(sizes, **options).load_state_dict(of([20] * 30).state_dict())


def test_a_stage_by_tokens_needs_lengths_to_be_followed() -> None:
    state = make([20, 20], unit="tokens").state_dict()
    sampler = EpochSampler(MixedOrder([20, 20], seed=5, stage=1), rank=0, world_size=1)
    with pytest.raises(ValueError, match=r"it mixes by tokens\. Pass `lengths`"):
        sampler.load_state_dict(state)


def test_an_order_that_was_given_must_stay_the_same() -> None:
    def of(size: int, stage: int) -> EpochSampler:
        return EpochSampler(MixedOrder([SequentialOrder(size), 9], seed=5, stage=stage), rank=0, world_size=1)

    state = of(10, 0).state_dict()
    of(10, 1).load_state_dict(state)
    with pytest.raises(ValueError, match="that stage would be of"):
        of(11, 1).load_state_dict(state)


def test_grown_corpora_may_be_other_data() -> None:
    def of(sizes: list[int], stage: int, data: str) -> EpochSampler:
        return EpochSampler(MixedOrder(sizes, seed=5, stage=stage), data=data, rank=0, world_size=1)

    old = of([20], 0, "a")
    located(old, 5)
    new = of([21], 1, "b")
    new.load_state_dict(old.state_dict())
    assert mix(new).drawn(0, 0) == ([5], None)
    assert np.array(located(new, 16)).shape == (16, 2)
