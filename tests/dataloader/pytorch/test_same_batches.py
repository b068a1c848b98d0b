"""The batches are those of PyTorch's own class, over a table of datasets and arguments."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
from tests.dataloader.pytorch.datasets import (  # noqa: E402
    ITERABLES,
    MAPS,
    SIZE,
    EagerSampler,
    Pairs,
    Squares,
    collate_nothing,
    collate_sum,
    plain,
    seeded_generator,
)
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings(
    "ignore:This DataLoader will create",
    "ignore:This process .* is multi-threaded:DeprecationWarning",
    "ignore:Length of IterableDataset",
)


def _random(**arguments: Any) -> dict[str, Any]:
    return {"sampler": RandomSampler(range(SIZE), **arguments), "batch_size": 4}


# Made anew for each loader: they have states.
ORDERS: dict[str, Callable[[], dict[str, Any]]] = {
    "default": dict,
    "batches": lambda: {"batch_size": 4},
    "drop last": lambda: {"batch_size": 4, "drop_last": True},
    "large batches": lambda: {"batch_size": 100},
    "no batches": lambda: {"batch_size": None},
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "not shuffled": lambda: {"batch_size": 4, "shuffle": False},
    "by a generator": lambda: {"batch_size": 4, "shuffle": True, "generator": seeded_generator()},
    "no batches, shuffled": lambda: {"batch_size": None, "shuffle": True},
}
SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "list": lambda: {"sampler": [5, 3, 1, 1, 0], "batch_size": 2},
    "replacement": lambda: _random(replacement=True, num_samples=30),
    "more than one pass": lambda: _random(num_samples=50),
    "generator of its own": lambda: _random(generator=seeded_generator()),
    "subset": lambda: {"sampler": SubsetRandomSampler(range(0, SIZE, 2)), "batch_size": 4},
    "weights": lambda: {"sampler": WeightedRandomSampler([1.0] * 5 + [3.0] * 5, 15), "batch_size": 4},
    "distributed": lambda: {
        "sampler": DistributedSampler(Squares(), num_replicas=2, rank=1),
        "batch_size": 4,
    },
    "eager": lambda: {"sampler": EagerSampler(), "batch_size": 4},
    "eager, no batches": lambda: {"sampler": EagerSampler(), "batch_size": None},
    "of batches": lambda: {"batch_sampler": BatchSampler(SequentialSampler(range(SIZE)), 3, drop_last=False)},
    "of uneven batches": lambda: {"batch_sampler": Pairs()},
    "list of batches": lambda: {"batch_sampler": [[1, 2], [], [3], [4, 5, 6]], "collate_fn": collate_sum},
    "collated": lambda: {"batch_size": 4, "shuffle": True, "collate_fn": collate_sum},
    "nothing": lambda: {"batch_size": 4, "collate_fn": collate_nothing},
}
WORKERS: dict[str, dict[str, Any]] = {
    "caller": {},
    "1 thread": {"num_workers": 1, "workers": "thread"},
    "3 threads": {"num_workers": 3, "workers": "thread"},
    "threads, far ahead": {"num_workers": 2, "prefetch_factor": 7, "workers": "thread"},
    "threads that stay": {"num_workers": 2, "persistent_workers": True, "workers": "thread"},
}
PROCESSES: dict[str, dict[str, Any]] = {
    "processes": {"num_workers": 2, "workers": "process"},
    "processes that stay": {"num_workers": 3, "prefetch_factor": 1, "persistent_workers": True, "workers": "process"},
}
EVERY: dict[str, dict[str, Any]] = {**WORKERS, **PROCESSES}


def _epochs(make: Callable[..., Any], dataset: Any, arguments: dict[str, Any], *, number: int = 2) -> Any:
    """Return what some epochs yield, and what the global generator draws between and after."""
    torch.manual_seed(7)
    loader = make(dataset, **arguments)
    found: list[Any] = []
    for _ in range(number):
        found.append([plain(batch) for batch in loader])
        found.append(torch.rand(1).item())
    if hasattr(loader.dataset, "__len__"):
        found.append(len(loader))
    return found


def _torchs(workers: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for workers that torch's class has, too."""
    return {name: value for name, value in workers.items() if name != "workers"}


def _compare(dataset: Callable[[], Any], arguments: Callable[[], dict[str, Any]], workers: dict[str, Any]) -> None:
    expected = _epochs(DataLoader, dataset(), {**arguments(), **_torchs(workers)})
    assert _epochs(PyTorchDataLoader, dataset(), {**arguments(), **workers}) == expected


