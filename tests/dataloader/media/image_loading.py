"""What tests of the image loader share: its options for small photos, and what its batches hold."""

from __future__ import annotations

from typing import Any

from spdl.dataloader import ImageBatch, ImageLoader

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

COUNT = 23

BROKEN = (1, 2, 8, 20)


def make(source: Any, batch_size: int = 4, **options: Any) -> ImageLoader:
    return ImageLoader(source, batch_size, **{"size": 16, "output": "numpy", "num_threads": 2, **options})


def contents(batches: Any) -> list[tuple[int, bytes]]:
    return [
        (int(index), image.tobytes())
        for batch in batches
        for index, image in zip(batch.index, batch.image, strict=True)
    ]


def contents_of(batch: ImageBatch) -> list[tuple[int, bytes]]:
    return contents([batch])


class Backwards:
    """An order as someone might write it, whose fingerprint is no property."""

    def __init__(self, size: int = 0, fingerprint: Any = "backwards") -> None:
        self.size = size
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return self.size

    def take(self, epoch: int, positions: Any, /) -> Any:
        return self.size - 1 - positions
