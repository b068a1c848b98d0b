"""PyTorch's DataLoader with Pillow or OpenCV, in processes."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
from measure import BATCH
from photo import by_opencv, by_pillow
from steps import MEAN, STD
from torch.utils.data import DataLoader, default_collate

if TYPE_CHECKING:
    from collections.abc import Iterator


class Photos:
    """A dataset that loads one photo at a time. Its loading function is made in the worker."""

    def __init__(self, paths: list[str], library: str) -> None:
        self._paths = paths
        self._library = library
        self._load: Any = None

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Any:
        if self._load is None:
            self._load = by_opencv() if self._library == "opencv" else by_pillow()
        return torch.from_numpy(self._load(self._paths[index % len(self._paths)]))


class Endless:
    """A sampler that yields photo numbers for ever, one by one or in batches."""

    def __init__(self, step: str) -> None:
        self._step = step

    def __iter__(self) -> Iterator[Any]:
        return count() if self._step == "decode" else (range(it, it + BATCH) for it in count(step=BATCH))


def collate_normalised(photos: list[Any]) -> Any:
    """Make a batch of floats, in the worker."""
    batch = default_collate(photos).permute(0, 3, 1, 2).float()
    return batch.sub_(MEANS).div_(DEVIATIONS)


MEANS, DEVIATIONS = (torch.tensor(values).view(3, 1, 1) * 255 for values in (MEAN, STD))


@contextmanager
def open_loader(paths: list[str], step: str, workers: int, *, library: str) -> Iterator[Iterator[Any]]:
    """Load, collate and normalise in the workers."""
    torch.set_num_threads(1)
    single: dict[str, Any] = {"sampler": Endless(step), "batch_size": None}
    sampling = single if step == "decode" else {"batch_sampler": Endless(step)}
    dataset: Any = Photos(paths, library)
    loader = DataLoader[Any](
        dataset,
        num_workers=workers,
        multiprocessing_context="fork",
        collate_fn=collate_normalised if step == "normalise" else None,
        **sampling,
    )
    # The loader's workers end with the last reference to it.
    yield iter(loader)
