"""Inside workers, `torch.utils.data.get_worker_info` says which worker it is: in threads, too."""

from __future__ import annotations

import random
import threading
from threading import Barrier, Lock
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, IterableDataset, default_collate, get_worker_info  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

WORKERS = 2


class Asking:
    """Says which worker loads an item, once all workers load one."""

    def __init__(self, *, together: bool = False) -> None:
        self.barrier = Barrier(WORKERS) if together else None

    def __len__(self) -> int:
        return 2 * WORKERS

    def __getitem__(self, index: int) -> Any:
        if self.barrier is not None:
            self.barrier.wait(20)
        info = get_worker_info()
        assert info is not None
        return info.id, info.num_workers, info.seed, info.dataset is self


def as_it_is(items: Any) -> Any:
    """Make a batch of nothing but the items."""
    return items


def test_threads_are_workers_of_their_own() -> None:
    torch.manual_seed(3)
    dataset = Asking(together=True)
    loader = PyTorchDataLoader(dataset, None, num_workers=WORKERS, workers="thread", collate_fn=as_it_is)
    found = list(loader)
    torch.manual_seed(3)
    base_seed = torch.empty((), dtype=torch.int64).random_().item()
    for first in (0, WORKERS):
        assert sorted(found[first : first + WORKERS]) == [
            (worker, WORKERS, base_seed + worker, True) for worker in range(WORKERS)
        ]
    assert get_worker_info() is None


def test_elsewhere_there_is_no_worker() -> None:
    seen: list[Any] = []
    loading, asked = threading.Event(), threading.Event()

    class Waiting(Asking):
        def __getitem__(self, index: int) -> Any:
            loading.set()
            assert asked.wait(20)
            return super().__getitem__(index)

    iterator = iter(PyTorchDataLoader(Waiting(), None, num_workers=1, workers="thread", collate_fn=as_it_is))
    assert loading.wait(20)
    seen.append(get_worker_info())
    thread = threading.Thread(target=lambda: seen.append(get_worker_info()))
    thread.start()
    thread.join()
    asked.set()
    assert seen == [None, None]
    assert [info[0] for info in iterator] == [0] * len(Waiting())


def test_worker_processes_are_told_by_torch() -> None:
    def ask(make: Any, **arguments: Any) -> list[Any]:
        torch.manual_seed(3)
        return list(make(Asking(), None, num_workers=2, collate_fn=as_it_is, **arguments))

    found = ask(PyTorchDataLoader, workers="process")
    assert found == ask(DataLoader)
    # The numbers of the workers take turns, and each has a dataset of its own.
    assert [info[0] for info in found] == [0, 1] * WORKERS
    assert all(info[3] for info in found)


class Random:
    """Draws from every global generator."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        python = random.random()  # noqa: S311 - what datasets use.
        return torch.rand(1).item(), python, np.random.rand()  # noqa: NPY002 - as well.


def test_processes_draw_the_random_numbers_of_torchs() -> None:
    def draw(make: Any, **arguments: Any) -> list[Any]:
        torch.manual_seed(3)
        return list(make(Random(), None, num_workers=2, collate_fn=as_it_is, **arguments))

    assert draw(PyTorchDataLoader, workers="process") == draw(DataLoader)


class Shards(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Yields which worker iterates it."""

    def __iter__(self) -> Any:
        info = get_worker_info()
        assert info is not None
        # It is set while the thread may be another one's in between.
        self.mine = info.id
        for _ in range(4):
            now = get_worker_info()
            assert now is not None
            yield info.id, now.id, self.mine, now.dataset is self


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_each_worker_iterates_a_dataset_of_its_own(workers: Any) -> None:
    loader = PyTorchDataLoader(Shards(), None, num_workers=WORKERS, workers=workers, collate_fn=as_it_is)
    assert list(loader) == [(worker, worker, worker, True) for _ in range(4) for worker in range(WORKERS)]


class Noting:
    """Notes the workers that were initialised, in this process."""

    def __init__(self) -> None:
        self.noted: list[Any] = []
        self.lock = Lock()

    def __call__(self, worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        with self.lock:
            self.noted.append((worker, info.id, threading.get_ident() == threading.main_thread().ident))


def test_threads_are_initialised_once_each() -> None:
    noting = Noting()
    loader = PyTorchDataLoader(
        Asking(together=True), None, num_workers=WORKERS, workers="thread", worker_init_fn=noting
    )
    assert len(list(loader)) == 2 * WORKERS
    assert sorted(noting.noted) == [(worker, worker, False) for worker in range(WORKERS)]


def refuse(worker: int) -> None:
    """Fail to initialise a worker."""
    raise OSError(f"worker {worker} has no disk")


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_a_worker_that_cannot_be_initialised_is_an_error(workers: Any) -> None:
    loader = PyTorchDataLoader(Asking(), None, num_workers=1, workers=workers, worker_init_fn=refuse)
    with pytest.raises(OSError, match="worker 0 has no disk"):
        list(loader)


def test_batches_of_threads_are_in_no_shared_memory() -> None:
    def collate(items: list[Any]) -> Any:
        info = get_worker_info()
        return default_collate(items), info.id

    items = [torch.full((3,), float(number)) for number in range(8)]
    for batch in PyTorchDataLoader(items, batch_size=2, num_workers=2):
        assert not batch.is_shared()
    for batch, worker in PyTorchDataLoader(items, batch_size=2, num_workers=2, collate_fn=collate, workers="thread"):
        assert not batch.is_shared()
        assert worker in {0, 1}
    # Another process takes them from there.
    (batch,) = PyTorchDataLoader(items, batch_size=8, num_workers=1, workers="process")
    assert batch.is_shared()
