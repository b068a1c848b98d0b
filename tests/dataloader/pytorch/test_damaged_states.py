"""Damaged states: a state of which any field was removed or replaced is refused when it is loaded."""

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
def test_a_state_of_which_anything_was_removed_or_replaced_is_refused(name: str, batches: int | None) -> None:
    make = MAKES[name]
    _seed()
    good = _state(make, batches)
    _seed()
    expected = _read(make, good)()
    accepted = []
    for path in _paths(good):
        for value in VALUES:
            spoilt = _spoilt(good, path, value)
            if spoilt == good:
                continue
            try:
                make().load_state_dict(spoilt)
            except (ValueError, TypeError):
                continue
            accepted.append((path, value))
    assert {path for path, _ in accepted} <= {("_iterator_finished",)}
    # Libraries change that one, and it has no effect.
    _seed()
    assert _read(make, {**good, "_iterator_finished": not good["_iterator_finished"]})() == expected


def test_nothing_of_a_refused_state_is_left_behind() -> None:
    state = _state(MAKES["epochs"], 2)
    state["epoch"]["sampling"]["parts"][1]["state"].update(received=3)
    loader = MAKES["epochs"]()
    with pytest.raises(ValueError, match=r"`state_dict` is damaged: its 'checksum' is .*removed or replaced"):
        loader.load_state_dict(state)
    assert len(list(loader)) == 6


def test_a_sampler_may_refuse_its_part() -> None:
    state = _state(MAKES["epochs"], 2)
    sampler = EpochSampler(SIZE, rank=0, world_size=1, batch_size=4, seed=1)
    loader = PyTorchDataLoader(Squares(), 4, sampler=sampler)
    with pytest.raises(ValueError, match=r"sampler, a .*BatchSampler, does not take its part"):
        loader.load_state_dict(state)
    assert len(list(loader)) == 6


def test_a_state_of_a_loader_with_a_generator_needs_one() -> None:
    state = _state(MAKES["by a sampler's generator"], 2)
    loader = PyTorchDataLoader(Squares(), 4, sampler=RandomSampler(range(SIZE)))
    with pytest.raises(ValueError, match=r"it had generators=\[.*, and this loader has generators=\["):
        loader.load_state_dict(state)
