"""Damaged states: any field of a real state that is removed or replaced is refused when it is loaded, or has no effect.

What remains is the user's own: the numbers inside the state of a sampler or dataset of the user's.
"""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import SIZE, Counting, Learning, Parts, Squares, Walk, plain, seeded_generator

torch = pytest.importorskip("torch")
import numpy as np  # noqa: E402
from torch.utils.data import RandomSampler  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402
from spdl.source import EpochSampler  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_REMOVED = object()
VALUES: tuple[object, ...] = (_REMOVED, None, "x", [], {}, -1, 1.5, True, 10**30)


class Drawing:
    """A sampler that draws from Python's and NumPy's global generators."""

    def __iter__(self) -> Iterator[int]:
        order = [*range(8), *np.random.permutation(8).tolist()]  # noqa: NPY002 - what samplers use.
        random.shuffle(order)
        yield from order


class Steps:
    """A sampler whose iterators save their states."""

    def __iter__(self) -> Any:
        return _Steps()


class _Steps:
    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.at >= 12:
            raise StopIteration
        self.at += 1
        return self.at - 1

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def _epochs() -> EpochSampler:
    return EpochSampler(SIZE, rank=0, world_size=1, batch_size=4)


MAKES: dict[str, Callable[[], Any]] = {
    "in order": lambda: PyTorchDataLoader(Squares(), 4),
    "shuffled": lambda: PyTorchDataLoader(Squares(), 4, shuffle=True),
    "by a generator": lambda: PyTorchDataLoader(Squares(), 4, shuffle=True, generator=seeded_generator()),
    "by a sampler's generator": lambda: PyTorchDataLoader(
        Squares(), 4, sampler=RandomSampler(range(SIZE), generator=seeded_generator())
    ),
    "distributed": lambda: PyTorchDataLoader(
        Squares(), 4, sampler=DistributedSampler(range(SIZE), num_replicas=1, rank=0)
    ),
    "epochs": lambda: PyTorchDataLoader(Squares(), 4, sampler=_epochs()),
    "epochs in batches": lambda: PyTorchDataLoader(Squares(), batch_sampler=_epochs().batch_sampler),
    "drawing": lambda: PyTorchDataLoader(Squares(), 4, sampler=Drawing()),
    "an iterator's state": lambda: PyTorchDataLoader(Squares(), 4, sampler=Steps()),
    "a dataset's state": lambda: PyTorchDataLoader(Learning(), 4),
    "threads": lambda: PyTorchDataLoader(Squares(), 4, shuffle=True, num_workers=1, in_order=False),
    "iterable": lambda: PyTorchDataLoader(Parts(), 4),
    "iterable, counting": lambda: PyTorchDataLoader(Counting(), 4),
    "iterable, by its iterator": lambda: PyTorchDataLoader(Walk(), 4),
    "iterable, 2 threads": lambda: PyTorchDataLoader(Counting(), 4, num_workers=2, workers="thread"),
}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict) and path[-1:] != ("iterator",):
        for key in value:
            yield from _paths(value[key], (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _paths(each, (*path, number))


def _is_its_own(path: tuple[Any, ...]) -> bool:
    """Return whether a path leads into the state of a sampler or dataset, which checks it itself or does not."""
    return (
        "state" in path[:-1] or path[:-1] == ("dataset",) or (path[:2] == ("epoch", "workers") and path[3:5] == (1, 1))
    )


def _spoilt(state: Any, path: tuple[Any, ...], value: object) -> Any:
    spoilt = copy.deepcopy(state)
    where = spoilt
    for key in path[:-1]:
        where = where[key]
    if value is _REMOVED:
        del where[path[-1]]
    else:
        where[path[-1]] = copy.deepcopy(value)
    return spoilt


def _seed() -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002 - what samplers use.


def _state(make: Callable[[], Any], batches: int | None) -> Any:
    loader = make()
    iterator = iter(loader)
    for _ in range(100 if batches is None else batches):
        if next(iterator, None) is None:
            break
    return json.loads(json.dumps(loader.state_dict()))


def _read(make: Callable[[], Any], state: Any) -> Any:
    loader = make()
    loader.load_state_dict(copy.deepcopy(state))
    return lambda: [[plain(batch) for batch in loader] for _ in range(2)]


@pytest.mark.parametrize("batches", [0, 1, 2, None])
@pytest.mark.parametrize("name", MAKES)
def test_a_field_that_is_damaged_is_refused_or_has_no_effect(name: str, batches: int | None) -> None:
    make = MAKES[name]
    _seed()
    good = _state(make, batches)
    _seed()
    expected = _read(make, good)()
    silent = []
    for path in _paths(good):
        if _is_its_own(path):
            continue
        for value in VALUES:
            spoilt = _spoilt(good, path, value)
            if spoilt == good:
                continue
            _seed()
            try:
                read = _read(make, spoilt)
            except (ValueError, TypeError):
                continue
            # Nothing that was loaded may fail later.
            if read() != expected:
                silent.append((path, value))
    assert silent == []


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state.update(_iterator_finished="x"), "`_iterator_finished` must be true or false.*got 'x'"),
        (lambda state: state.update(epoch=None), "`samplers` must be a list .* of 2 samplers, got None"),
        (lambda state: state.update(dataset={"a": 1}), r"`dataset` must be None, got {'a': 1}"),
        (lambda state: state["epoch"].update(received=10**6), "up to the 2 that were drawn, got 1000000"),
        (lambda state: state["epoch"]["sampling"].update(position=-1), r"sampling.position` must be .*, got -1"),
        (lambda state: state["epoch"]["sampling"].update(drawn=1.5), r"sampling.drawn` must be .*, got 1.5"),
        (lambda state: state["epoch"]["sampling"]["parts"][1].pop("state"), r"parts\[1\]` must be a dict with 'state'"),
        (
            lambda state: state["epoch"]["sampling"]["parts"][1]["state"].update(received=3),
            "sampler, a .*BatchSampler, does not take its part",
        ),
    ],
)
def test_the_message_names_the_field(spoil: Callable[[Any], object], message: str) -> None:
    state = _state(MAKES["epochs"], 2)
    spoil(state)
    loader = MAKES["epochs"]()
    with pytest.raises(ValueError, match=f"The state is damaged[:,] .*{message}"):
        loader.load_state_dict(state)
    # Nothing of it is left behind.
    assert len(list(loader)) == 6


def test_a_state_of_a_loader_with_a_generator_needs_one() -> None:
    state = _state(MAKES["by a sampler's generator"], 2)
    loader = PyTorchDataLoader(Squares(), 4, sampler=RandomSampler(range(SIZE)))
    with pytest.raises(ValueError, match="made as this one"):
        loader.load_state_dict(state)
