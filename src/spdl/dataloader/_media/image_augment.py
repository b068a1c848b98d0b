"""How training images are varied, one by one and mixed with each other."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from spdl._check import check_number, positive, refuse
from spdl._random_key import random_key
from spdl.dataloader._media.geometry import check_geometry
from spdl.dataloader._media.pixel_changes import (
    RandAugment,
    TrivialAugment,
    check_pixel_changes,
    make_changes,
    view_seed,
)
from spdl.io import ImageOptions, random_color_jitter


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
        vertical_flip: The probability that an image is mirrored upside down.
        quarter_turns: Whether images are turned by 0, 90, 180 or 270 degrees, each with the same probability. It comes
            first, then `vertical_flip`, then the crop or the resize, and `flip` at last.
        zoom: Resizes an image by a factor between these two, drawn uniformly, and cuts a piece of the loader's size out
            of it at a random place; an image that is smaller is put at a random place, and ``pad_value`` surrounds
            it. It needs ``scale=None``.
        zoom_from: The size at a factor of 1: ``"image"`` is the image's own, ``"fit"`` shows all of it in the loader's
            size, and ``"cover"`` fills that size.
        rotate: How far images are turned, in degrees: a number x for -x to x, of at most 180, or the least and the
            greatest angle. Clockwise is positive. With `translate`, `shear` and `affine_scale`, this is torchvision's
            ``RandomAffine`` around the middle of the image, after the crop and the flips. It is bilinear, or takes the
            nearest pixel with ``interpolation="nearest"``; ``pad_value`` fills what it uncovers.
        translate: How far they are shifted at most, in any direction: a share of the sides, or one for the width and
            one for the height.
        shear: How far they are sheared, along both axes, in degrees: a number x for -x to x, of at most 80, or the
            least and the greatest angle.
        affine_scale: The least and the greatest factor by which they are scaled. Greater ones than 1 show less.
        brightness, contrast, saturation: How far each may go: a number x for factors from 1 - x to 1 + x, or the least
            and the greatest factor; see `spdl.io.random_color_jitter`.
        hue: How far the hue may turn: a number x for -x to x, of at most 0.5, or the least and the greatest turn.
        mixup: Above 0, each image is blended with another one by a share drawn from the distribution
            Beta(mixup, mixup), and its label with the other's. 0.2 is usual.
        cutmix: Above 0, a rectangle of another image is put into each image, whose share of the area is drawn from
            Beta(cutmix, cutmix). 1 is usual. With `mixup` too, either is drawn with the same probability.
        num_classes: The number of classes, for mixed labels: they become float32 (B, num_classes), the shares of the
            classes. None takes the number of the source's ``classes``.
        policy: A `RandAugment` or `TrivialAugment`, which comes before the other changes of pixels. It also moves
            pixels, and ``targets`` with them.
        jitter: The probability that an image changes by `brightness`, `contrast`, `saturation` and `hue`.
        grayscale: The probability that an image becomes gray.
        blur: The probability of a Gaussian blur.
        blur_sigma: The least and the greatest standard deviation of a blur, in pixels of the result.
        blur_kernel: The pixels across which a blur weighs, an odd number. None takes a tenth of the shorter side,
            rounded down, and one more if that is even, as SimCLR does: 23 of 224 pixels.
        solarize, solarize_threshold: The probability that great values are inverted, and the least of these, 0 to 255.
        posterize, posterize_bits: The probability that all values keep only some upper bits, and how many of 8.
        equalize: The probability that the histogram of each channel is made even.
        autocontrast: The probability that the values of each channel are spread from 0 to 255.
        sharpness, sharpness_factor: The probability that the sharpness changes, and its factor: 0 smooths, 1 changes
            nothing, and 2 sharpens.
        erase: The probability that a random rectangle of an image is overwritten, as torchvision's ``RandomErasing``
            does, after `mean` and `std`.
        erase_scale, erase_ratio: The least and the greatest share of the image's area that such a rectangle has, and
            the least and the greatest ratio of its height to its width.
        erase_value: The value of its pixels in the batch, or one for each channel. 0 is black, or the mean if `mean` is
            given.
        size: The size of a view in pixels, if it is not the loader's: one side of a square, or width and height. Only
            for the loader's ``views``.

    The changes of pixels come after the resize, in the order of these fields: `policy`, the jitter, `grayscale`,
    `blur`, `solarize`, `posterize`, `equalize`, `autocontrast` and `sharpness`. Each gives what torchvision's function
    of the same name gives of the same bytes, to a level, or two for saturation, contrast and the blur: it cuts off
    fractions, which are rounded here. The probabilities are independent of each other.

    Raises:
        TypeError, ValueError: If a field is not as described; the message names it.

    Example:
        >>> ImageAugment(scale=(0.35, 1), flip=0).scale
        (0.35, 1)
    """

    scale: tuple[float, float] | None = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    vertical_flip: float = 0.0
    quarter_turns: bool = False
    zoom: tuple[float, float] | None = None
    zoom_from: Literal["image", "fit", "cover"] = "image"
    rotate: float | tuple[float, float] = 0.0
    translate: float | tuple[float, float] = 0.0
    shear: float | tuple[float, float] = 0.0
    affine_scale: tuple[float, float] = (1.0, 1.0)
    brightness: float | tuple[float, float] = 0.0
    contrast: float | tuple[float, float] = 0.0
    saturation: float | tuple[float, float] = 0.0
    hue: float | tuple[float, float] = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    num_classes: int | None = None
    policy: RandAugment | TrivialAugment | None = None
    jitter: float = 1.0
    grayscale: float = 0.0
    blur: float = 0.0
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    blur_kernel: int | None = None
    solarize: float = 0.0
    solarize_threshold: float = 128
    posterize: float = 0.0
    posterize_bits: int = 4
    equalize: float = 0.0
    autocontrast: float = 0.0
    sharpness: float = 0.0
    sharpness_factor: float = 2.0
    erase: float = 0.0
    erase_scale: tuple[float, float] = (0.02, 0.33)
    erase_ratio: tuple[float, float] = (0.3, 3.3)
    erase_value: float | tuple[float, ...] = 0.0
    size: int | tuple[int, int] | None = None

    @property
    def changes_colors(self) -> bool:
        """Whether colours change."""
        return any((self.brightness, self.contrast, self.saturation, self.hue))

    @property
    def mixes(self) -> bool:
        """Whether images are mixed."""
        return bool(self.mixup or self.cutmix)

    def __post_init__(self) -> None:
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
        check_geometry(self)
        check_pixel_changes(self)

    def steps(
        self, index: int, *, seed: int, epoch: int, size: tuple[int, int], view: int = 0
    ) -> list[tuple[str, float]]:
        """Return how the pixels of an image change, after its crop and flip.

        Args:
            index: The position of the image in the source.
            seed: The loader's seed.
            epoch: The number of the epoch.
            size: The width and height of the result.
            view: The number of the view, for the loader's ``views``.

        Returns:
            The name and the parameter of each step, in their order: ``"brightness"``, ``"contrast"``, ``"saturation"``
            and ``"sharpness"`` with their factor, ``"hue"`` with the turn, ``"blur"`` with the standard deviation,
            ``"solarize"`` with the threshold, ``"posterize"`` with the bits, ``"shear_x"`` and ``"shear_y"`` with the
            tangent, ``"translate_x"`` and ``"translate_y"`` with the pixels, ``"rotate"`` with the degrees against the
            clock, and ``"grayscale"``, ``"equalize"`` and ``"autocontrast"`` with 0.

        Raises:
            TypeError: If an argument is not an int, or two, or one is negative.

        Example:
            >>> ImageAugment(solarize=1).steps(7, seed=0, epoch=0, size=(224, 224))
            [('solarize', 128.0)]
        """
        steps: list[tuple[str, float]] = make_changes(self, [], seed=view_seed(seed, view), epoch=epoch).draw(
            index, *size
        )
        return steps


