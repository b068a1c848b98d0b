"""Random changes of colour, which depend only on a seed, an epoch and the index of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from spdl._check import check_number, refuse
from spdl.io._common.native import native
from spdl.io._image.draw_key import draw_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spdl.io._native import ColorJitter

Range: TypeAlias = float | tuple[float, float]
"""How far a factor may go: a number x for 1 - x to 1 + x, or the least and the greatest."""

_PAIR = 2
_MOST_HUE = 0.5


@dataclass(frozen=True)
class RandomColorJitter:
    """Random changes of colour for a batch, one for each image; made by `random_color_jitter`.

    Attributes:
        indices: For each image, its index in the dataset.
        seed: The seed of the run.
        epoch: The number of the pass over the data.
        brightness: The least and the greatest factor of brightness.
        contrast: The least and the greatest factor of contrast.
        saturation: The least and the greatest factor of saturation.
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
        indices: For each image of the batch, its index in the dataset.
        seed: The seed of the run, from 0 to 2**64 - 1.
        epoch: The number of the pass over the data, from 0 to 2**64 - 1.
        brightness: A number x for factors from ``max(0, 1 - x)`` to ``1 + x``, or the least and the greatest factor. 0
            changes nothing.
        contrast: The same for contrast.
        saturation: The same for saturation.
        hue: A number x for turns from -x to x, or the least and the greatest; a whole turn is 1, and 0.5 is the most.

    Returns:
        An argument ``jitter`` for `load_image_batch`, which draws the factors of each image.

    Raises:
        TypeError: If `seed`, `epoch` or an index is no integer, or a range is neither a number nor a pair of numbers.
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
    """Return the changes of colour of `count` images as native code takes them.

    Raises:
        TypeError, ValueError: If they are something else, or for another number of images, or there are no colours.
    """
    if jitter is None:
        return None
    if not isinstance(jitter, RandomColorJitter):
        _refuse(jitter)
    if len(jitter.indices) != count:
        there = f"There are {len(jitter.indices)}."
        refuse(ValueError, "jitter", f"given for each of the {count} images", jitter.indices, there)
    if pix_fmt == "gray":
        refuse(ValueError, "jitter", "None with `pix_fmt='gray'`, which has no colours", jitter)
    return jitter._to_native()  # noqa: SLF001 - our own class.


def _refuse(jitter: object) -> NoReturn:
    refuse(TypeError, "jitter", "what `random_color_jitter` returns, or None", jitter)
