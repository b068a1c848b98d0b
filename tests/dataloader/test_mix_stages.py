"""Loaders over a mix whose weights change in the middle of a run, and whose corpora grow."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from spdl.dataloader import ImageLoader, TextLoader
from spdl.source import EpochSampler, MixedOrder, PackedOrder

SIZES = (30, 50, 20)
LENGTH = 16
random = np.random.default_rng(0)
# No token is like another, so that a token says where it is from.
ENDS = np.cumsum(random.integers(1, 2 * LENGTH, sum(SIZES)))
DOCUMENTS = np.split(np.arange(1, ENDS[-1] + 1, dtype=np.int32), ENDS[:-1])
BOUNDS = np.cumsum((0, *SIZES))


def corpus(number: int) -> list[Any]:
    return DOCUMENTS[BOUNDS[number] : BOUNDS[number + 1]]


def mix(weights: Sequence[float], stage: int) -> MixedOrder:
    parts = [PackedOrder([*map(len, corpus(number))], LENGTH, seed=3) for number in range(len(weights))]
    return MixedOrder(parts, weights=weights, num_samples=90, stage=stage, seed=3)


def texts(weights: Sequence[float], stage: int, rank: int = 0, world_size: int = 1, batch_size: int = 2) -> TextLoader:
    source = DOCUMENTS[: BOUNDS[len(weights)]]
    corpora = {str(number): SIZES[number] for number in range(len(weights))}
    return TextLoader(
        source,
        batch_size,
        length=LENGTH,
        order=mix(weights, stage),
        corpora=corpora,
        output="numpy",
        rank=rank,
        world_size=world_size,
    )


def photos(
    weights: Sequence[float], stage: int, rank: int = 0, world_size: int = 1, batch_size: int = 2
) -> ImageLoader:
    sizes = SIZES[: len(weights)]
    samples = [{"image": b"P6 1 1 255 \0\0\0", "label": number + 1} for number in range(sum(sizes))]
    order = MixedOrder(sizes, weights=weights, num_samples=90, stage=stage, seed=3)
    return ImageLoader(samples, batch_size, size=1, order=order, output="numpy", rank=rank, world_size=world_size)


def run(make: Callable[..., Any], steps: int, world_size: int, state: Any) -> tuple[list[int], dict[str, Any]]:
    """Return what all ranks get in some steps, and the state after them."""
    loaders = [make(rank=rank, world_size=world_size) for rank in range(world_size)]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(json.loads(json.dumps(state)))
    found: list[int] = []
    iterators = [iter(loader) for loader in loaders]
    for _ in range(steps):
        for rank, loader in enumerate(loaders):
            batch = next(iterators[rank], None)
            if batch is None:
                iterators[rank] = iter(loader)
                batch = next(iterators[rank])
            values = batch.tokens if isinstance(loader, TextLoader) else batch.label
            found += [value for value in values.ravel().tolist() if value]
    states = [loader.state_dict() for loader in loaders]
    assert states == states[:1] * world_size
    for iterator in iterators:
        iterator.close()
    return found, states[0]


@pytest.mark.parametrize("make", [texts, photos])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("weights", [[(3, 1), (1, 3), (0, 1)], [(0, 2), (4, 1), (1, 1)]])
def test_mixed_order_of_a_loader_yields_each_item_once_before_it_comes_again_over_stages(
    make: Any, ranks: int, weights: list[tuple[int, int]]
) -> None:
    found: list[int] = []
    state = None
    for stage, (each, count) in enumerate(zip(weights, (9, 14, 22), strict=True)):
        staged = partial(make, each, stage)
        # Each stage is cut once, and goes on with another number of ranks.
        for world_size in (ranks, 3 - ranks):
            more, state = run(staged, count, world_size, state)
            found += more
    ends = np.cumsum([each.size for each in DOCUMENTS])[BOUNDS[1:] - 1] if make is texts else BOUNDS[1:]
    owners = np.searchsorted(ends, found)
    for part in range(2):
        own = np.array(found)[owners == part]
        _, counts = np.unique(own, return_counts=True)
        size = ends[part] - (ends[part - 1] if part else 0)
        # Rows come whole, so tokens of a pass that is under way have come once more than others.
        assert counts.max(initial=0) <= len(own) // size + 1
        assert len(counts) == size or counts.max(initial=0) <= 1


@pytest.mark.parametrize("make", [texts, photos])
def test_mixed_order_of_a_loader_continues_a_stage_as_if_it_was_never_cut(make: Any) -> None:
    _, state = run(partial(make, (1, 3), 0), 7, 2, None)
    whole, end = run(partial(make, (3, 1), 1), 24, 2, state)
    first, cut = run(partial(make, (3, 1), 1), 9, 2, state)
    rest, again = run(partial(make, (3, 1), 1), 15, 2, cut)
    assert first + rest == whole
    assert again == end


def test_mixed_order_of_a_loader_draws_what_a_sampler_draws() -> None:
    sampler = EpochSampler(mix((1, 3), 0), batch_size=2, rank=0, world_size=1)
    batches = iter(sampler.batch_sampler)
    for _ in range(11):
        next(batches)
    later = EpochSampler(mix((3, 1), 1), batch_size=2, rank=0, world_size=1)
    later.load_state_dict(sampler.state_dict())
    assert isinstance(later.order, MixedOrder)
    rows = [later.order.rows(numbers).documents.tolist() for numbers in later.batch_sampler]

    _, state = run(partial(texts, (1, 3), 0), 11, 1, None)
    loader = texts((3, 1), 1)
    loader.load_state_dict(state)
    assert (loader.epoch, len(loader)) == (0, 45)
    assert [batch.documents[:, 1].tolist() for batch in loader] == rows


def test_mixed_order_of_a_loader_takes_more_corpora_in_a_later_stage_and_counts_on() -> None:
    _, state = run(partial(texts, (1, 1), 0), 10, 1, None)
    before = state["cursor"]["corpora"]
    found, after = run(partial(texts, (0, 1, 2), 1), 10, 1, state)
    counts = after["cursor"]["corpora"]
    assert counts["0"] == before["0"]
    assert "2" not in before
    assert len(found) == sum(each[3] for each in counts.values()) - sum(each[3] for each in before.values())


def test_mixed_order_of_a_loader_refuses_states_that_it_cannot_continue() -> None:
    _, state = run(partial(texts, (1, 1), 1), 3, 1, None)
    with pytest.raises(ValueError, match="it is of stage 1, and this mix is stage 0"):
        texts((1, 1), 0).load_state_dict(state)
    with pytest.raises(ValueError, match=r"a higher `stage`.* the weight of part 1 was 1\.0 and is 2\.0\."):
        texts((1, 2), 1).load_state_dict(state)
    with pytest.raises(ValueError, match="it mixes 2 parts, and this mix 1"):
        texts((1,), 2).load_state_dict(state)
    others = [*corpus(0)[::-1], *corpus(1)]
    parts = [PackedOrder([*map(len, part)], LENGTH, seed=3) for part in (corpus(0)[::-1], corpus(1))]
    order = MixedOrder(parts, num_samples=90, stage=2, seed=3)
    loader = TextLoader(others, 2, length=LENGTH, order=order, output="numpy", rank=0, world_size=1)
    with pytest.raises(ValueError, match="that stage would be of mixed"):
        loader.load_state_dict(state)
    # A loader that has refused a state is as it was.
    loader = texts((1, 2), 1)
    with pytest.raises(ValueError, match="higher `stage`"):
        loader.load_state_dict(state)
    assert run(lambda **_: loader, 5, 1, None)[0] == run(partial(texts, (1, 2), 1), 5, 1, None)[0]
