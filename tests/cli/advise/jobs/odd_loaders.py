"""Read loaders of every kind: started anew, kept, iterable, batched by the dataset, within the loop, failing."""

import hashlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

SEEN = hashlib.sha256()


class Numbers:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        if index == 77:
            raise KeyError(index)
        return torch.rand(3) + random.random() + index


class Grouped(Numbers):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [torch.full((2,), index) for index in indices]


class Stream(IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        yield from range(worker.id if worker else 0, 50, worker.num_workers if worker else 1)


class DrawsAsItGoes:
    """A sampler that takes its numbers from the generator that the loop uses, too."""

    def __len__(self) -> int:
        return 150

    def __iter__(self) -> Iterator[int]:
        for _ in range(150):
            yield random.randrange(60)


def read(name: str, loader: Any, epochs: int = 1) -> None:
    for _ in range(epochs):
        for batch in loader:
            SEEN.update(repr((batch, random.random())).encode())
    print(name, SEEN.hexdigest(), torch.rand(1).item(), random.random())


def main() -> None:
    torch.manual_seed(1)
    random.seed(1)
    read("within the loop", DataLoader(Numbers(70), batch_size=2, shuffle=True))
    read("grouped", DataLoader(Grouped(70), batch_size=4, num_workers=1))
    read("stream", DataLoader(Stream(), batch_size=4, num_workers=2))
    read("kept", DataLoader(Numbers(40), batch_size=4, num_workers=1, persistent_workers=True), 2)
    read("no batches", DataLoader(Numbers(40), batch_size=None, num_workers=1))
    read("drawing", DataLoader(Numbers(70), sampler=DrawsAsItGoes(), num_workers=1))
    with_generator = torch.Generator().manual_seed(3)
    read("generator", DataLoader(Numbers(70), shuffle=True, generator=with_generator, num_workers=1), 2)
    read("not forked", DataLoader(Numbers(20), batch_size=4, num_workers=1, multiprocessing_context="spawn"))
    try:
        read("failing", DataLoader(Numbers(100), batch_size=2, num_workers=1))
    except KeyError as error:
        print("KeyError", "Caught KeyError in DataLoader worker process 0" in str(error))
    batches = iter(DataLoader(Numbers(70), batch_size=2, num_workers=1))
    print(type(batches).__name__, len(batches), next(batches).shape, "torch" in sys.modules)


if __name__ == "__main__":
    main()
