"""Changes to the pixels of training images: the fields of `ImageAugment` about them, as native code takes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._check import check_int, check_number, positive, refuse
from spdl._random_key import random_key
from spdl.io import ImageOptions, random_color_jitter
from spdl.io._shared import PIXEL_FORMATS, erase_rectangles, make_pixel_augment

if TYPE_CHECKING:
    from spdl.dataloader._media.image_augment import ImageAugment


@dataclass(frozen=True)
class RandAugment:
    """RandAugment: operations of one magnitude, drawn from a table (Cubuk et al., 2020).

    The table, and what each operation does, are those of torchvision's ``RandAugment``: nothing, shears, translations,
    rotation, brightness, saturation ("Color"), contrast, sharpness, posterize, solarize, autocontrast and equalize. All
    are as likely, and half of the time those with a direction go the other way. Shears, translations and rotations take
    the nearest pixel, and black from outside of the image.

    Args:
        num_ops: The operations of each image, one after the other.
        magnitude: Their magnitude, from 0 to ``num_magnitude_bins - 1``.
        num_magnitude_bins: How many magnitudes the ranges of the table are divided into.

    Raises:
        TypeError, ValueError: If a field is not as described; the message names it.

    Example:
        >>> from spdl.dataloader import ImageAugment
        >>> ImageAugment(policy=RandAugment(magnitude=7)).policy
        RandAugment(num_ops=2, magnitude=7, num_magnitude_bins=31)
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31

    def __post_init__(self) -> None:
        positive("num_ops", self.num_ops)
        positive("num_magnitude_bins", self.num_magnitude_bins)
        check_int("magnitude", self.magnitude, least=0, most=self.num_magnitude_bins - 1)


@dataclass(frozen=True)
class TrivialAugment:
    """TrivialAugment: one operation of any magnitude, drawn from a table (Müller and Hutter, 2021).

    The table is that of torchvision's ``TrivialAugmentWide``. It has the operations of `RandAugment`, which go further.

    Args:
        num_magnitude_bins: How many magnitudes the ranges of the table are divided into.

    Raises:
        TypeError, ValueError: If it is not an int of at least 1.

    Example:
        >>> from spdl.dataloader import ImageAugment
        >>> ImageAugment(policy=TrivialAugment()).policy
        TrivialAugment(num_magnitude_bins=31)
    """

    num_magnitude_bins: int = 31

    def __post_init__(self) -> None:
        positive("num_magnitude_bins", self.num_magnitude_bins)


_PROBABILITIES = (
    "jitter",
    "grayscale",
    "blur",
    "solarize",
    "posterize",
    "equalize",
    "autocontrast",
    "sharpness",
)
_COLORS = ("brightness", "contrast", "saturation", "hue")
_MOST_KERNEL = 1001
_MOST_BITS = 8
_WHITE = 255


def check_pixel_changes(augment: ImageAugment) -> None:
    for name in (*_PROBABILITIES, "erase"):
        check_probability(name, getattr(augment, name))
    if not (augment.policy is None or isinstance(augment.policy, RandAugment | TrivialAugment)):
        refuse(TypeError, "policy", "a RandAugment, a TrivialAugment or None", augment.policy)
    check_range("blur_sigma", augment.blur_sigma)
    if augment.blur_kernel is not None:
        accepted = f"an odd int from 3 to {_MOST_KERNEL}, or None"
        kernel = check_int("blur_kernel", augment.blur_kernel, least=3, most=_MOST_KERNEL, accepted=accepted)
        if not kernel % 2:
            refuse(ValueError, "blur_kernel", accepted, kernel)
    accepted = f"a number from 0 to {_WHITE}"
    if not 0 <= check_number("solarize_threshold", augment.solarize_threshold, accepted) <= _WHITE:
        refuse(ValueError, "solarize_threshold", accepted, augment.solarize_threshold)
    check_int("posterize_bits", augment.posterize_bits, least=0, most=_MOST_BITS)
    accepted = "a finite number of at least 0"
    if not 0 <= check_number("sharpness_factor", augment.sharpness_factor, accepted) < math.inf:
        refuse(ValueError, "sharpness_factor", accepted, augment.sharpness_factor)
    check_range("erase_scale", augment.erase_scale, most=1)
    check_range("erase_ratio", augment.erase_ratio)


def check_probability(name: str, value: object) -> None:
    accepted = "a number from 0 to 1"
    if not 0 <= check_number(name, value, accepted) <= 1:
        refuse(ValueError, name, accepted, value)