@cache
def _torchs_epochs(order: str, *, num_workers: int, persistent: bool) -> Any:
    arguments = {**ORDERS, **SAMPLERS}[order]()
    return _epochs(DataLoader, Squares(), {**arguments, "num_workers": num_workers, "persistent_workers": persistent})


def _compare_order(order: str, workers: dict[str, Any]) -> None:
    # Neither how many workers there are nor how far they run ahead changes the order. Whether there are some does.
    persistent = bool(workers.get("persistent_workers"))
    expected = _torchs_epochs(order, num_workers=min(1, workers.get("num_workers", 0)), persistent=persistent)
    assert _epochs(PyTorchDataLoader, Squares(), {**{**ORDERS, **SAMPLERS}[order](), **workers}) == expected


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("order", ORDERS)
def test_every_order(order: str, workers: str) -> None:
    _compare_order(order, WORKERS[workers])


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("dataset", MAPS)
def test_every_dataset_in_every_order(dataset: str, workers: str) -> None:
    for order, arguments in ORDERS.items():
        if dataset == "empty" and arguments().get("shuffle"):
            # torch's sampler takes no empty dataset.
            continue
        # The oracle has no workers here: its processes would take long to start for each case. A first epoch is the
        # same, and the global generator as well once that is over.
        expected = _epochs(DataLoader, MAPS[dataset](), arguments(), number=1)
        found = _epochs(PyTorchDataLoader, MAPS[dataset](), {**arguments(), **WORKERS[workers]}, number=1)
        assert found == expected, order


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler(sampler: str, workers: str) -> None:
    _compare_order(sampler, WORKERS[workers])


@pytest.mark.parametrize("workers", PROCESSES)
@pytest.mark.parametrize("sampler", ["more than one pass", "eager", "list of batches"])
def test_samplers_of_processes(sampler: str, workers: str) -> None:
    _compare_order(sampler, PROCESSES[workers])


@pytest.mark.parametrize("workers", EVERY)
def test_a_dataset_that_is_indexed_by_batches(workers: str) -> None:
    _compare(MAPS["tensors"], lambda: {"sampler": Pairs(), "batch_size": None}, EVERY[workers])


@pytest.mark.parametrize("workers", PROCESSES)
@pytest.mark.parametrize("dataset", MAPS)
def test_every_dataset_in_processes(dataset: str, workers: str) -> None:
    _compare(MAPS[dataset], lambda: {"batch_size": 4}, PROCESSES[workers])


@pytest.mark.parametrize("workers", EVERY)
@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("dataset", ["parts", "whole"])
def test_iterable_datasets(dataset: str, batch_size: int | None, workers: str) -> None:
    for drop_last in (False, True) if batch_size else (False,):
        _compare(ITERABLES[dataset], partial(dict, batch_size=batch_size, drop_last=drop_last), EVERY[workers])


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_in_any_order_the_batches_are_the_same_set(workers: Any) -> None:
    expected = sorted(str(plain(batch)) for batch in DataLoader(Squares(), 4))
    loader = PyTorchDataLoader(Squares(), 4, num_workers=3, in_order=False, workers=workers)
    assert sorted(str(plain(batch)) for batch in loader) == expected


def test_two_iterators_at_once_are_as_torchs() -> None:
    def interleave(make: Any) -> list[Any]:
        torch.manual_seed(1)
        loader = make(Squares(), 4, shuffle=True, num_workers=2)
        first, second = iter(loader), iter(loader)
        return [plain(next(it)) for it in (first, second, second, first, first, second)]

    assert interleave(PyTorchDataLoader) == interleave(DataLoader)


def test_an_iterator_is_of_torchs_kind_and_knows_its_length() -> None:
    loader = PyTorchDataLoader(Squares(), 4, num_workers=2)
    iterator = iter(loader)
    assert len(iterator) == len(loader) == 6
    assert isinstance(loader, DataLoader)
    assert iter(iterator) is iterator


def test_iterators_of_persistent_workers_are_the_same_object() -> None:
    loader = PyTorchDataLoader(Squares(), 4, num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    # What is left of the first epoch does not show in the second.
    again = iter(loader)
    assert again is iterator
    assert [plain(batch) for batch in again] == [plain(batch) for batch in DataLoader(Squares(), 4)]
