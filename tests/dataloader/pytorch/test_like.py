"""A loader of ours with the arguments of one of PyTorch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import Pairs, Parts, Squares, collate_sum, plain

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, RandomSampler  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "default": lambda: {"dataset": Squares()},
    "shuffled": lambda: {"dataset": Squares(), "batch_size": 4, "shuffle": True, "drop_last": True},
    "no batches": lambda: {"dataset": Squares(), "batch_size": None},
    "sampler": lambda: {"dataset": Squares(), "sampler": RandomSampler(range(9)), "batch_size": 2},
    "batch sampler": lambda: {"dataset": Squares(), "batch_sampler": Pairs(), "collate_fn": collate_sum},
    "iterable": lambda: {"dataset": Parts(), "batch_size": 3},
    "iterable without batches": lambda: {"dataset": Parts(), "batch_size": None},
    "workers": lambda: {"dataset": Squares(), "num_workers": 2, "prefetch_factor": 5, "persistent_workers": True},
}


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_the_batches_and_the_arguments_are_the_same(arguments: str) -> None:
    loader = DataLoader(**ARGUMENTS[arguments]())
    ours = PyTorchDataLoader.like(loader)
    for name in ("batch_size", "drop_last", "num_workers", "collate_fn", "prefetch_factor", "persistent_workers"):
        assert getattr(ours, name) == getattr(loader, name)
    torch.manual_seed(1)
    expected = [plain(batch) for batch in loader]
    torch.manual_seed(1)
    assert [plain(batch) for batch in ours] == expected


def test_it_takes_only_a_loader_of_torchs() -> None:
    with pytest.raises(TypeError, match=r"`loader` must be a torch.utils.data.DataLoader, got \[1\]"):
        PyTorchDataLoader.like([1])