def check_range(name: str, value: Any, *, most: float = math.inf) -> None:
    accepted = f"two numbers, 0 < least <= greatest{'' if most == math.inf else f' <= {most}'}"
    if not (isinstance(value, tuple | list) and len(value) == 2):  # noqa: PLR2004 - a pair.
        refuse(TypeError, name, accepted, value)
    least, greatest = (check_number(name, each, accepted) for each in value)
    if not (0 < least <= greatest <= most and greatest < math.inf):
        refuse(ValueError, name, accepted, value)


def changes_pixels(augment: ImageAugment) -> bool:
    """Return whether pixels change after the resize, but for colours that every image changes."""
    always = augment.jitter == 1 or not augment.changes_colors
    return augment.policy is not None or not always or any(getattr(augment, name) for name in _PROBABILITIES[1:])


def check_has_colors(options: ImageOptions, augment: ImageAugment) -> None:
    if options.pix_fmt not in ("rgb24", "bgr24") and (changes_pixels(augment) or augment.changes_colors):
        accepted = "rgb24 or bgr24 with an `augment` that changes more than the place of pixels"
        refuse(ValueError, "pix_fmt", accepted, options.pix_fmt)


def make_changes(augment: ImageAugment, indices: Sequence[int], *, seed: int, epoch: int) -> Any:
    policy = augment.policy
    kind = {type(None): "none", RandAugment: "rand", TrivialAugment: "trivial"}[type(policy)]
    rand = policy if isinstance(policy, RandAugment) else RandAugment()
    probabilities = {name: getattr(augment, name) for name in _PROBABILITIES}
    if not augment.changes_colors:
        probabilities["jitter"] = 0
    ranges = random_color_jitter([], seed=0, epoch=0, **{name: getattr(augment, name) for name in _COLORS})
    return make_pixel_augment(
        indices,
        seed=seed,
        epoch=epoch,
        policy=kind,
        num_ops=rand.num_ops,
        magnitude=rand.magnitude,
        bins=1 if policy is None else policy.num_magnitude_bins,
        blur_sigma=augment.blur_sigma,
        blur_kernel=augment.blur_kernel or 0,
        solarize_threshold=augment.solarize_threshold,
        posterize_bits=augment.posterize_bits,
        sharpness_factor=augment.sharpness_factor,
        **{name: getattr(ranges, name) for name in _COLORS},
        **probabilities,
    )


# Separates the views of an image.
_VIEW = 5


def view_seed(seed: int, view: int) -> int:
    """Return the seed of one of the views of each image. The first one is what a single image would be."""
    return random_key(seed, view, _VIEW) if view else seed


class ImageEraser:
    def __init__(self, options: ImageOptions, augment: ImageAugment, seed: int) -> None:
        self._augment = augment
        self._seed = seed
        self._rows_first = options.layout == "NHWC"
        channels = PIXEL_FORMATS[options.pix_fmt]
        accepted = f"a finite number, or one for each of the {channels} channels"
        if options.dtype == "uint8":
            accepted += ", from 0 to 255 with `dtype='uint8'`"
        try:
            values = np.broadcast_to(np.asarray(augment.erase_value, np.float64), (channels,))
        except (TypeError, ValueError):
            refuse(ValueError, "erase_value", accepted, augment.erase_value)
        low, high = (0, _WHITE) if options.dtype == "uint8" else (-np.inf, np.inf)
        if not (np.isfinite(values) & (low <= values) & (values <= high)).all():
            refuse(ValueError, "erase_value", accepted, augment.erase_value)
        self._values = values.astype(options.dtype)

    def erase(self, images: Any, indices: Any, epoch: int) -> None:
        whole = isinstance(images, np.ndarray) and images.ndim == 4  # noqa: PLR2004 - a batch of images.
        channel = images.ndim - 1 if whole and self._rows_first else 1
        if not (whole and images.shape[channel] == len(self._values) and images.dtype == self._values.dtype):
            accepted = "None or a function that returns images of one shape and format, to erase parts of them"
            refuse(TypeError, "transform", accepted, images)
        augment = self._augment
        erase_rectangles(
            images,
            [int(index) for index in indices],
            seed=self._seed,
            epoch=epoch,
            rows_first=self._rows_first,
            probability=augment.erase,
            scale=augment.erase_scale,
            ratio=augment.erase_ratio,
            values=self._values,
        )
