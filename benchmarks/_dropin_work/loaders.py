"""The loaders, by their names."""

from __future__ import annotations

from typing import Any


def make_loader(loader: str, dataset: Any, workers: int, **arguments: Any) -> Any:
    """Return a loader with PyTorch's arguments.

    Args:
        loader: ``"torch"``, or ``"torch spawn"`` for processes that are not forked; ``"spdl"`` for ours, ``"spdl
            threads"`` if it is to take threads whatever it finds, and ``"reference"`` for the function of spdl 0.8.0.
        dataset: The dataset.
        workers: How many workers.
        **arguments: The others.
    """
    if loader in {"spdl", "spdl threads"}:
        from spdl.dataloader import PyTorchDataLoader  # noqa: PLC0415 - each process has only its own loader.

        kind: Any = "thread" if loader == "spdl threads" else None
        return PyTorchDataLoader(dataset, num_workers=workers, workers=kind, **arguments)
    if loader == "reference":
        from spdl.dataloader import get_pytorch_dataloader  # noqa: PLC0415

        if "batch_sampler" in arguments:
            arguments["batch_size"] = None
        return get_pytorch_dataloader(dataset, num_workers=workers, **arguments)
    from torch.utils.data import DataLoader  # noqa: PLC0415

    context = "spawn" if loader == "torch spawn" else None
    return DataLoader(dataset, num_workers=workers, multiprocessing_context=context, **arguments)


class Endless:
    """A sampler that yields the lists of indices of batches, over and over.

    Args:
        items: How many items there are.
        size: How many of them a batch has.
    """

    def __init__(self, items: int, size: int) -> None:
        self._items = items
        self._size = size

    def __iter__(self) -> Any:
        first = 0
        while True:
            yield [(first + step) % self._items for step in range(self._size)]
            first += self._size

    def __len__(self) -> int:
        return 10**9
