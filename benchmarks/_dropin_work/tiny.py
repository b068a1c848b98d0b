"""Tiny items: arrays as those of MNIST, in batches of 256."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measure import cpu_seconds, memory_mib

from loaders import Endless, make_loader

ITEMS, SIDE, BATCH = 60_000, 28, 256


class Arrays:
    """A dataset of small arrays with labels."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._pixels = rng.integers(256, size=(ITEMS, SIDE, SIDE), dtype=np.uint8)
        self._labels = rng.integers(10, size=ITEMS)

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self._pixels[index], int(self._labels[index])


def measure(*, loader: str, workers: int, seconds: float) -> dict[str, float]:
    """Take batches for some seconds, once the workers run."""
    batches = iter(make_loader(loader, Arrays(), workers, batch_sampler=Endless(ITEMS, BATCH)))
    warm = time.perf_counter() + seconds / 4
    while time.perf_counter() < warm:
        next(batches)
    cpu, begin, taken = cpu_seconds(), time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begin) < seconds:
        pixels, labels = next(batches)
        taken += len(labels)
    if tuple(pixels.shape) != (BATCH, SIDE, SIDE):
        raise SystemExit(f"a batch has the shape {tuple(pixels.shape)}")
    cpu = cpu_seconds() - cpu
    return {
        "items_per_second": taken / elapsed,
        "cpu_us_per_item": 1e6 * cpu / taken,
        "memory_mib": memory_mib(),
    }
