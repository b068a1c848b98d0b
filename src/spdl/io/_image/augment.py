"""Random crops, flips and colours, which depend only on a seed, an epoch and the index of an image."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl._check import check_instance, check_int, check_number, refuse
from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.io._native import ColorJitter, RandomCrop

_LARGEST = (1 << 64) - 1


class DrawKey(NamedTuple):
    seed: int
    epoch: int
    indices: tuple[int, ...]


def draw_key(seed: int, epoch: int, indices: Iterable[int]) -> DrawKey:
    return DrawKey(_word("seed", seed), _word("epoch", epoch), tuple([_word("indices", index) for index in indices]))


def _word(name: str, value: object) -> int:
    if type(value) is int and 0 <= value <= _LARGEST:
        return value
    return check_int(name, value, least=0, most=_LARGEST)


Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels, right and bottom exclusive."""

_PROBABILITY = "a number from 0 to 1"


@dataclass(frozen=True)
class RandomResizedCrop:
    """Random crops for a batch, one for each image; made by `random_resized_crop`.

    Attributes:
        indices, seed, epoch, scale, ratio: As `random_resized_crop` describes them.

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
        TypeError: If `seed`, `epoch` or an index is not an integer, or a range is not a pair of numbers.
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
        indices, seed, epoch: As for `random_resized_crop`.
        probability: The probability that an image is flipped, from 0 to 1.

    Returns:
        A bool for each image, independent of the crop that `random_resized_crop` draws for it.

    Raises:
        TypeError: If `seed`, `epoch` or an index is not an integer, or `probability` is not a number.
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


Crop: TypeAlias = Sequence[Box] | RandomResizedCrop | Any
"""Boxes of pixels, one for each image, as a sequence or an integer array (B, 4), or random ones."""

Flip: TypeAlias = bool | Sequence[bool] | Any
"""One bool, or one for each image, as a sequence or a boolean array."""

_BOX_SIDES = 4
_LARGEST_INDEX = (1 << 31) - 1


def resolve_crop(crop: Crop | None, count: int) -> tuple[list[Box], RandomCrop | None]:
    """Return the crops of `count` images as native code takes them: as boxes, or as the parameters to draw them by."""
    if crop is None:
        return [], None
    if isinstance(crop, RandomResizedCrop):
        _check_count("crop", crop.indices, count)
        return [], crop._to_native()  # noqa: SLF001 - our own class.
    rows: Any = crop.tolist() if hasattr(crop, "tolist") else crop
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        refuse(TypeError, "crop", "a box for each image, or what `random_resized_crop` returns", crop)
    boxes = [_box(row, index) for index, row in enumerate(rows)]
    _check_count("crop", boxes, count)
    return boxes, None


def resolve_flip(flip: Flip, count: int) -> list[bool]:
    """Return a bool for each of `count` images, or an empty list if none is flipped."""
    if isinstance(flip, bool):
        return [flip] * count if flip else []
    rows: Any = flip.tolist() if hasattr(flip, "tolist") else flip
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        refuse(TypeError, "flip", "a bool, or one for each image", flip)
    flips = list(rows)
    if not all(isinstance(each, bool) for each in flips):
        refuse(TypeError, "flip", "a bool, or one for each image", flip)
    _check_count("flip", flips, count)
    return flips


def _box(row: Any, index: int) -> Box:
    try:
        sides = tuple(side.__index__() for side in row)
    except (AttributeError, TypeError):
        sides = ()
    if len(sides) != _BOX_SIDES:
        refuse(TypeError, f"crop[{index}]", "four ints in pixels: left, top, right and bottom", row)
    left, top, right, bottom = sides
    if not (0 <= left < right <= _LARGEST_INDEX and 0 <= top < bottom <= _LARGEST_INDEX):
        accepted = "left, top, right and bottom, with 0 <= left < right and 0 <= top < bottom"
        refuse(ValueError, f"crop[{index}]", accepted, row)
    return left, top, right, bottom


def _check_count(name: str, given: Sequence[object], count: int) -> None:
    if len(given) != count:
        refuse(ValueError, name, f"given for each of the {count} images", given, f"There are {len(given)}.")


Range: TypeAlias = float | tuple[float, float]
"""How far a factor may go: a number x for 1 - x to 1 + x, or the least and the greatest."""

_PAIR = 2
_MOST_HUE = 0.5


@dataclass(frozen=True)
class RandomColorJitter:
    """Random changes of colour for a batch, one for each image; made by `random_color_jitter`.

    Attributes:
        indices, seed, epoch: As `random_color_jitter` describes them.
        brightness, contrast, saturation: The least and the greatest factor of each.
        hue: The least and the greatest turn of the hue.

    Example:
        >>> random_color_jitter([7], seed=1, epoch=0, brightness=0.4).brightness
        (0.6, 1.4)
    """

    indices: tuple[int, ...]
    seed: int
    epoch: int
    brightness: tuple[float, float]
    contrast: tuple[float, float]
    saturation: tuple[float, float]
    hue: tuple[float, float]

    def steps(self) -> list[list[tuple[str, float]]]:
        """Return the names and factors of the steps for each image, in the order in which they are taken.

        Returns:
            For each image four pairs: ``"brightness"``, ``"contrast"``, ``"saturation"`` and ``"hue"``, in any order,
            and the factor that was drawn, for hue the turn.
        """
        jitter = self._to_native()
        return [jitter.draw(index) for index in self.indices]

    def _to_native(self) -> ColorJitter:
        return native.ColorJitter(
            seed=self.seed,
            epoch=self.epoch,
            brightness=self.brightness,
            contrast=self.contrast,
            saturation=self.saturation,
            hue=self.hue,
            indices=list(self.indices),
        )


def random_color_jitter(
    indices: Iterable[int],
    *,
    seed: int,
    epoch: int,
    brightness: Range = 0.0,
    contrast: Range = 0.0,
    saturation: Range = 0.0,
    hue: Range = 0.0,
) -> RandomColorJitter:
    """Return random changes of colour for ``load_image_batch(..., jitter=...)``.

    They have the distribution and the formulas of torchvision's ``ColorJitter``: factors are drawn uniformly, and the
    four steps are taken in a random order. Brightness multiplies the values, contrast moves them from the mean gray of
    the image, and saturation from the gray of the pixel. Hue turns the circle of colours of HSV. Each step works on
    floats and bounds them by black and white; the result is rounded to bytes once. The change of an image depends only
    on `seed`, `epoch` and its index: not on the batch, the order, the number of workers or other draws.

    Args:
        indices, seed, epoch: As for `random_resized_crop`.
        brightness, contrast, saturation: A number x for factors from ``max(0, 1 - x)`` to ``1 + x``, or the least and
            the greatest factor. 0 changes nothing.
        hue: A number x for turns from -x to x, or the least and the greatest; a whole turn is 1, and 0.5 is the most.

    Returns:
        An argument ``jitter`` for `load_image_batch`, which draws the factors of each image.

    Raises:
        TypeError: If `seed`, `epoch` or an index is not an integer, or a range is neither a number nor a pair of
            numbers.
        ValueError: If a number is out of range, or a range is empty.

    Example:
        >>> jitter = random_color_jitter([17, 4], seed=1, epoch=0, brightness=0.4, contrast=0.4, hue=0.1)
        >>> load_image_batch([photo, photo], width=224, height=224, mode="crop", jitter=jitter).shape
        (2, 224, 224, 3)
    """
    key = draw_key(seed, epoch, indices)
    return RandomColorJitter(
        key.indices,
        key.seed,
        key.epoch,
        _factors("brightness", brightness),
        _factors("contrast", contrast),
        _factors("saturation", saturation),
        _turns(hue),
    )


def _factors(name: str, value: Any) -> tuple[float, float]:
    accepted = "a number of at least 0, or two factors, 0 <= least <= greatest"
    if isinstance(value, tuple | list):
        least, greatest = _pair(name, value, accepted)
    else:
        number = check_number(name, value, accepted)
        if number < 0:
            refuse(ValueError, name, accepted, value)
        least, greatest = max(0.0, 1 - number), 1 + number
    if not 0 <= least <= greatest < float("inf"):
        refuse(ValueError, name, accepted, value)
    return least, greatest


def _turns(value: Any) -> tuple[float, float]:
    accepted = "a number from 0 to 0.5, or two turns, -0.5 <= least <= greatest <= 0.5"
    if isinstance(value, tuple | list):
        least, greatest = _pair("hue", value, accepted)
    else:
        greatest = check_number("hue", value, accepted)
        least = -greatest
    if not -_MOST_HUE <= least <= greatest <= _MOST_HUE:
        refuse(ValueError, "hue", accepted, value)
    return least, greatest


def _pair(name: str, value: Any, accepted: str) -> tuple[float, float]:
    if len(value) != _PAIR:
        refuse(ValueError, name, accepted, value)
    return check_number(name, value[0], accepted), check_number(name, value[1], accepted)


def resolve_jitter(jitter: RandomColorJitter | None, count: int, pix_fmt: str | None) -> ColorJitter | None:
    """Return the changes of colour of `count` images as native code takes them."""
    if jitter is None:
        return None
    check_instance("jitter", jitter, RandomColorJitter, "what `random_color_jitter` returns, or None")
    if len(jitter.indices) != count:
        there = f"There are {len(jitter.indices)}."
        refuse(ValueError, "jitter", f"given for each of the {count} images", jitter.indices, there)
    if pix_fmt == "gray":
        refuse(ValueError, "jitter", "None with `pix_fmt='gray'`, which has no colours", jitter)
    return jitter._to_native()  # noqa: SLF001 - our own class.
