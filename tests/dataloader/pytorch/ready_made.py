"""The ready-made loaders that the programs for two ranks train with. Their items are their numbers."""

from __future__ import annotations

from typing import Any

import torch

from spdl.dataloader import DataLoader, ImageLoader
from spdl.source import EpochSampler, ImageList

__all__ = ["ITEMS", "KINDS", "make_loader", "numbers_of"]

ITEMS = 53
KINDS = ("images", "items")


def make_loader(kind: str) -> Any:
    """Return a loader of images whose labels are their numbers, or of the numbers."""
    if kind == "images":
        images = [(b"P6 1 1 255 abc", number) for number in range(ITEMS)]
        return ImageLoader(ImageList(images), 4, size=2, augment="train", shuffle=True, seed=4, num_threads=2)
    sampler = EpochSampler(ITEMS, batch_size=4, seed=4)
    return DataLoader(sampler, batch_size=4, aggregator=_to_tensor, output_order="input", num_threads=2)


def numbers_of(batch: Any) -> list[int]:
    """Return the numbers in a batch of either."""
    numbers: Any = batch.label if hasattr(batch, "label") else batch.flatten()
    return [int(number) for number in numbers]


def _to_tensor(numbers: list[int]) -> Any:
    return torch.tensor(numbers, dtype=torch.float32).view(-1, 1)
