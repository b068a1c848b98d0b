"""The first batch of a dataset of very many paths."""

from __future__ import annotations

import time
from importlib import import_module

from measure import memory_mib

from loaders import make_loader

PATHS, BATCH = 1_200_000, 32


class Paths:
    """A dataset that lists its files, and returns the length of a path."""

    def __init__(self) -> None:
        self._paths = [f"/data/train/n{index // 1300:08d}/n{index // 1300:08d}_{index}.JPEG" for index in range(PATHS)]

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> int:
        return len(self._paths[index])


def measure(*, loader: str, workers: int, shuffle: bool) -> dict[str, float]:
    """Make a loader and take its first batch. Imports are not counted."""
    dataset = Paths()
    import_module("torch.utils.data")
    # The imports that the first use of each loader needs.
    next(iter(make_loader(loader, range(1), 1)))
    begin = time.perf_counter()
    batches = iter(make_loader(loader, dataset, workers, batch_size=BATCH, shuffle=shuffle))
    first = next(batches)
    elapsed = time.perf_counter() - begin
    if len(first) != BATCH:
        raise SystemExit(f"the first batch has {len(first)} items")
    return {"first_batch_ms": 1000 * elapsed, "memory_mib": memory_mib()}
