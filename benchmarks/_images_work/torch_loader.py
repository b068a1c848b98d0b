"""PyTorch's DataLoader with Pillow, whose workers are kept from epoch to epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from measure import BATCH, SIZE, Figures, photos, whole_loader
from PIL import Image, ImageOps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Photos:
    """A dataset that loads one photo at a time."""

    def __init__(self, paths: list[str], transform: Callable[[Image.Image], Any]) -> None:
        self._paths = paths
        self._transform = transform

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Any:
        with Image.open(self._paths[index]) as file:
            image = self._transform(file.convert("RGB"))
        # A copy, because torch warns about Pillow's read-only memory.
        return torch.from_numpy(np.array(image))


class Batches:
    """A sampler of batches of photo numbers. The number of batches is set before each epoch."""

    def __init__(self, photos: int) -> None:
        self.images = 0
        self._photos = photos

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, self.images, BATCH):
            yield [index % self._photos for index in range(start, start + BATCH)]


def loader(*, folder: str, images: int, workers: int, resize: str = "", crop: bool = False) -> Figures:
    """Open, resize and collate. With `crop`, use torchvision's transforms."""
    torch.set_num_threads(1)
    paths = photos(folder)
    sampler = Batches(len(paths))
    transform = torchvision_crop() if crop else pillow_resize(resize)
    epochs = torch.utils.data.DataLoader(
        Photos(paths, transform),
        batch_sampler=sampler,
        num_workers=workers,
        persistent_workers=True,
        multiprocessing_context="fork",
    )

    def run(number: int) -> Iterator[int]:
        sampler.images = number
        for batch in epochs:
            yield len(batch)

    return whole_loader(run, images)


def pillow_resize(resize: str) -> Callable[[Image.Image], Image.Image]:
    """Return Pillow's resize of that mode and interpolation."""
    mode, interpolation = resize.split("-")
    resampling = Image.Resampling[interpolation.upper()]
    if mode == "pad":
        return lambda image: ImageOps.pad(image, (SIZE, SIZE), resampling)
    return lambda image: image.resize((SIZE, SIZE), resampling)


def torchvision_crop() -> Callable[[Image.Image], Image.Image]:
    """Return torchvision's random resized crop and flip, for Pillow images."""
    # There is no build for CPUs on PyPI. The transforms are Python code, and need only these two operators to exist.
    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor boxes) -> Tensor")
    from torchvision.transforms import v2  # noqa: PLC0415

    kept.append(operators)
    crop = v2.RandomResizedCrop(SIZE, scale=(0.08, 1.0), antialias=True)
    transform: Callable[[Image.Image], Image.Image] = v2.Compose([crop, v2.RandomHorizontalFlip()])
    return transform


kept: list[Any] = []
"""Keeps the operators' library alive, as they are gone when nothing holds it."""
