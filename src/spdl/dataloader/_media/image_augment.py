"""How training images are varied, in one record."""

from __future__ import annotations

from dataclasses import dataclass

from spdl._check import check_number, refuse
from spdl.io import random_flip, random_resized_crop

__all__ = ["ImageAugment"]


@dataclass(frozen=True)
class ImageAugment:
    """How `ImageLoader` varies the images of a training set.

    All random numbers depend on the loader's seed, the epoch and the position of the image in the source: not on
    threads, batches or ranks.

    Args:
        scale: The least and the greatest share of the image's area that a random crop takes; see
            `spdl.io.random_resized_crop`. None crops nothing: the image gets its size by the loader's ``mode``.
        ratio: The least and the greatest ratio of width to height of such a crop.
        flip: The probability that an image is mirrored left to right.

    Raises:
        TypeError, ValueError: If a field is not as described; the message names it.

    Example:
        >>> ImageAugment(scale=(0.35, 1), flip=0).scale
        (0.35, 1)
    """

    scale: tuple[float, float] | None = (0.08, 1.0)
    """The share of the area that random crops take."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """The ratio of width to height of random crops."""
    flip: float = 0.5
    """The probability of a flip."""

    def __post_init__(self) -> None:
        """Check the fields."""
        random_resized_crop([], seed=0, epoch=0, scale=self.scale or (1, 1), ratio=self.ratio)
        accepted = "a number from 0 to 1"
        if not 0 <= check_number("flip", self.flip, accepted) <= 1:
            refuse(ValueError, "flip", accepted, self.flip)
        random_flip([], seed=0, epoch=0, probability=self.flip)
