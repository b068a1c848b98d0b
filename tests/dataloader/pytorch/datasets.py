"""Datasets, samplers and functions for the tests of the loader with PyTorch's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, IterableDataset, Subset, TensorDataset, get_worker_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 23


class Squares:
    """Yields tensors with labels."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not 0 <= index < SIZE:
            raise IndexError(index)
        return torch.tensor([index, index * index]), index


class Learning(Squares):
    """A map-style dataset with a state of its own."""

    level = 0

    def state_dict(self) -> dict[str, int]:
        return {"level": self.level}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.level = state["level"]


class Records:
    """Yields dicts of many types."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "name": f"item {index}",
            "number": index / 2,
            "pixels": np.full((2, 3), index, np.uint8),
            "pair": (index, [torch.tensor(index)]),
        }


class InBatches(Squares):
    """Loads a batch in one call."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class Parts(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Is divided by its workers."""

    def __init__(self, size: int = 24) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.size, step))


class Whole(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Is repeated by each worker, and has a length."""

    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor([number]) for number in range(10))


class Counting(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Saves its own state."""

    def __init__(self, size: int = 24) -> None:
        self.size = size
        self.position = 0

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        while self.position < len(range(first, self.size, step)):
            self.position += 1
            yield first + step * (self.position - 1)
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


class Walk(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Its iterators save their own states, and say how often they were asked for an item."""

    def __iter__(self) -> Iterator[int]:
        return Walker()


class Walker:
    """Counts to 20, in steps that grow."""

    def __init__(self) -> None:
        self.at = 0
        self.asked = 0

    def __iter__(self) -> Walker:
        return self

    def __next__(self) -> int:
        if self.at >= 20:
            raise StopIteration
        self.asked += 1
        self.at += 1
        return self.at

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class EagerSampler:
    """Draws its order from torch's global generator when it is asked for an iterator."""

    def __iter__(self) -> Iterator[int]:
        order: list[int] = torch.randperm(SIZE).tolist()
        return iter(order)

    def __len__(self) -> int:
        return SIZE


class Pairs:
    """A batch sampler of two batch sizes, in an order of Python's generator."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(self.epoch, SIZE))
        yield order[:2]
        yield from ([index] for index in order[2:9])
        yield order[9:]

    def __len__(self) -> int:
        return 9


class Growing:
    """A sampler that saves its own state, and whose order nobody can know otherwise."""

    def __init__(self, size: int = SIZE) -> None:
        self.size = size
        self.begin = 0
        self.given = 0

    def __iter__(self) -> Iterator[int]:
        while self.given < self.size:
            self.given += 1
            yield (self.begin + self.given) % self.size
        self.given = 0
        self.begin += 5

    def __len__(self) -> int:
        return self.size

    def state_dict(self) -> dict[str, int]:
        return {"begin": self.begin, "given": self.given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.begin, self.given = state["begin"], state["given"]


class Eager(Growing):
    """Is ready for its next epoch as soon as it yields the last index, and not when it ends."""

    def __iter__(self) -> Iterator[int]:
        for given in range(self.given, self.size):
            index = (self.begin + given) % self.size
            self.given = (given + 1) % self.size
            self.begin += 0 if self.given else 1
            yield index


def collate_sum(items: list[Any]) -> Any:
    """Make a batch that is no tensor."""
    return sum(index for _, index in items), len(items)


def collate_nothing(_items: list[Any]) -> None:
    """Make None of a batch."""


MAPS: dict[str, Callable[[], Any]] = {
    "squares": Squares,
    "records": Records,
    "in batches": InBatches,
    "list": lambda: list(range(SIZE)),
    "subset": lambda: Subset(Squares(), range(3, 20)),
    "concatenated": lambda: ConcatDataset([Squares(), Squares()]),
    "tensors": lambda: TensorDataset(torch.arange(SIZE), torch.arange(SIZE) * 2),
    "empty": list,
}

ITERABLES: dict[str, Callable[[], Any]] = {"parts": Parts, "whole": Whole, "counting": Counting, "walk": Walk}


def plain(batch: Any) -> Any:
    """Return a batch as lists and numbers that can be compared, with the types of tensors."""
    if isinstance(batch, torch.Tensor):
        return str(batch.dtype), batch.tolist()
    if isinstance(batch, np.ndarray):
        return str(batch.dtype), batch.tolist()
    if isinstance(batch, dict):
        return {key: plain(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch).__name__, [plain(value) for value in batch]
    return batch


def seeded_generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)
