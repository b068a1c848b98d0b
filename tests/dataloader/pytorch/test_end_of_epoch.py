"""A state after the last batch, before the loop has seen the end: an empty rest, and then the next epoch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import Eager, Growing, plain

torch = pytest.importorskip("torch")

from spdl.dataloader import PyTorchDataLoader  # noqa: E402
from spdl.source import EpochSampler  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable


def _epoch_sampler(size: int) -> EpochSampler:
    return EpochSampler(size, seed=3, rank=0, world_size=1, batch_size=2)


class NoLength:
    """A sampler without a length, so nobody knows the end before it comes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __iter__(self) -> Any:
        return iter(self._inner)

    def state_dict(self) -> Any:
        return self._inner.state_dict()

    def load_state_dict(self, state: Any) -> None:
        self._inner.load_state_dict(state)


ORDERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "sampler": lambda size: {"sampler": _epoch_sampler(size), "batch_size": 2},
    "drop last": lambda size: {"sampler": _epoch_sampler(size), "batch_size": 2, "drop_last": True},
    "batch sampler": lambda size: {"batch_sampler": _epoch_sampler(size).batch_sampler},
    "no batches": lambda size: {"sampler": _epoch_sampler(size), "batch_size": None},
    "one batch": lambda size: {"sampler": _epoch_sampler(size), "batch_size": size},
    "no length": lambda size: {"sampler": NoLength(_epoch_sampler(size)), "batch_size": 2},
    "resets at its end": lambda size: {"sampler": Growing(size), "batch_size": 2},
    "resets at its last index": lambda size: {"sampler": Eager(size), "batch_size": 2},
}


def _make(order: str, size: int, workers: int) -> Any:
    return PyTorchDataLoader(list(range(size)), **ORDERS[order](size), num_workers=workers)


def _read(loader: Any) -> list[Any]:
    return [plain(batch) for batch in loader]


def _state_after(loader: Any, batches: int) -> Any:
    iterator = iter(loader)
    for _ in range(batches):
        next(iterator)
    return json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", [5, 6])
@pytest.mark.parametrize("order", ORDERS)
def test_the_next_epoch_follows_an_empty_rest(order: str, size: int, workers: int) -> None:
    whole = _make(order, size, workers)
    epochs = [_read(whole) for _ in range(3)]
    for cut in range(len(epochs[0]) + 1):
        state = _state_after(_make(order, size, workers), cut)
        other = _make(order, size, workers)
        other.load_state_dict(state)
        assert [_read(other) for _ in range(3)] == [epochs[0][cut:], *epochs[1:]]
        # Once more, through a state that was made of the rest.
        again = _make(order, size, workers)
        other = _make(order, size, workers)
        other.load_state_dict(state)
        again.load_state_dict(_state_after(other, len(epochs[0]) - cut))
        assert [_read(again) for _ in range(2)] == [[], epochs[1]]


@pytest.mark.parametrize("size", [5, 6])
def test_a_loop_that_tells_the_epoch_loses_none(size: int) -> None:
    state = _state_after(_make("sampler", size, 0), 3)
    whole = [_read(loader) for loader in [_make("sampler", size, 0)] for _ in range(2)]
    other = _make("sampler", size, 0)
    other.load_state_dict(state)
    found = []
    for epoch in range(2):
        other.sampler.set_epoch(epoch)
        found.append(_read(other))
    assert found == [[], whole[1]]


def test_a_sampler_with_a_state_that_is_told_another_epoch_is_an_error() -> None:
    other = _make("sampler", 6, 0)
    other.load_state_dict(_state_after(_make("sampler", 6, 0), 2))
    other.sampler.set_epoch(1)
    with pytest.raises(RuntimeError, match=r"middle of epoch 0 of .*EpochSampler.*`set_epoch\(1\)`"):
        next(iter(other))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("received", [0, 1, 2, 3])
@pytest.mark.parametrize("order", ["sampler", "batch sampler", "no batches"])
def test_an_epoch_after_one_that_was_left_goes_on(order: str, received: int, workers: int) -> None:
    """The sampler is still in the middle of the epoch that was left, until the first index of the next is taken."""
    loader, whole = _make(order, 6, workers), _make(order, 6, workers)
    for it in (loader, whole):
        next(iter(it))
    state = _state_after(loader, received)
    other = _make(order, 6, workers)
    other.load_state_dict(state)
    assert _read(other) == _read(whole)[received:]
    assert _read(other) == _read(whole)
