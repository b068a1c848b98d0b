from __future__ import annotations

import json
import random
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from spdl.dataloader import DataLoader, MapIterator
from spdl.pipeline import PipelineBuilder
from spdl.source import DistributedDeterministicSampler, DistributedRandomSampler, EpochSampler, embed_shuffle
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import Pipeline


class Dataset:
    """A map-style dataset as torch defines it: no __iter__, and no IndexError at its end."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> str:
        return "abcd"[index % 4]


@pytest.mark.parametrize(
    ("mapping", "sampler", "expected"),
    [
        ({"x": 1, "y": 2}, None, [1, 2]),
        ({"x": 1, "y": 2}, ["y", "x", "y"], [2, 1, 2]),
        ([5, 6, 7], None, [5, 6, 7]),
        (Dataset(), None, ["a", "b", "c", "d"]),
        (Dataset(), DistributedDeterministicSampler(4, rank=1, world_size=2), ["b", "d"]),
    ],
)
def test_values_in_order(mapping: Any, sampler: Any, expected: list[Any]) -> None:
    items: MapIterator[Any, Any] = MapIterator(mapping, sampler)
    assert list(items) == list(items) == expected
    assert len(items) == len(expected)
    assert list(DataLoader(items, output_order="input")) == expected


def test_a_sampler_of_unknown_length() -> None:
    items = MapIterator(Dataset(), (index for index in range(2)))
    with pytest.raises(TypeError, match="has no len"):
        len(items)
    assert list(items) == ["a", "b"]
    with pytest.raises(RuntimeError, match=r"This MapIterator's `sampler`, of type generator, is its own iterator"):
        list(items)


def test_a_key_that_is_not_there() -> None:
    items = iter(MapIterator({"x": 1}, ["x", "z"]))
    assert next(items) == 1
    with pytest.raises(KeyError, match="z"):
        next(items)


def test_stop_iteration_of_a_lookup_does_not_end_the_pass_in_silence() -> None:
    class Broken(Dataset):
        def __getitem__(self, index: int) -> str:
            if index == 2:
                raise StopIteration
            return super().__getitem__(index)

    items = iter(MapIterator(Broken()))
    assert [next(items), next(items)] == ["a", "b"]
    with pytest.raises(RuntimeError, match="`mapping` raised StopIteration for the key 2") as raised:
        next(items)
    assert isinstance(raised.value.__cause__, StopIteration)


class Looked:
    """A dataset that notes what it is asked for."""

    def __init__(self, size: int = 12) -> None:
        self.asked: list[int] = []
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, int]:
        self.asked.append(index)
        # An item that has no mark by which a pass is recognised.
        return {"index": index}


class Drawn:
    """A sampler without positions and state, whose order follows from the passes before."""

    def __init__(self) -> None:
        self._random = random.Random(3)  # noqa: S311 - no secret.

    def __iter__(self) -> Iterator[int]:
        return iter(self._random.sample(range(12), 12))


def epoch_sampler(rank: int = 0, world_size: int = 1) -> EpochSampler:
    return EpochSampler(12, seed=1, batch_size=2, rank=rank, world_size=world_size)


def random_sampler() -> Any:
    return embed_shuffle(DistributedRandomSampler(12, rank=0, world_size=1))


def weighted_sampler() -> Any:
    weights = [5.0, 5.0, *[1.0] * 6]
    return embed_shuffle(DistributedRandomSampler(8, rank=0, world_size=1, weights=weights), shuffle_last=True)


SAMPLERS: dict[str, Any] = {
    "none": lambda: None,
    "list": lambda: [3, 1, 2, 0, 7],
    "epoch": epoch_sampler,
    "random": random_sampler,
    "weighted": weighted_sampler,
}


@pytest.mark.filterwarnings("ignore:The source .* cannot begin at a position")
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("name", ["epoch", "random", "weighted"])
def test_its_epochs_are_resumed_at_any_step(name: str, alone: bool) -> None:  # noqa: FBT001 - a parameter.
    def make_loader() -> DataLoader[Any, Any]:
        sampler = SAMPLERS[name]()
        return DataLoader(sampler if alone else MapIterator(Looked(), sampler), batch_size=5, output_order="input")

    assert_resumes_exactly(make_loader, epochs=3)

    def make_pipeline() -> Pipeline[Any]:
        sampler = SAMPLERS[name]()
        builder: Any = PipelineBuilder().add_source(
            sampler if alone else MapIterator(Looked(), sampler), continuous=True
        )
        pipeline: Pipeline[Any] = builder.add_sink(2).build(num_threads=1)
        return pipeline

    assert_resumes_exactly(make_pipeline, epochs=3)


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_what_was_received_is_not_looked_up_again(name: str) -> None:
    def make() -> tuple[Looked, DataLoader[Any, Any]]:
        dataset = Looked()
        return dataset, DataLoader(MapIterator(dataset, SAMPLERS[name]()), output_order="input")

    _, loader = make()
    expected = list(loader)
    _, loader = make()
    assert list(islice(loader, 3)) == expected[:3]
    state = json.loads(json.dumps(loader.state_dict()))
    dataset, loader = make()
    loader.load_state_dict(state)
    assert list(loader) == expected[3:]
    assert dataset.asked == [item["index"] for item in expected[3:]]


def test_it_goes_on_with_other_ranks_and_batch_sizes() -> None:
    def make(rank: int, world_size: int, batch_size: int) -> DataLoader[Any, Any]:
        sampler = EpochSampler(13, batch_size=batch_size, rank=rank, world_size=world_size)
        return DataLoader(MapIterator(Looked(13), sampler), batch_size=batch_size, output_order="input")

    def indices(batch: list[dict[str, int]]) -> list[int]:
        return [item["index"] for item in batch]

    assert_resumes_exactly(make, world=(1, 2), batch=(1, 3), items=indices)


@pytest.mark.filterwarnings("ignore:The source .* cannot begin at a position")
def test_an_order_that_nobody_knows_is_found_by_its_items() -> None:
    def make() -> Pipeline[Any]:
        builder: Any = PipelineBuilder().add_source(MapIterator(list(range(12)), Drawn()), continuous=True)
        pipeline: Pipeline[Any] = builder.add_sink(2).build(num_threads=1)
        return pipeline

    assert_resumes_exactly(make, epochs=3, cuts=[cut for cut in range(39) if cut % 13 in range(1, 5)])


@pytest.mark.parametrize(
    "name", ["state_dict", "load_state_dict", "advance_state", "next_state", "merge_states", "iterate_from"]
)
def test_it_can_do_what_its_sampler_can(name: str) -> None:
    assert hasattr(MapIterator(Looked(), epoch_sampler()), name)
    assert not hasattr(MapIterator(Looked(), Drawn()), name)
    assert hasattr(MapIterator(Looked()), name) == (name == "iterate_from")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5,), "`mapping` must be an object with `__getitem__`, got 5"),
        ((type("Table", (), {"__getitem__": None})(),), "`mapping` must be a mapping or have a length if there is no"),
        (([1], 5), "`sampler` must be an iterable of keys or None, got 5"),
    ],
)
def test_mistakes(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        MapIterator(*arguments)
    assert message in str(caught.value)
