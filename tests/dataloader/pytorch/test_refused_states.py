"""States that a loader refuses: damaged ones, and those of other data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import Parts, Squares

torch = pytest.importorskip("torch")

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

MISTAKES: dict[str, tuple[Callable[[dict[str, Any]], Any], type[Exception], str]] = {
    "no dict": (lambda _: [1], TypeError, "`state_dict` must be a dict"),
    "something else": (
        lambda _: {"model": 3},
        ValueError,
        "is not a state .*, and this is a PyTorchDataLoader",
    ),
    "truncated": (
        lambda state: {**state, "epoch": {"received": 1}},
        ValueError,
        "is damaged: its 'checksum' is",
    ),
    "a key is missing": (
        lambda state: {key: value for key, value in state.items() if key != "samplers"},
        ValueError,
        "is damaged: its 'checksum' is",
    ),
    "newer": (lambda state: {**state, "version": 99}, ValueError, "version 99, and .* reads versions up to 1"),
    "a version that is none": (lambda state: {**state, "version": "1"}, ValueError, "has no version"),
    "a number that is none": (
        lambda state: {**state, "epoch": {**state["epoch"], "received": "1"}},
        ValueError,
        "damaged: its 'checksum' is",
    ),
    "a negative number": (
        lambda state: {**state, "epoch": {**state["epoch"], "received": -1}},
        ValueError,
        "damaged: its 'checksum' is",
    ),
    "generator that is none": (
        lambda state: {**state, "epoch": {**state["epoch"], "generator": "xyz"}},
        ValueError,
        "damaged: its 'checksum' is",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_bad_states_are_refused(mistake: str) -> None:
    def make() -> Any:
        return PyTorchDataLoader(Squares(), 4, shuffle=True, generator=torch.Generator().manual_seed(5))

    loader = make()
    next(iter(loader))
    spoil, kind, message = MISTAKES[mistake]
    other = make()
    with pytest.raises(kind, match=message):
        other.load_state_dict(spoil(json.loads(json.dumps(loader.state_dict()))))
    # Nothing of it is left behind.
    assert len(list(other)) == 6


@pytest.mark.parametrize(
    ("difference", "arguments"),
    [
        ("length", {"dataset": list(range(9))}),
        ("dataset", {"dataset": Squares()}),
        ("batch_size", {"batch_size": 5}),
        ("samplers", {"shuffle": True}),
        ("drop_last", {"drop_last": True}),
    ],
)
def test_the_state_of_other_data_names_both(difference: str, arguments: dict[str, Any]) -> None:
    loader = PyTorchDataLoader(list(range(8)), 2)
    other = PyTorchDataLoader(**{"dataset": list(range(8)), "batch_size": 2, **arguments})
    with pytest.raises(
        ValueError,
        match=f"other data or with other arguments: it had {difference}=.*, and this loader has {difference}=",
    ):
        other.load_state_dict(loader.state_dict())


def test_another_number_of_copies_is_refused() -> None:
    state = PyTorchDataLoader(Parts(), 2, num_workers=2).state_dict()
    with pytest.raises(ValueError, match=r"it had copies=2, and this loader has copies=1"):
        PyTorchDataLoader(Parts(), 2, num_workers=1).load_state_dict(state)
