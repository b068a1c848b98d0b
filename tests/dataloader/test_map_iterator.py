from __future__ import annotations

from typing import Any

import pytest

from spdl.dataloader import DataLoader, MapIterator
from spdl.source import DistributedDeterministicSampler


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