# Separates these random numbers from others of the same image.
_PURPOSE = 3

_SIDES = 4


class _MixShare(NamedTuple):
    """How much of an image stays, and where the other one is put; None blends the two."""

    own: float
    box: tuple[int, int, int, int] | None


class ImageMixer:
    def __init__(self, options: ImageOptions, augment: ImageAugment, seed: int, num_classes: int | None) -> None:
        self._augment = augment
        self._seed = seed
        classes = augment.num_classes or num_classes
        if classes is None:
            accepted = "given with `mixup` or `cutmix`, since the source has no `classes`"
            refuse(ValueError, "num_classes", accepted, None)
        self._num_classes = classes
        self._rows_first = options.layout == "NHWC"
        if augment.mixup and options.dtype == "uint8":
            refuse(ValueError, "dtype", "'float16' or 'float32' with `mixup`, which blends images", options.dtype)

    def mix(self, fields: dict[str, Any], epoch: int) -> dict[str, Any]:
        images = fields["image"]
        if not (isinstance(images, np.ndarray) and images.ndim == _SIDES):
            refuse(TypeError, "transform", "None or a function that returns images of one shape, to mix them", images)
        labels = _check_labels(fields["label"], self._num_classes)
        count = len(images)
        before = np.roll(np.arange(count), 1)
        one_hot = np.zeros((count, self._num_classes), np.float32)
        one_hot[np.arange(count), labels] = 1
        height, width = images.shape[1:3] if self._rows_first else images.shape[2:4]
        shares = [self._draw(epoch, int(index), width, height) for index in fields["index"]]
        mixed = np.empty_like(images)
        for place, (share, other) in enumerate(zip(shares, before, strict=True)):
            if share.box is None:
                np.multiply(images[place], images.dtype.type(share.own), out=mixed[place])
                mixed[place] += images[other] * images.dtype.type(1 - share.own)
                continue
            left, top, right, bottom = share.box
            mixed[place] = images[place]
            box = np.s_[top:bottom, left:right] if self._rows_first else np.s_[:, top:bottom, left:right]
            mixed[place][box] = images[other][box]
        own = np.array([share.own for share in shares], np.float32)[:, None]
        return {**fields, "image": mixed, "label": own * one_hot + (1 - own) * one_hot[before]}

    def _draw(self, epoch: int, index: int, width: int, height: int) -> _MixShare:
        augment = self._augment
        generator = random.Random(random_key(random_key(self._seed, epoch, index), _PURPOSE, 0))  # noqa: S311
        if augment.mixup and (not augment.cutmix or generator.random() < 0.5):  # noqa: PLR2004 - either is as likely.
            return _MixShare(generator.betavariate(augment.mixup, augment.mixup), None)
        # As in torchvision: a box whose sides are the same share of the image's, around any pixel, cut at the borders.
        half = 0.5 * (1 - generator.betavariate(augment.cutmix, augment.cutmix)) ** 0.5
        x, y = generator.randrange(width), generator.randrange(height)
        across, down = int(half * width), int(half * height)
        box = (max(x - across, 0), max(y - down, 0), min(x + across, width), min(y + down, height))
        return _MixShare(1 - (box[2] - box[0]) * (box[3] - box[1]) / (width * height), box)


def _check_labels(labels: Any, num_classes: int) -> Any:
    accepted = "ints, the numbers of classes, with `mixup` or `cutmix`"
    if not (isinstance(labels, np.ndarray) and labels.dtype == np.int64 and labels.ndim == 1):
        refuse(TypeError, "label", accepted, labels)
    if labels.min() < 0 or labels.max() >= num_classes:
        refuse(ValueError, "label", f"from 0 to {num_classes - 1}, as `num_classes` says", labels)
    return labels
