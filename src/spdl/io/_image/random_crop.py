"""Random crops and flips, which depend only on a seed, an epoch and the index of an image."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import check_number, refuse
from spdl.io._common.native import native
from spdl.io._image.draw_key import draw_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spdl.io._native import RandomCrop

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels, right and bottom exclusive."""

_PROBABILITY = "a number from 0 to 1"


@dataclass(frozen=True)
class RandomResizedCrop:
    """Random crops for a batch, one for each image; made by `random_resized_crop`.

    Attributes:
        indices: For each image, its index in the dataset.
        seed: The seed of the run.
        epoch: The number of the pass over the data.
        scale: The least and the greatest share of the image's area.
        ratio: The least and the greatest ratio of width to height.

    Example:
        >>> crop = random_resized_crop([7], seed=1, epoch=0)
        >>> ((left, top, right, bottom),) = crop.boxes([(500, 375)])
        >>> 0 <= left < right <= 500 and 0 <= top < bottom <= 375
        True
    """

    indices: tuple[int, ...]
    seed: int
    epoch: int
    scale: tuple[float, float]
    ratio: tuple[float, float]

    def boxes(self, sizes: Iterable[tuple[int, int]]) -> list[Box]:
        """Return the crops for images of these sizes.

        Args:
            sizes: The (width, height) of each image, in pixels.

        Returns:
            (left, top, right, bottom) for each image, right and bottom exclusive.

        Raises:
            ValueError: If there are more or fewer sizes than indices, or a size is not positive.
        """
        crop = self._to_native()
        given = list(sizes)
        if len(given) != len(self.indices):
            refuse(ValueError, "sizes", f"one size for each of the {len(self.indices)} indices", given)
        boxes = []
        for position, (index, (width, height)) in enumerate(zip(self.indices, given, strict=True)):
            if width < 1 or height < 1:
                refuse(ValueError, f"sizes[{position}]", "a positive width and height", (width, height))
            boxes.append(crop.draw(index, width, height))
        return boxes

    def _to_native(self) -> RandomCrop:
        return native.RandomCrop(
            seed=self.seed, epoch=self.epoch, scale=self.scale, ratio=self.ratio, indices=list(self.indices)
        )


def random_resized_crop(
    indices: Iterable[int],
    *,
    seed: int,
    epoch: int,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> RandomResizedCrop:
    """Return crops of random area and aspect ratio for ``load_image_batch(..., crop=...)``.

    They have the distribution of torchvision's ``RandomResizedCrop``. An area and the logarithm of an aspect ratio are
    drawn uniformly, up to ten times, until they fit into the image; then a position is drawn. If none fits, the crop is
    the largest centred one with an allowed ratio. The crop of an image depends only on `seed`, `epoch`, its index and
    its size: not on the batch, the order, the number of workers or other draws.

    Args:
        indices: For each image of the batch, its index in the dataset.
        seed: The seed of the run, from 0 to 2**64 - 1.
        epoch: The number of the pass over the data, from 0 to 2**64 - 1. Each epoch has other crops.
        scale: The least and the greatest share of the image's area.
        ratio: The least and the greatest ratio of width to height.

    Returns:
        An argument ``crop`` for `load_image_batch`, which draws one crop for each image.

    Raises:
        TypeError: If `seed`, `epoch` or an index is no integer, or a range is no pair of numbers.
        ValueError: If a number is out of range, or a range is empty.

    Example:
        >>> crop = random_resized_crop([17, 4], seed=1, epoch=0)
        >>> load_image_batch([photo, photo], width=224, height=224, mode="stretch", crop=crop).shape
        (2, 224, 224, 3)
    """
    area = _range("scale", scale, "two shares of an area, 0 < least <= greatest <= 1", most=1.0)
    aspect = _range("ratio", ratio, "two finite ratios of width to height, 0 < least <= greatest")
    key = draw_key(seed, epoch, indices)
    return RandomResizedCrop(key.indices, key.seed, key.epoch, area, aspect)


def random_flip(indices: Iterable[int], *, seed: int, epoch: int, probability: float = 0.5) -> list[bool]:
    """Draw which images to flip, for ``load_image_batch(..., flip=...)``.

    Args:
        indices: For each image of the batch, its index in the dataset.
        seed: The seed of the run, from 0 to 2**64 - 1.
        epoch: The number of the pass over the data, from 0 to 2**64 - 1.
        probability: The probability that an image is flipped, from 0 to 1.

    Returns:
        A bool for each image, independent of the crop that `random_resized_crop` draws for it.

    Raises:
        TypeError: If `seed`, `epoch` or an index is no integer, or `probability` no number.
        ValueError: If a number is out of range.

    Example:
        >>> random_flip(range(4), seed=1, epoch=0) == random_flip(range(4), seed=1, epoch=0)
        True
    """
    if not 0 <= check_number("probability", probability, _PROBABILITY) <= 1:
        refuse(ValueError, "probability", _PROBABILITY, probability)
    key = draw_key(seed, epoch, indices)
    return native.draw_flips(seed=key.seed, epoch=key.epoch, indices=list(key.indices), probability=probability)


def _range(name: str, value: Any, accepted: str, *, most: float = sys.float_info.max) -> tuple[float, float]:
    try:
        least, greatest = map(float, value)
    except (TypeError, ValueError):
        refuse(TypeError, name, accepted, value)
    if not 0 < least <= greatest <= most:
        refuse(ValueError, name, accepted, value)
    return least, greatest
