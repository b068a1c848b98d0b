"""How training images are varied, in one record."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spdl._check import check_number, positive, refuse
from spdl.io import random_color_jitter, random_flip, random_resized_crop

__all__ = ["ImageAugment"]


@dataclass(frozen=True)
class ImageAugment:
    """How `ImageLoader` varies the images of a training set.

    All random numbers depend on the loader's seed, the epoch and the position of the image in the source: not on
    threads, batches or ranks.

    Mixing needs images of a float dtype, labels that are numbers of classes, and ``num_classes``. It pairs each image
    with the one before it in the batch (the first with the last), as torchvision's ``MixUp`` and ``CutMix`` do. So the
    pairs depend on the batch; how much of each is taken depends on the image.

    Args:
        scale: The least and the greatest share of the image's area that a random crop takes; see
            `spdl.io.random_resized_crop`. None crops nothing: the image gets its size by the loader's ``mode``.
        ratio: The least and the greatest ratio of width to height of such a crop.
        flip: The probability that an image is mirrored left to right.
        brightness: How far brightness may go: a number x for factors from 1 - x to 1 + x, or the least and the greatest
            factor; see `spdl.io.random_color_jitter`.
        contrast: The same for contrast.
        saturation: The same for saturation.
        hue: How far the hue may turn: a number x for -x to x, of at most 0.5, or the least and the greatest turn.
        mixup: Above 0, each image is blended with another one by a share drawn from the distribution
            Beta(mixup, mixup), and its label with the other's. 0.2 is usual.
        cutmix: Above 0, a rectangle of another image is put into each image, whose share of the area is drawn from
            Beta(cutmix, cutmix). 1 is usual. With `mixup` too, either is drawn with the same probability.
        num_classes: The number of classes, for mixed labels: they become float32 (B, num_classes), the shares of the
            classes. None takes the number of the source's ``classes``.

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
    brightness: float | tuple[float, float] = 0.0
    """How far brightness may go."""
    contrast: float | tuple[float, float] = 0.0
    """How far contrast may go."""
    saturation: float | tuple[float, float] = 0.0
    """How far saturation may go."""
    hue: float | tuple[float, float] = 0.0
    """How far the hue may turn."""
    mixup: float = 0.0
    """The parameter of mixup; 0 is none."""
    cutmix: float = 0.0
    """The parameter of CutMix; 0 is none."""
    num_classes: int | None = None
    """The number of classes, for mixed labels."""

    @property
    def changes_colors(self) -> bool:
        """Whether colours change."""
        return any((self.brightness, self.contrast, self.saturation, self.hue))

    @property
    def mixes(self) -> bool:
        """Whether images are mixed."""
        return bool(self.mixup or self.cutmix)

    def __post_init__(self) -> None:
        """Check the fields."""
        random_color_jitter(
            [],
            seed=0,
            epoch=0,
            brightness=self.brightness,
            contrast=self.contrast,
            saturation=self.saturation,
            hue=self.hue,
        )
        for name, value in (("mixup", self.mixup), ("cutmix", self.cutmix)):
            wanted = "a finite number of at least 0"
            if not 0 <= check_number(name, value, wanted) < math.inf:
                refuse(ValueError, name, wanted, value)
        if self.num_classes is not None:
            positive("num_classes", self.num_classes)
        random_resized_crop([], seed=0, epoch=0, scale=self.scale or (1, 1), ratio=self.ratio)
        accepted = "a number from 0 to 1"
        if not 0 <= check_number("flip", self.flip, accepted) <= 1:
            refuse(ValueError, "flip", accepted, self.flip)
        random_flip([], seed=0, epoch=0, probability=self.flip)
